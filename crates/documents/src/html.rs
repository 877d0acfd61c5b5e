//! Web pages: the text that a reader sees, with a line for each block and each row of a table.
//!
//! # Cost
//! Parsing as browsers do, and one pass over the tree.

use ego_tree::iter::Edge;
use ffwd_engine::{Error, ErrorKind, Result};
use scraper::node::Element;
use scraper::{Html as Parsed, Node};

use crate::document::Text;
use crate::reader::{DocumentKind, Nested};

/// Largest number of elements inside each other. Parsing looks at all of them for each element.
const MAX_OPEN: usize = 10_000;
/// Largest number of elements that a parser may add because elements around text are not closed.
const MAX_REPEATED: usize = 50_000_000;
/// Elements that end by themselves.
const ENDED: [&str; 26] = [
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr",
    "p", "li", "dt", "dd", "tr", "td", "th", "tbody", "thead", "tfoot", "option", "optgroup", "colgroup",
];
/// Elements around text that a parser opens again where blocks end them.
const FORMATS: [&str; 14] =
    ["a", "b", "big", "code", "em", "font", "i", "nobr", "s", "small", "strike", "strong", "tt", "u"];

pub(crate) struct Html;

impl DocumentKind for Html {
    fn endings(&self) -> &'static [&'static str] {
        &["html", "htm", "xhtml"]
    }

    fn read(&self, bytes: &[u8], _: Nested<'_>) -> Result<Vec<Text>> {
        Ok(vec![Text { text: text(&decode(bytes))?, ..Text::default() }])
    }
}

/// Decodes a page: by its mark, as UTF-8, by what it says of itself, or as windows-1252.
pub(crate) fn decode(bytes: &[u8]) -> String {
    if let Some((encoding, mark)) = encoding_rs::Encoding::for_bom(bytes) {
        return encoding.decode_without_bom_handling(&bytes[mark..]).0.into_owned();
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        return text.to_owned();
    }
    let head = String::from_utf8_lossy(&bytes[..bytes.len().min(2048)]).to_ascii_lowercase();
    let named = head.split_once("charset=").map(|(_, rest)| rest.trim_start_matches(['"', '\'']));
    let name = named.and_then(|rest| rest.split(['"', '\'', ';', '>', '/', ' ', '?']).next());
    let encoding = name.and_then(|name| encoding_rs::Encoding::for_label(name.as_bytes()));
    encoding.unwrap_or(encoding_rs::WINDOWS_1252).decode_without_bom_handling(bytes).0.into_owned()
}

/// Parses a page.
///
/// # Errors
/// `TooComplex` if so many elements stay open that parsing could take a time, or make a tree, without bound.
pub(crate) fn parse(page: &str) -> Result<Parsed> {
    let (mut depth, mut deepest, mut formats, mut blocks) = (0usize, 0, 0usize, 0usize);
    for (at, _) in page.match_indices('<') {
        let rest = &page[at + 1..];
        let (closes, rest) = rest.strip_prefix('/').map_or((false, rest), |rest| (true, rest));
        let length = rest.bytes().take_while(u8::is_ascii_alphanumeric).count();
        let name = rest[..length].to_ascii_lowercase();
        let step = |count: usize| if closes { count.saturating_sub(1) } else { count + 1 };
        match FORMATS.contains(&&*name) {
            true => formats = step(formats),
            // Elements that are opened anew in each block behind them.
            false => blocks += formats,
        }
        if !name.is_empty() && !ENDED.contains(&&*name) {
            depth = step(depth);
            deepest = deepest.max(depth);
        }
    }
    if deepest > MAX_OPEN || blocks > MAX_REPEATED {
        let message = format!("too many of its elements are not closed ({deepest} inside each other)");
        return Err(Error::new(ErrorKind::TooComplex, message));
    }
    Ok(Parsed::parse_document(page))
}

/// Returns the text of a page that a reader sees.
///
/// # Errors
/// As [`parse`].
pub(crate) fn text(page: &str) -> Result<String> {
    let parsed = parse(page)?;
    let mut out = Lines::default();
    let mut hidden = 0;
    for edge in parsed.tree.root().traverse() {
        let (node, opens) = match edge {
            Edge::Open(node) => (node, true),
            Edge::Close(node) => (node, false),
        };
        match node.value() {
            Node::Element(element) if is_hidden(element) => {
                hidden = if opens { hidden + 1 } else { hidden - 1 };
            }
            Node::Element(element) if hidden == 0 => out.element(element, opens),
            Node::Text(text) if hidden == 0 && opens => out.push(text),
            _ => {}
        }
    }
    Ok(out.end())
}

