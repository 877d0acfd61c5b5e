//! Finds the end of a JSON object or array that arrives in parts.

/// The state of the search.
#[derive(Debug, Default)]
pub(super) struct JsonEnd {
    depth: usize,
    in_string: bool,
    escaped: bool,
}

impl JsonEnd {
    /// Reads more text of a value. Returns the number of bytes that belong to it, and whether it has
    /// ended.
    pub fn read(&mut self, text: &str) -> (usize, bool) {
        for (i, byte) in text.bytes().enumerate() {
            if self.in_string {
                match byte {
                    _ if self.escaped => self.escaped = false,
                    b'\\' => self.escaped = true,
                    b'"' => self.in_string = false,
                    _ => {}
                }
                continue;
            }
            match byte {
                b'"' => self.in_string = true,
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.depth == 0 {
                        return (i + 1, true);
                    }
                }
                _ => {}
            }
        }
        (text.len(), false)
    }
}
