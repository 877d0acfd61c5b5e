//! `$ref` inside one document: JSON pointers, anchors, and `$id`-relative references to resources that
//! the document embeds. Nothing outside the document is ever fetched.
//!
//! One scan finds the resources and anchors, linear in the document; a reference is resolved once and
//! remembered. Places that hold data (`enum`, `const`, `default`, `examples`) are not scanned: an
//! `$id` in there names nothing.

use std::borrow::Cow;

use rustc_hash::FxHashMap;

use super::json::{Doc, Id, Value};
use super::keywords::{self as kw, Draft};
use crate::error::{Error, ErrorKind, Result};

/// A schema resource: the document or an embedded schema with an `$id`.
struct Resource {
    uri: String,
    root: Id,
}

/// What references can lead to.
pub(super) struct Refs {
    pub draft: Draft,
    /// The first one is the document itself.
    resources: Vec<Resource>,
    /// By resource and name.
    anchors: FxHashMap<(usize, String), Id>,
    /// Resource roots other than the document's.
    roots: FxHashMap<Id, usize>,
    resolved: FxHashMap<Id, Id>,
}

impl Refs {
    /// Scans a document.
    pub fn new(doc: &Doc) -> Result<Refs> {
        let text = |id: Option<Id>| id.and_then(|i| doc.string(i)).map(|n| doc.name(n));
        let draft = Draft::of(text(doc.get(doc.root(), kw::SCHEMA)));
        let mut refs = Refs {
            draft,
            resources: vec![Resource { uri: String::new(), root: doc.root() }],
            anchors: FxHashMap::default(),
            roots: FxHashMap::default(),
            resolved: FxHashMap::default(),
        };
        // The flag: the members are named by the user (`properties`), not keywords.
        let mut todo = vec![(doc.root(), 0usize, false)];
        while let Some((id, outer, named)) = todo.pop() {
            let resource = if named { outer } else { refs.enter(doc, id, outer)? };
            todo.extend(doc.elements(id).iter().map(|&e| (e, resource, false)));
            for &(name, member) in doc.members(id) {
                match name {
                    _ if named => todo.push((member, resource, false)),
                    kw::ENUM | kw::CONST | kw::DEFAULT | kw::EXAMPLES | kw::EXAMPLE => {}
                    kw::PROPERTIES
                    | kw::PATTERN_PROPERTIES
                    | kw::DEFINITIONS
                    | kw::DEFS
                    | kw::DEPENDENT_SCHEMAS
                    | kw::DEPENDENCIES => todo.push((member, resource, true)),
                    _ => todo.push((member, resource, false)),
                }
            }
        }
        Ok(refs)
    }

    /// Notes the resource or anchor that starts at a value; the resource in which its children lie.
    fn enter(&mut self, doc: &Doc, id: Id, outer: usize) -> Result<usize> {
        let own = if self.draft == Draft::D4 { kw::OLD_ID } else { kw::ID };
        let text = |name| doc.get(id, name).and_then(|i| doc.string(i)).map(|n| doc.name(n));
        let shadowed = self.draft <= Draft::D7 && doc.get(id, kw::REF).is_some();
        let mut resource = outer;
        if let Some(uri) = text(own).filter(|_| !shadowed) {
            let (uri, fragment) = uri.split_once('#').unwrap_or((uri, ""));
            if !uri.is_empty() {
                let full = join(&self.resources[outer].uri, uri);
                if id == doc.root() {
                    self.resources[0].uri = full;
                } else {
                    resource = self.resources.len();
                    self.roots.insert(id, resource);
                    self.resources.push(Resource { uri: full, root: id });
                    self.check_draft(doc, id)?;
                }
            }
            if !fragment.is_empty() && self.draft <= Draft::D7 {
                self.anchors.insert((resource, fragment.to_string()), id);
            }
        }
        if self.draft >= Draft::D2019 {
            for name in [kw::ANCHOR, kw::DYNAMIC_ANCHOR] {
                if let Some(anchor) = text(name) {
                    self.anchors.insert((resource, anchor.to_string()), id);
                }
            }
        }
        Ok(resource)
    }

