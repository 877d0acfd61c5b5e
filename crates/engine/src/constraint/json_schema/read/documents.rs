//! Documents that a schema may refer to: those that the caller supplies, and the metaschemas.
//!
//! # Cost
//!
//! A lookup queries a map, then the caller's function, then a table of texts in the binary (32 kB).
//!
//! # Alternatives considered
//!
//! Nothing is fetched: a schema from outside must not decide which addresses are called, and a
//! compile must not depend on them.

use std::borrow::Cow;

use rustc_hash::FxHashMap;

use crate::error::Result;
use crate::text::without_mark;

/// Returns the text of the document for a URI without fragment, or `None`.
type Resolver<'a> = dyn Fn(&str) -> Result<Option<String>> + 'a;

/// Sources of documents.
#[derive(Default)]
pub(crate) struct Documents<'a> {
    given: FxHashMap<String, Cow<'a, str>>,
    resolver: Option<Box<Resolver<'a>>>,
}

/// Metaschemas by the path of their URI; those of newer drafts consist of one document per
/// vocabulary. Names and structure are those of the specifications, because schemas point into
/// them.
const BUILTIN: &[(&str, &str)] = &[
    ("draft-04/schema", include_str!("metaschemas/draft-04.json")),
    ("draft-06/schema", include_str!("metaschemas/draft-06.json")),
    ("draft-07/schema", include_str!("metaschemas/draft-07.json")),
    ("draft/2019-09/schema", include_str!("metaschemas/2019-09-schema.json")),
    ("draft/2019-09/meta/core", include_str!("metaschemas/2019-09-core.json")),
    ("draft/2019-09/meta/applicator", include_str!("metaschemas/2019-09-applicator.json")),
    ("draft/2019-09/meta/validation", include_str!("metaschemas/2019-09-validation.json")),
    ("draft/2019-09/meta/meta-data", include_str!("metaschemas/2019-09-meta-data.json")),
    ("draft/2019-09/meta/format", include_str!("metaschemas/2019-09-format.json")),
    ("draft/2019-09/meta/content", include_str!("metaschemas/2019-09-content.json")),
    ("draft/2020-12/schema", include_str!("metaschemas/2020-12-schema.json")),
    ("draft/2020-12/meta/core", include_str!("metaschemas/2020-12-core.json")),
    ("draft/2020-12/meta/applicator", include_str!("metaschemas/2020-12-applicator.json")),
    ("draft/2020-12/meta/unevaluated", include_str!("metaschemas/2020-12-unevaluated.json")),
    ("draft/2020-12/meta/validation", include_str!("metaschemas/2020-12-validation.json")),
    ("draft/2020-12/meta/meta-data", include_str!("metaschemas/2020-12-meta-data.json")),
    ("draft/2020-12/meta/format-annotation", include_str!("metaschemas/2020-12-format-annotation.json")),
    ("draft/2020-12/meta/format-assertion", include_str!("metaschemas/2020-12-format-assertion.json")),
    ("draft/2020-12/meta/content", include_str!("metaschemas/2020-12-content.json")),
];

impl<'a> Documents<'a> {
    /// Returns true if neither documents nor a resolver were supplied.
    pub(crate) fn is_empty(&self) -> bool {
        self.given.is_empty() && self.resolver.is_none()
    }

    /// Adds a document under a URI, whose fragment does not count.
    pub(crate) fn add(&mut self, uri: &str, text: Cow<'a, str>) {
        let uri = uri.split_once('#').map_or(uri, |u| u.0);
        self.given.insert(uri.to_string(), text);
    }

    /// Sets the function that supplies documents that were not added.
    pub(crate) fn ask(&mut self, resolver: Box<Resolver<'a>>) {
        self.resolver = Some(resolver);
    }

    /// Returns the text of a document, if there is one.
    ///
    /// # Errors
    /// The error of the resolver.
    pub(crate) fn get(&self, uri: &str) -> Result<Option<Cow<'_, str>>> {
        if let Some(text) = self.given.get(uri) {
            return Ok(Some(Cow::Borrowed(without_mark(text))));
        }
        if let Some(resolver) = &self.resolver
            && let Some(text) = resolver(uri)?
        {
            return Ok(Some(Cow::Owned(without_mark(&text).to_owned())));
        }
        Ok(builtin(uri).map(Cow::Borrowed))
    }

    /// Returns true if a URI is that of a metaschema.
    pub(crate) fn is_builtin(&self, uri: &str) -> bool {
        builtin(uri).is_some()
    }
}

fn builtin(uri: &str) -> Option<&'static str> {
    // Both forms of the scheme are common.
    let rest = uri.strip_prefix("https:").or_else(|| uri.strip_prefix("http:"))?;
    let path = rest.strip_prefix("//json-schema.org/")?;
    BUILTIN.iter().find(|b| b.0 == path).map(|b| b.1)
}
