//! JSON pointer of the value in which an unfinished JSON text stops, for exact finish reasons.

/// Returns the JSON pointer of the value at the end of `text`; empty at the top level or if the
/// text is not JSON. Takes one pass over the bytes.
pub(super) fn json_path(text: &[u8]) -> String {
    let mut scan = Scan::default();
    for &b in text {
        scan.byte(b);
    }
    scan.path()
}

enum PointerStep {
    /// An array and the index of its current item.
    Item(usize),
    /// An object, its current key, and whether the value has begun.
    Member { key: String, in_value: bool },
}

#[derive(Default)]
struct Scan {
    stack: Vec<PointerStep>,
    in_string: bool,
    escaped: bool,
    string: Vec<u8>,
}

impl Scan {
    fn byte(&mut self, b: u8) {
        if self.in_string {
            match b {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                b'"' => {
                    self.in_string = false;
                    let text = String::from_utf8_lossy(&self.string).into_owned();
                    if let Some(PointerStep::Member { key, in_value: false }) = self.stack.last_mut() {
                        *key = text;
                    }
                    return;
                }
                _ => {}
            }
            self.string.push(b);
            return;
        }
        match b {
            b'"' => {
                self.in_string = true;
                self.string.clear();
            }
            b'{' => self.stack.push(PointerStep::Member { key: String::new(), in_value: false }),
            b'[' => self.stack.push(PointerStep::Item(0)),
            b'}' | b']' => drop(self.stack.pop()),
            b':' => {
                if let Some(PointerStep::Member { in_value, .. }) = self.stack.last_mut() {
                    *in_value = true;
                }
            }
            b',' => match self.stack.last_mut() {
                Some(PointerStep::Item(index)) => *index += 1,
                Some(PointerStep::Member { key, in_value }) => {
                    key.clear();
                    *in_value = false;
                }
                None => {}
            },
            _ => {}
        }
    }

    fn path(&self) -> String {
        let mut path = String::new();
        for place in &self.stack {
            match place {
                PointerStep::Item(index) => path.push_str(&format!("/{index}")),
                PointerStep::Member { key, in_value: true } => {
                    path.push('/');
                    path.push_str(&key.replace('~', "~0").replace('/', "~1"));
                }
                PointerStep::Member { .. } => {}
            }
        }
        path
    }
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
            ("not json", ""),
            ("]]}}", ""),
        ] {
            assert_eq!(json_path(text.as_bytes()), path, "{text}");
        }
    }
}
