//! URI references, as far as identifiers of schemas need them: decoding and joining.
//!
//! # Cost
//!
//! Both functions are linear in their texts.
//!
//! # Alternatives considered
//!
//! A crate for URIs was rejected: joining is all that is needed, and identifiers that are not
//! proper URIs must keep working as names.

use std::borrow::Cow;

/// Decodes `%xx`; `None` if the result is not UTF-8.
pub(super) fn percent_decode(text: &str) -> Option<Cow<'_, str>> {
    if !text.contains('%') {
        return Some(Cow::Borrowed(text));
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        if byte == b'%' {
            let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &rest[2..];
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok().map(Cow::Owned)
}

/// Resolves a URI reference without fragment against a base (RFC 3986, section 5.2, as far as
/// identifiers of schemas need it).
pub(super) fn join(base: &str, reference: &str) -> String {
    let scheme_end = |uri: &str| {
        let end = uri.find(':')?;
        let scheme = &uri[..end];
        let plain = scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b));
        (plain && scheme.as_bytes().first().is_some_and(u8::is_ascii_alphabetic)).then_some(end)
    };
    if scheme_end(reference).is_some() || base.is_empty() {
        return reference.strip_prefix("./").unwrap_or(reference).to_string();
    }
    let after_scheme = scheme_end(base).map_or(0, |end| end + 1);
    if reference.starts_with("//") {
        return format!("{}{reference}", &base[..after_scheme]);
    }
    let path_start = match base[after_scheme..].strip_prefix("//") {
        Some(rest) => after_scheme + 2 + rest.find('/').unwrap_or(rest.len()),
        None => after_scheme,
    };
    let (prefix, path) = base.split_at(path_start);
    let path = path.split('?').next().unwrap_or("");
    let merged = if reference.starts_with('/') {
        reference.to_string()
    } else if let Some(end) = path.rfind('/') {
        format!("{}{reference}", &path[..=end])
    } else if prefix.ends_with(':') || prefix.is_empty() {
        reference.to_string()
    } else {
        format!("/{reference}")
    };
    let mut steps: Vec<&str> = Vec::new();
    for step in merged.split('/') {
        match step {
            "." => {}
            ".." => {
                // The first step of an absolute path is empty and stays.
                if steps.last().is_some_and(|s| !s.is_empty()) {
                    steps.pop();
                }
            }
            _ => steps.push(step),
        }
    }
    format!("{prefix}{}", steps.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joining() {
        assert_eq!(join("http://a.b/c/d.json", "e.json"), "http://a.b/c/e.json");
        assert_eq!(join("http://a.b/c/d.json", "/e.json"), "http://a.b/e.json");
        assert_eq!(join("http://a.b", "e.json"), "http://a.b/e.json");
        assert_eq!(join("http://a.b/c/d", "../x"), "http://a.b/x");
        assert_eq!(join("http://a.b/c", "urn:x:y"), "urn:x:y");
        assert_eq!(join("", "x.json"), "x.json");
        assert_eq!(join("", "./x.json"), "x.json");
        assert_eq!(join("defs/a.json", "b.json"), "defs/b.json");
        assert_eq!(join("defs/a.json", "../b.json"), "b.json");
        assert_eq!(join("http://a.b/c", "../../x"), "http://a.b/x");
        assert_eq!(join("http://a.b/c", "//h/p"), "http://h/p");
    }
}