    fn check_draft(&self, doc: &Doc, id: Id) -> Result<()> {
        let Some(at) = doc.get(id, kw::SCHEMA) else { return Ok(()) };
        let uri = doc.string(at).map(|n| doc.name(n));
        if Draft::of(uri) == self.draft {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Unsupported,
            "an embedded schema is written in another draft than the document",
        )
        .at(doc.place(at))
        .hint("write the whole document in one draft"))
    }

    fn resource_of(&self, doc: &Doc, id: Id) -> usize {
        let mut at = Some(id);
        while let Some(id) = at {
            if let Some(&resource) = self.roots.get(&id) {
                return resource;
            }
            at = doc.parent(id);
        }
        0
    }

    /// The schema that a `$ref` value (a string of the document) leads to.
    pub fn resolve(&mut self, doc: &Doc, reference: Id) -> Result<Id> {
        if let Some(&known) = self.resolved.get(&reference) {
            return Ok(known);
        }
        let Some(name) = doc.string(reference) else {
            return Err(
                Error::new(ErrorKind::InvalidSchema, "`$ref` must be a string").at(doc.place(reference))
            );
        };
        let text = doc.name(name);
        let target = self.find(doc, reference, text)?;
        self.resolved.insert(reference, target);
        Ok(target)
    }

    fn find(&self, doc: &Doc, reference: Id, text: &str) -> Result<Id> {
        let (uri, fragment) = text.split_once('#').unwrap_or((text, ""));
        let base = self.resource_of(doc, reference);
        let resource = if uri.is_empty() {
            base
        } else {
            let full = join(&self.resources[base].uri, uri);
            let found = self.resources.iter().position(|r| r.uri == full || r.uri == uri);
            found.ok_or_else(|| {
                Error::new(
                    ErrorKind::Unsupported,
                    format!("`$ref` leads outside the schema: {}", shorten(text)),
                )
                .at(doc.place(reference))
                .hint("copy the other schema into `$defs` (with its `$id`) and refer to it there")
            })?
        };
        let missing = || {
            Error::new(ErrorKind::InvalidSchema, format!("`$ref` leads nowhere: {}", shorten(text)))
                .at(doc.place(reference))
        };
        let fragment = percent_decode(fragment).ok_or_else(missing)?;
        let root = self.resources[resource].root;
        if fragment.is_empty() {
            return Ok(root);
        }
        if !fragment.starts_with('/') {
            return self.anchors.get(&(resource, fragment.into_owned())).copied().ok_or_else(missing);
        }
        let mut at = root;
        for step in fragment[1..].split('/') {
            let step = match step.contains('~') {
                true => Cow::Owned(step.replace("~1", "/").replace("~0", "~")),
                false => Cow::Borrowed(step),
            };
            let next = match doc.value(at) {
                Value::Object { .. } => doc.lookup(&step).and_then(|name| doc.get(at, name)),
                Value::Array { .. } => {
                    step.parse::<usize>().ok().and_then(|i| doc.elements(at).get(i).copied())
                }
                _ => None,
            };
            at = next.ok_or_else(missing)?;
        }
        Ok(at)
    }
}

/// At most 80 characters of a text, for messages.
pub(super) fn shorten(text: &str) -> String {
    if text.chars().count() <= 80 { text.to_string() } else { text.chars().take(79).chain(['…']).collect() }
}

fn percent_decode(text: &str) -> Option<Cow<'_, str>> {
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
fn join(base: &str, reference: &str) -> String {
    let scheme_end = |uri: &str| {
        let end = uri.find(':')?;
        let scheme = &uri[..end];
        let plain = scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b));
        (plain && scheme.as_bytes().first().is_some_and(u8::is_ascii_alphabetic)).then_some(end)
    };
    if scheme_end(reference).is_some() || base.is_empty() {
        return reference.to_string();
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
                if steps.len() > 1 {
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
        assert_eq!(join("http://a.b/c", "//h/p"), "http://h/p");
    }
}
