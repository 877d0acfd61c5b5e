//! Functions on strings as Python has them. Positions count characters.

/// Characters between which Python breaks lines.
const LINE_ENDS: [char; 10] =
    ['\n', '\r', '\x0b', '\x0c', '\x1c', '\x1d', '\x1e', '\u{85}', '\u{2028}', '\u{2029}'];
/// Zeros of the common scripts; nine more digits follow each.
const ZEROS: [u32; 18] = [
    0x30, 0x660, 0x6f0, 0x7c0, 0x966, 0x9e6, 0xa66, 0xae6, 0xb66, 0xbe6, 0xc66, 0xce6, 0xd66, 0xe50, 0xed0,
    0xf20, 0x17e0, 0xff10,
];

pub(super) fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\x1c'..='\x1f').contains(&c)
}

pub(super) fn is_decimal(c: char) -> bool {
    ZEROS.iter().any(|zero| (*zero..zero + 10).contains(&u32::from(c)))
}

/// Digits that are not decimal, too: raised, lowered and circled ones.
pub(super) fn is_digit(c: char) -> bool {
    is_decimal(c)
        || matches!(c, '²' | '³' | '¹' | '⁰' | '\u{2074}'..='\u{2079}' | '\u{2080}'..='\u{2089}' | '\u{2460}'..='\u{2468}')
}

fn is_cased(c: char) -> bool {
    c.is_lowercase() || c.is_uppercase()
}

/// Strips the given characters, or white space.
pub(super) fn strip<'a>(text: &'a str, chars: Option<&str>, left: bool, right: bool) -> &'a str {
    let drop = |c: char| chars.map_or_else(|| is_space(c), |chars| chars.contains(c));
    let text = if left { text.trim_start_matches(drop) } else { text };
    if right { text.trim_end_matches(drop) } else { text }
}

/// Splits at a separator, at most `limit` times from the left.
pub(super) fn split<'a>(text: &'a str, separator: Option<&str>, limit: Option<usize>) -> Vec<&'a str> {
    let limit = limit.unwrap_or(usize::MAX);
    if let Some(separator) = separator {
        return text.splitn(limit.saturating_add(1), separator).collect();
    }
    let mut parts = Vec::new();
    let mut rest = text.trim_start_matches(is_space);
    while !rest.is_empty() {
        if parts.len() == limit {
            parts.push(rest);
            break;
        }
        let (part, more) = rest.split_at(rest.find(is_space).unwrap_or(rest.len()));
        parts.push(part);
        rest = more.trim_start_matches(is_space);
    }
    parts
}

/// Splits at a separator, at most `limit` times from the right.
pub(super) fn rsplit<'a>(text: &'a str, separator: Option<&str>, limit: Option<usize>) -> Vec<&'a str> {
    let limit = limit.unwrap_or(usize::MAX);
    let mut parts: Vec<&str> = match separator {
        Some(separator) => text.rsplitn(limit.saturating_add(1), separator).collect(),
        None => Vec::new(),
    };
    let mut rest = if separator.is_some() { "" } else { text.trim_end_matches(is_space) };
    while !rest.is_empty() {
        if parts.len() == limit {
            parts.push(rest);
            break;
        }
        let part = rest.rsplit(is_space).next().unwrap_or_default();
        parts.push(part);
        rest = rest[..rest.len() - part.len()].trim_end_matches(is_space);
    }
    parts.reverse();
    parts
}

/// Splits at line ends, which are kept if asked for.
pub(super) fn lines(text: &str, keep: bool) -> Vec<&str> {
    let mut lines = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let at = rest.find(LINE_ENDS).unwrap_or(rest.len());
        let end = match rest[at..].chars().next() {
            Some('\r') if rest[at..].starts_with("\r\n") => at + 2,
            Some(c) => at + c.len_utf8(),
            None => at,
        };
        lines.push(&rest[..if keep { end } else { at }]);
        rest = &rest[end..];
    }
    lines
}

/// Returns the text before the separator, the separator and the text after it.
pub(super) fn partition<'a>(text: &'a str, separator: &'a str, last: bool) -> [&'a str; 3] {
    let found = if last { text.rsplit_once(separator) } else { text.split_once(separator) };
    match found {
        Some((before, after)) => [before, separator, after],
        None if last => ["", "", text],
        None => [text, "", ""],
    }
}

