//! Habits of white space: what a model that may indent JSON will probably write next.
//!
//! # Cost
//! One pass over the end of the text. It guesses for drafts, so text that is no JSON, or braces inside of
//! strings, cost a rejected draft at most.

/// Returns the white space that probably comes before `next`, the next byte that is none: what is missing
/// of it, if the text ends with a part of it.
pub(super) fn before(text: &[u8], next: u8) -> Vec<u8> {
    let blank = |byte: &u8| b" \t\n\r".contains(byte);
    let begun = text.iter().rev().take_while(|byte| blank(byte)).count();
    let (head, begun) = text.split_at(text.len() - begun);
    let likely = match (head.last(), next) {
        (_, b',' | b':') | (None, _) => Vec::new(),
        (Some(b':'), _) => behind_colon(&head[..head.len() - 1]).to_vec(),
        (Some(b'{' | b'['), b'}' | b']') => Vec::new(),
        (Some(b'{' | b'['), _) => deeper(head, 1),
        (_, b'}' | b']') => deeper(head, -1),
        _ => deeper(head, 0),
    };
    likely.strip_prefix(begun).map_or_else(Vec::new, <[u8]>::to_vec)
}

/// Returns true if a text ends with the quotation mark that probably begins a key.
pub(super) fn begins_key(text: &[u8]) -> bool {
    text.strip_suffix(b"\"").is_some_and(|before| {
        let last = before.iter().rev().find(|byte| !b" \t\n\r".contains(byte));
        matches!(last, Some(b'{' | b','))
    })
}

/// Returns the white space behind a byte.
fn behind(text: &[u8], at: usize) -> &[u8] {
    let rest = &text[at + 1..];
    let blanks = rest.iter().take_while(|byte| b" \t\n\r".contains(byte)).count();
    &rest[..blanks]
}

/// Returns the white space behind the last colon; a blank if there is none.
fn behind_colon(text: &[u8]) -> &[u8] {
    text.iter().rposition(|byte| *byte == b':').map_or(b" ", |at| behind(text, at))
}

/// Returns the white space in front of an item: in the innermost open container (0), in one that has
/// just begun (1), or before its end (-1).
fn deeper(text: &[u8], levels: i32) -> Vec<u8> {
    let opened = if levels > 0 { &text[..text.len() - 1] } else { text };
    let (mut depth, mut own) = (0, None);
    let mut outermost = None;
    for (at, byte) in opened.iter().enumerate().rev() {
        match byte {
            b'}' | b']' => depth += 1,
            b'{' | b'[' if depth > 0 => depth -= 1,
            b'{' | b'[' => {
                own.get_or_insert(at);
                outermost = Some(at);
            }
            b',' if depth == 0 && own.is_none() && at + 1 < opened.len() => own = Some(at),
            _ => {}
        }
    }
    let Some(own) = own else { return Vec::new() };
    let own = behind(text, own);
    let Some(indent) = own.strip_prefix(b"\n") else {
        return match levels {
            // All of it is on one line, with or without blanks.
            0 if own.is_empty() => behind_colon(text).to_vec(),
            0 => own.to_vec(),
            1 => outermost.map_or_else(Vec::new, |at| behind(text, at).to_vec()),
            _ => Vec::new(),
        };
    };
    let unit = outermost.map_or(0, |at| behind(text, at).len().saturating_sub(1));
    let blanks = match levels {
        1 => indent.len() + unit,
        0 => indent.len(),
        _ => indent.len().saturating_sub(unit),
    };
    let blank = indent.first().copied().unwrap_or(b' ');
    [vec![b'\n'], vec![blank; blanks]].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indented_and_plain_json_go_on_as_they_began() {
        let indented = "Well, (a) {x}.\n{\n  \"a\": {\n    \"b\": [1, 2],\n    \"c\": 3\n  },\n  \"d\": 4\n}";
        let plain = r#"{"a": {"b": [1, 2], "c": 3}, "d": 4}"#;
        let (mut guessed, mut right) = ([0; 2], [0; 2]);
        for (i, text) in [indented, plain].into_iter().enumerate() {
            let start = text.find("\"a\"").unwrap();
            for at in start + 1..text.len() {
                let next = text.as_bytes()[at];
                if next.is_ascii_whitespace() || !text.as_bytes()[at - 1].is_ascii_whitespace() {
                    continue;
                }
                // From every part of the white space.
                let blanks = text[..at].len() - text[..at].trim_end().len();
                for begun in 0..=blanks {
                    let head = &text.as_bytes()[..at - begun];
                    guessed[i] += 1;
                    right[i] += usize::from(before(head, next) == text.as_bytes()[at - begun..at]);
                }
            }
        }
        assert_eq!((guessed[0] - right[0], guessed[1] - right[1]), (0, 0), "{guessed:?} {right:?}");
        for (text, next) in [("", b'{'), ("abc", b'"'), ("}}]", b'}'), ("{\"a\"", b':'), ("{", b'}')] {
            assert_eq!(before(text.as_bytes(), next), b"");
        }
    }
}
