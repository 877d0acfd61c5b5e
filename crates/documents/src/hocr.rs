//! hOCR: text that a program has recognised in images, with the box of each word.
//!
//! # Cost
//! That of reading a web page.

use ego_tree::iter::Edge;
use ffwd_engine::Result;
use scraper::Node;
use scraper::node::Element;

use crate::document::Text;
use crate::html::{decode, parse};
use crate::reader::{DocumentKind, Nested, broken};

/// Bytes in which the marks of hOCR are looked for.
const HEAD: usize = 4096;

pub(crate) struct Hocr;

impl DocumentKind for Hocr {
    fn endings(&self) -> &'static [&'static str] {
        &["hocr"]
    }

    fn is_begin(&self, bytes: &[u8]) -> bool {
        let head = &bytes[..bytes.len().min(HEAD)];
        // A text that only speaks of hOCR is none.
        head.trim_ascii_start().starts_with(b"<")
            && [&b"ocr-system"[..], b"ocr_page"]
                .iter()
                .any(|mark| head.windows(mark.len()).any(|part| part == *mark))
    }

    fn read(&self, bytes: &[u8], _: Nested<'_>) -> Result<Vec<Text>> {
        let parsed = parse(&decode(bytes))?;
        let (mut out, mut page) = (Text::default(), 0);
        // The box of the word that is open, and what there is of it.
        let mut word: Option<([f32; 4], String)> = None;
        for edge in parsed.tree.root().traverse() {
            match edge {
                Edge::Open(node) => match node.value() {
                    Node::Element(element) if is(element, "ocr_page") => {
                        if page > 0 {
                            end_line(&mut out);
                            out.end_page();
                        }
                        page += 1;
                    }
                    Node::Element(element) if is(element, "ocrx_word") || is(element, "ocr_word") => {
                        word = area(element).map(|area| (area, String::new()));
                    }
                    Node::Text(text) => {
                        if let Some((_, word)) = &mut word {
                            word.push_str(text.trim());
                        }
                    }
                    _ => {}
                },
                Edge::Close(node) => match node.value() {
                    Node::Element(element) if is(element, "ocr_line") || is(element, "ocr_header") => {
                        end_line(&mut out);
                    }
                    Node::Element(element) if is(element, "ocr_par") => {
                        end_line(&mut out);
                        out.text.push('\n');
                    }
                    Node::Element(element) if is(element, "ocrx_word") || is(element, "ocr_word") => {
                        if let Some((area, word)) = word.take().filter(|(_, word)| !word.is_empty()) {
                            if !out.text.is_empty() && !out.text.ends_with(['\n', '\u{c}']) {
                                out.text.push(' ');
                            }
                            out.push(&word, page.max(1), area);
                        }
                    }
                    _ => {}
                },
            }
        }
        if page == 0 {
            return Err(broken("hOCR", &"it has no element of the class `ocr_page`"));
        }
        end_line(&mut out);
        out.end_page();
        Ok(vec![out])
    }
}

fn end_line(out: &mut Text) {
    if !out.text.is_empty() && !out.text.ends_with(['\n', '\u{c}']) {
        out.text.push('\n');
    }
}

fn is(element: &Element, class: &str) -> bool {
    element.classes().any(|own| own == class)
}

/// Returns the box in a title such as `bbox 36 92 96 116; x_wconf 96`.
fn area(element: &Element) -> Option<[f32; 4]> {
    let (_, rest) = element.attr("title")?.split_once("bbox ")?;
    let numbers = rest.split([' ', ';']).map_while(|number| number.parse().ok());
    numbers.take(4).collect::<Vec<f32>>().try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reader::ALONE;

    #[test]
    fn words_have_their_boxes() {
        let page = r#"<div class='ocr_page' title='bbox 0 0 600 800'><p class='ocr_par'><span class='ocr_line'>
            <span class='ocrx_word' title='bbox 10 20 50 30; x_wconf 90'><em>Total</em></span>
            <span class='ocrx_word' title='bbox 60 20 90 30'>12.50</span></span></p></div>
            <div class='ocr_page'><span class='ocr_line'><span class='ocrx_word' title='bbox 1 2 3 4'>End</span></span></div>"#;
        let text = &Hocr.read(page.as_bytes(), ALONE).unwrap()[0];
        assert_eq!(text.text, "Total 12.50\n\n\u{c}End\n\u{c}");
        let pieces: Vec<_> =
            text.words.iter().map(|word| (&text.text[word.bytes.clone()], word.page)).collect();
        assert_eq!(pieces, [("Total", 1), ("12.50", 1), ("End", 2)]);
        assert_eq!(text.words[0].area, [10.0, 20.0, 50.0, 30.0]);
        assert!(Hocr.read(b"<p>x</p>", ALONE).is_err());
        assert!(Hocr.is_begin(page.as_bytes()) && !Hocr.is_begin(b"An ocr_page is an element."));
    }
}