/// Returns the part between two positions, and the position at which it begins; `None` if it ends
/// before it begins.
pub(super) fn part(text: &str, start: Option<i64>, end: Option<i64>) -> Option<(usize, &str)> {
    let length = text.chars().count();
    let place = |at: i64| match usize::try_from(at) {
        Ok(at) => at,
        Err(_) => length.saturating_sub(usize::try_from(at.unsigned_abs()).unwrap_or(usize::MAX)),
    };
    let (start, end) = (place(start.unwrap_or(0)), end.map_or(length, place).min(length));
    let byte = |at: usize| text.char_indices().nth(at).map_or(text.len(), |(byte, _)| byte);
    (start <= end).then(|| (start, &text[byte(start)..byte(end)]))
}

/// Returns the first or the last position of a text within another.
pub(super) fn find(text: &str, part: &str, last: bool) -> Option<usize> {
    let at = if last { text.rfind(part) } else { text.find(part) }?;
    Some(text[..at].chars().count())
}

/// Pads a text to a width.
pub(super) fn pad(text: &str, width: usize, fill: char, left: bool, right: bool) -> String {
    let missing = width.saturating_sub(text.chars().count());
    // Python puts the odd character on the left if the width is odd, too.
    let before = match (left, right) {
        (true, true) => missing / 2 + (missing & width & 1),
        (true, false) => missing,
        _ => 0,
    };
    let fill = |n: usize| std::iter::repeat_n(fill, n);
    fill(before).chain(text.chars()).chain(fill(missing - before)).collect()
}

/// Fills a number with zeros, behind its sign.
pub(super) fn zero_fill(text: &str, width: usize) -> String {
    let sign = &text[..usize::from(text.starts_with(['+', '-']))];
    let digits = pad(&text[sign.len()..], width.saturating_sub(sign.len()), '0', true, false);
    format!("{sign}{digits}")
}

/// Replaces tabs by blanks up to the next multiple of `width` in a line.
pub(super) fn expand_tabs(text: &str, width: usize) -> String {
    let (mut out, mut column) = (String::with_capacity(text.len()), 0);
    for c in text.chars() {
        match c {
            '\t' => {
                let blanks = if width == 0 { 0 } else { width - column % width };
                out.extend(std::iter::repeat_n(' ', blanks));
                column += blanks;
            }
            c => {
                out.push(c);
                column = if matches!(c, '\n' | '\r') { 0 } else { column + 1 };
            }
        }
    }
    out
}

/// Writes the first letter of each word in upper case, where letters follow others.
pub(super) fn title(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut inside = false;
    for c in text.chars() {
        match inside {
            true => out.extend(c.to_lowercase()),
            false => push_title(c, &mut out),
        }
        inside = is_cased(c);
    }
    out
}

pub(super) fn capitalize(text: &str) -> String {
    let mut chars = text.chars();
    let mut out = String::with_capacity(text.len());
    if let Some(first) = chars.next() {
        push_title(first, &mut out);
    }
    out + &chars.as_str().to_lowercase()
}

/// Of a letter that has two upper-case letters, only the first is in upper case.
fn push_title(c: char, out: &mut String) {
    let mut upper = c.to_uppercase();
    out.extend(upper.next());
    upper.for_each(|c| out.extend(c.to_lowercase()));
}

pub(super) fn swap_case(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match () {
            () if c.is_lowercase() => out.extend(c.to_uppercase()),
            () if c.is_uppercase() => out.extend(c.to_lowercase()),
            () => out.push(c),
        }
    }
    out
}

/// Returns a text for comparison without case: the lower case of the upper case.
pub(super) fn case_fold(text: &str) -> String {
    let fold = |c: char| -> String {
        if c == 'ı' { c.into() } else { c.to_uppercase().flat_map(char::to_lowercase).collect() }
    };
    text.chars().map(fold).collect()
}

/// Returns true if words begin with upper case and continue with lower case, and there are some.
pub(super) fn is_title(text: &str) -> bool {
    let (mut inside, mut found) = (false, false);
    for c in text.chars() {
        if (c.is_uppercase() && inside) || (c.is_lowercase() && !inside) {
            return false;
        }
        inside = is_cased(c);
        found |= inside;
    }
    found
}

pub(super) fn is_identifier(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some_and(|c| c == '_' || c.is_alphabetic())
        && chars.all(|c| c == '_' || c.is_alphanumeric())
}
