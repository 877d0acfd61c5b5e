//! The last character of a prefix of a text.

/// Returns the last character of a prefix of a valid text, or `None` if it ends within one.
pub(super) fn last_char(text: &[u8]) -> Option<char> {
    let last = text.iter().rposition(|b| b & 0xc0 != 0x80)?;
    std::str::from_utf8(&text[last..]).ok()?.chars().next()
}

/// Returns true if a prefix of a valid text ends with a whole character.
pub(super) fn ends_whole(text: &[u8]) -> bool {
    text.is_empty() || last_char(text).is_some()
}
