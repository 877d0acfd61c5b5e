//! Places of words in documents that have pages, and of the values that were copied from them.
//!
//! # Cost
//! A search by halves for each span.

use std::ops::Range;

use serde_json::{Map, Value, json};

/// The place of a word of a text.
#[derive(Debug, Clone, PartialEq)]
pub struct WordPlace {
    /// Byte offsets in the text.
    pub bytes: Range<usize>,
    /// Number of the page; the first is 1.
    pub page: u32,
    /// Left, top, right and bottom edge, from the left upper corner of the page, in the units of the document.
    pub area: [f32; 4],
}

/// The places of the words of a text, in its order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Places(pub Vec<WordPlace>);

impl Places {
    /// Returns the page on which a part of the text begins, and the box around its words there.
    pub fn of(&self, bytes: &Range<usize>) -> Option<(u32, [f32; 4])> {
        let from = self.0.partition_point(|word| word.bytes.end <= bytes.start);
        let words = self.0[from..].iter().take_while(|word| word.bytes.start < bytes.end);
        words.fold(None, |all, word| match all {
            None => Some((word.page, word.area)),
            Some((page, _)) if page != word.page => all,
            Some((page, [left, top, right, bottom])) => {
                let [l, t, r, b] = word.area;
                Some((page, [left.min(l), top.min(t), right.max(r), bottom.max(b)]))
            }
        })
    }

    /// Adds `page` and `box` to the members of spans, whose offsets count from the start of the text.
    pub(super) fn add_to(&self, spans: &mut Map<String, Value>) {
        for span in spans.values_mut() {
            match span.get_mut("occurrences").and_then(Value::as_array_mut) {
                Some(list) => list.iter_mut().for_each(|span| self.add_to_span(span)),
                None => self.add_to_span(span),
            }
        }
    }

    /// Adds `page` and `box` to the members of a span.
    pub fn add_to_span(&self, span: &mut Value) {
        let offset = |at: usize| span["bytes"][at].as_u64().map(|offset| offset as usize);
        let Some(bytes) = offset(0).zip(offset(1)).map(|(start, end)| start..end) else { return };
        if let Some((page, area)) = self.of(&bytes) {
            span["page"] = json!(page);
            span["box"] = json!(area.map(|edge| (f64::from(edge) * 10.0).round() / 10.0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_have_the_box_of_their_words() {
        let word = |bytes: Range<usize>, page: u32, left: f32| WordPlace {
            bytes,
            page,
            area: [left, 10.0, left + 9.96, 20.0],
        };
        let places = Places(vec![word(0..3, 1, 0.0), word(4..7, 1, 20.0), word(8..11, 2, 5.0)]);
        assert_eq!(places.of(&(1..5)), Some((1, [0.0, 10.0, 29.96, 20.0])));
        assert_eq!(places.of(&(4..11)).unwrap().0, 1);
        assert_eq!(places.of(&(3..4)), None);
        let mut spans = Map::new();
        spans.insert("/a".into(), json!({"bytes": [8, 11], "chars": [8, 11]}));
        spans.insert("/b".into(), json!({"occurrences": [{"bytes": [0, 3]}, {"bytes": [20, 21]}]}));
        places.add_to(&mut spans);
        assert_eq!(spans["/a"]["page"], 2);
        assert_eq!(spans["/a"]["box"], json!([5.0, 10.0, 15.0, 20.0]));
        assert_eq!(spans["/b"]["occurrences"][0]["page"], 1);
        assert_eq!(spans["/b"]["occurrences"][1].get("page"), None);
    }
}