fn is_hidden(element: &Element) -> bool {
    let style = element.attr("style").unwrap_or_default().to_ascii_lowercase().replace(' ', "");
    matches!(
        element.name(),
        "head" | "script" | "style" | "template" | "noscript" | "svg" | "iframe" | "datalist"
    ) || element.attr("hidden").is_some()
        || style.contains("display:none")
        || style.contains("visibility:hidden")
}

/// Lines of text in the making.
#[derive(Default)]
struct Lines {
    text: String,
    /// White space that is due before the next word: none, a blank, a gap between cells, or line breaks.
    due: Due,
    /// Number of elements around whose white space counts.
    preformatted: usize,
}

#[derive(Default, PartialEq, Eq, PartialOrd, Ord, Clone, Copy)]
enum Due {
    #[default]
    Nothing,
    Blank,
    Cell,
    Line,
    Paragraph,
}

impl Lines {
    fn element(&mut self, element: &Element, opens: bool) {
        match element.name() {
            "br" if opens => self.due = self.due.max(Due::Line),
            "td" | "th" => self.due = self.due.max(Due::Cell),
            "tr" | "li" | "dt" | "dd" | "div" | "option" | "caption" | "thead" | "tbody" | "tfoot"
            | "figcaption" => {
                self.due = self.due.max(Due::Line);
            }
            "p" | "h1" | "h2" | "h3" | "h4" | "h5" | "h6" | "ul" | "ol" | "dl" | "table" | "section"
            | "article" | "header" | "footer" | "main" | "nav" | "aside" | "blockquote" | "hr" | "form"
            | "fieldset" | "figure" | "address" => self.due = Due::Paragraph,
            "pre" | "textarea" => {
                self.due = Due::Paragraph;
                self.preformatted = if opens { self.preformatted + 1 } else { self.preformatted - 1 };
            }
            _ => {}
        }
    }

    fn push(&mut self, text: &str) {
        if self.preformatted > 0 {
            self.space();
            self.text.push_str(text);
            return;
        }
        let mut words = text.split_ascii_whitespace().peekable();
        if text.starts_with(|c: char| c.is_ascii_whitespace()) {
            self.due = self.due.max(Due::Blank);
        }
        while let Some(word) = words.next() {
            self.space();
            self.text.push_str(word);
            let more = words.peek().is_some() || text.ends_with(|c: char| c.is_ascii_whitespace());
            self.due = if more { Due::Blank } else { Due::Nothing };
        }
    }

    fn space(&mut self) {
        let due = std::mem::take(&mut self.due);
        if self.text.is_empty() {
            return;
        }
        self.text.push_str(match due {
            Due::Nothing => "",
            Due::Blank => " ",
            Due::Cell => "  ",
            Due::Line => "\n",
            Due::Paragraph => "\n\n",
        });
    }

    fn end(mut self) -> String {
        self.text.truncate(self.text.trim_end().len());
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_reader_sees_is_text() {
        for (page, want) in [
            ("<p>a  b\n c<br>d</p><p>e</p>", "a b c\nd\n\ne\n"),
            ("<table><tr><th>No<th>Price<tr><td>1<td><b>2</b>.50</table>x", "No  Price\n1  2.50\n\nx\n"),
            ("<ul><li>a<li>b</ul><div>c<div>d</div></div>", "a\nb\n\nc\nd\n"),
            ("<script>x</script><p hidden>y<p style='display: none'>z</p>&amp;&nbsp;&#8364;", "&\u{a0}€\n"),
            ("<pre>a\n  b</pre>c", "a\n  b\n\nc\n"),
            ("", ""),
        ] {
            assert_eq!(text(page).unwrap(), want, "{page}");
        }
        assert_eq!(text(&("<div>".repeat(5_000) + "x")).unwrap(), "x\n");
        assert!(text(&"<div>".repeat(100_000)).is_err());
        let formats: String = (0..9_000).map(|i| format!("<font size={i}>")).collect();
        assert!(text(&(formats + &"<div>x</div>".repeat(10_000))).is_err());
    }

    #[test]
    fn pages_are_decoded_as_they_say() {
        assert_eq!(decode(b"<meta charset=\"iso-8859-2\">\xb3"), "<meta charset=\"iso-8859-2\">ł");
        assert_eq!(decode(b"\x80"), "€");
        assert_eq!(decode("é".as_bytes()), "é");
        assert_eq!(decode(b"\xff\xfea\0"), "a");
    }
}
