//! Drafts of JSON Schema, and sets of them.

/// Version of JSON Schema that a document is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) enum SchemaDraft {
    D4,
    D6,
    D7,
    D2019,
    #[default]
    D2020,
}

impl SchemaDraft {
    /// Returns the draft that a `$schema` URI names: draft 4 for the ones before it, and the newest
    /// without a URI or for an unknown one.
    pub(crate) fn of(uri: Option<&str>) -> SchemaDraft {
        let default = if Self::is_before_4(uri) { SchemaDraft::D4 } else { SchemaDraft::D2020 };
        Self::named(uri).unwrap_or(default)
    }

    /// Returns the draft from 4 on that a `$schema` URI names, if it names one.
    pub(crate) fn named(uri: Option<&str>) -> Option<SchemaDraft> {
        let uri = uri?;
        let old = uri.match_indices("draft-0").filter_map(|(at, part)| {
            match uri.as_bytes().get(at + part.len())? {
                b'4' => Some(SchemaDraft::D4),
                b'6' => Some(SchemaDraft::D6),
                b'7' => Some(SchemaDraft::D7),
                _ => None,
            }
        });
        old.min().or_else(|| {
            let newer = [("2019-09", SchemaDraft::D2019), ("2020-12", SchemaDraft::D2020)];
            newer.into_iter().find(|(part, _)| uri.contains(part)).map(|(_, draft)| draft)
        })
    }

    /// Returns true if a `$schema` URI names draft 3 or an older one.
    pub(crate) fn is_before_4(uri: Option<&str>) -> bool {
        uri.is_some_and(|uri| ["draft-01", "draft-02", "draft-03"].iter().any(|part| uri.contains(part)))
    }
}

/// A set of drafts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Drafts(u8);

impl Drafts {
    pub(crate) const ALL: Drafts = Drafts(u8::MAX);
    pub(crate) const NONE: Drafts = Drafts(0);

    pub(crate) const fn only(draft: SchemaDraft) -> Drafts {
        Drafts(1 << draft as u8)
    }

    pub(crate) const fn from(draft: SchemaDraft) -> Drafts {
        Drafts(u8::MAX << draft as u8)
    }

    pub(crate) const fn until(draft: SchemaDraft) -> Drafts {
        Drafts(!(u8::MAX << draft as u8) | 1 << draft as u8)
    }

    pub(crate) const fn contains(self, draft: SchemaDraft) -> bool {
        self.0 >> draft as u8 & 1 == 1
    }
}
