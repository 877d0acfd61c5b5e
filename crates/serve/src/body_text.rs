//! Surrogates in the texts of clients.
//!
//! A client that cuts a text of UTF-16 inside of a character sends half of a surrogate pair: as an
//! escape of JSON, or as three bytes that are no UTF-8. Each one that stands alone becomes U+FFFD.
//!
//! # Cost
//! One pass over the text, which is not copied; a second one over bytes that are no UTF-8.
//!
//! # Alternatives considered
//! To replace all bytes that are no UTF-8 was rejected: a text in another encoding would be read as
//! garbage without an error.

/// Returns the text of a body, in which no surrogate stands alone; `None` if other bytes are no UTF-8.
pub(super) fn body_text(bytes: Vec<u8>) -> Option<String> {
    let text = match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => utf8_of(error.as_bytes())?,
    };
    Some(without_lone_escapes(text))
}

/// Decodes UTF-8 in which surrogates may be written as characters of their own.
fn utf8_of(mut rest: &[u8]) -> Option<String> {
    let mut text = String::new();
    while let Err(error) = std::str::from_utf8(rest) {
        let (valid, after) = rest.split_at(error.valid_up_to());
        text.push_str(std::str::from_utf8(valid).ok()?);
        rest = after;
        let mut units = Vec::new();
        while let [0xed, second @ 0xa0..=0xbf, third @ 0x80..=0xbf, tail @ ..] = rest {
            units.push(0xd000 | (u16::from(second & 0x3f) << 6) | u16::from(third & 0x3f));
            rest = tail;
        }
        if units.is_empty() {
            return None;
        }
        text.push_str(&String::from_utf16_lossy(&units));
    }
    text.push_str(std::str::from_utf8(rest).ok()?);
    Some(text)
}

/// Replaces the escapes of surrogates that have no partner by one of U+FFFD, which is as long.
pub(super) fn without_lone_escapes(text: String) -> String {
    let mut bytes = text.into_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] != b'\\' {
            at += 1;
            continue;
        }
        match (escaped(&bytes[at..]), escaped(bytes.get(at + 6..).unwrap_or_default())) {
            (Some(0xd800..0xdc00), Some(0xdc00..0xe000)) => at += 12,
            (Some(0xd800..0xe000), _) => {
                bytes[at + 2..at + 6].copy_from_slice(b"fffd");
                at += 6;
            }
            _ => at += 2,
        }
    }
    // ASCII was replaced by ASCII.
    String::from_utf8(bytes).unwrap_or_default()
}

/// Returns the number of the escape by which a text begins.
fn escaped(text: &[u8]) -> Option<u16> {
    let digits =
        text.strip_prefix(b"\\u")?.get(..4).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit))?;
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reference is the decoder of UTF-16. Units are written as escapes, and as three bytes each.
    #[test]
    fn lone_surrogates_are_replaced() {
        let parts: [u16; 8] = [0xd83d, 0xd800, 0xdbff, 0xde00, 0xdc00, 0xdfff, 0x61, 0xfeff];
        for number in 0..8 << 12 {
            let units: Vec<u16> = (0..number % 5).map(|i| parts[(number >> (3 * i + 3)) % 8]).collect();
            let want = String::from_utf16_lossy(&units);
            let escaped: String = units.iter().map(|unit| format!("\\u{unit:04x}")).collect();
            let body = body_text(format!("\"\\\\{escaped}\"").into_bytes()).unwrap();
            assert_eq!(serde_json::from_str::<String>(&body).unwrap(), format!("\\{want}"), "{body}");
            let three = |unit: &u16| match *unit {
                unit @ 0xd800..0xe000 => {
                    vec![0xed, 0x80 | (unit >> 6 & 0x3f) as u8, 0x80 | (unit & 0x3f) as u8]
                }
                unit => String::from_utf16_lossy(&[unit]).into_bytes(),
            };
            assert_eq!(body_text(units.iter().flat_map(three).collect()).unwrap(), want);
        }
        for kept in ["\"\\\\ud83d\"", "\\u12", "\\", "\\ud83d\\ude00", "\\uD83D\\uDE00"] {
            assert_eq!(body_text(kept.into()).unwrap(), kept);
        }
        assert_eq!(body_text(b"a\xe9".to_vec()), None);
        assert_eq!(body_text(b"\xed\xa0".to_vec()), None);
    }
}
