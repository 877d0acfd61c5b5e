//! JSON pointer of the value in which an unfinished JSON text stops, for exact finish reasons.

use crate::json_scan::JsonScan;

/// Returns the JSON pointer of the value at the end of `text`; empty at the top level or if the
/// text is not JSON. Takes one pass over the bytes.
pub(super) fn json_path(text: &[u8]) -> String {
    let mut scan = JsonScan::of_all_values(usize::MAX);
    text.iter().for_each(|&byte| {
        scan.feed(byte);
    });
    scan.pointer(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_unfinished_texts() {
        for (text, path) in [
            ("", ""),
            ("{\"a\":", "/a"),
            ("{\"a\":1,\"b", ""),
            ("{\"a\":[1,{\"x/y\":\"tr\\\"", "/a/1/x~1y"),
            ("[[],[0,", "/1/1"),
            ("{\"a\\nb\":", "/a\nb"),
            ("not json", ""),
            ("]]}}", ""),
        ] {
            assert_eq!(json_path(text.as_bytes()), path, "{text}");
        }
    }
}
