//! The sources of proposals: one table with everything that depends on the source alone.
//!
//! Each source has its own kinds of proposals, a type of their own. Acceptance rates are kept by
//! kind. The gate, its report and the statistics go over [`DraftSource::ALL`]. A new source is an
//! entry of the table and the list of its kinds; the places that treat sources differently match on
//! them without a default.
//!
//! # Alternatives considered
//!
//! A trait for sources was rejected: each needs other parts of the output, and only the draft model
//! waits for a forward.

mod draft_model;
mod draft_vocab;
mod forced_run_cache;
mod prompt_lookup;
mod tokenization_memory;

pub use draft_model::DraftModel;
pub(crate) use draft_vocab::always_listed;
pub use forced_run_cache::ForcedRunCache;
pub(crate) use prompt_lookup::open_string;
pub use prompt_lookup::{CopySpan, PromptLookup};
pub(crate) use tokenization_memory::TokenizationMemory;

use serde::{Serialize, Serializer};

/// Defines the kinds of proposals of one source, with their names in the gate's report. Reports have
/// the order of the list.
macro_rules! kinds {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $kind:ident = $label:literal,)+ }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name { $($(#[$doc])* $kind,)+ }

        impl $name {
            const LABELS: &[&str] = &[$($label),+];
        }
    };
}

kinds! {
    /// Kinds of proposals from forced runs.
    ForcedKind {
        /// The first token of a run.
        First = "first of a run",
        /// A further token of a run.
        Inside = "inside a run",
        /// The last token of a run.
        Last = "last of a run",
        /// A token that the target chose in the same context.
        Chosen = "chosen here before",
        /// A token that the target chose in a similar context.
        ChosenElsewhere = "chosen elsewhere",
    }
}

kinds! {
    /// Kinds of proposals that are copied from a text.
    CopyKind {
        /// The first token, found by the label of the key only.
        AfterLabel = "behind its label",
        /// The first token of another copy.
        First = "first of a copy",
        /// A further token.
        Further = "further",
        /// White space as before, and what is forced behind it.
        Spaced = "white space as before",
        /// A token that the draft model would have chosen, too.
        Read = "read by the draft model",
    }
}

kinds! {
    /// Kinds of proposals of the draft model, by the lead of a token over the next most probable
    /// one, in nats.
    ModelKind {
        /// A lead below 0.5.
        LeadBelow05 = "lead below 0.5",
        /// A lead below 1.5.
        LeadBelow15 = "lead below 1.5",
        /// A lead below 3.
        LeadBelow3 = "lead below 3",
        /// A lead below 6.
        LeadBelow6 = "lead below 6",
        /// A larger lead.
        LeadFrom6 = "lead from 6 on",
        /// Any proposal, before the model is called for it.
        BeforeCall = "before it is asked",
    }
}

/// What depends on the source alone.
struct SourceEntry {
    /// The name in the gate's report.
    name: &'static str,
    /// The name in the statistics.
    statistic: &'static str,
    /// The name as the origin of a token.
    origin: &'static str,
    /// The acceptance rate without observations.
    prior: f32,
    /// The names of its kinds.
    kinds: &'static [&'static str],
}

/// Defines the sources. Drafts try them in the order of the table.
macro_rules! sources {
    ($($(#[$doc:meta])* $source:ident($kind:ident) {
        name: $name:literal, statistic: $statistic:literal, origin: $origin:literal, prior: $prior:literal,
    })+) => {
        /// The source of a proposed token.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum DraftSource { $($(#[$doc])* $source,)+ }

        /// The source of a proposal, and the source's own kind of it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum ProposalKind { $($(#[$doc])* $source($kind),)+ }

        impl DraftSource {
            /// All sources, in the order in which a draft tries them.
            pub const ALL: [DraftSource; [$($name),+].len()] = [$(DraftSource::$source),+];

            const TABLE: &[SourceEntry; DraftSource::ALL.len()] = &[$(SourceEntry {
                name: $name,
                statistic: $statistic,
                origin: $origin,
                prior: $prior,
                kinds: $kind::LABELS,
            }),+];
        }

        impl ProposalKind {
            /// Returns the source.
            pub const fn source(self) -> DraftSource {
                match self { $(ProposalKind::$source(_) => DraftSource::$source,)+ }
            }

            /// Returns the index of the kind among those of its source.
            const fn of_source(self) -> usize {
                match self { $(ProposalKind::$source(kind) => kind as usize,)+ }
            }
        }
    };
}

sources! {
    /// The constraint allows no other bytes.
    Forced(ForcedKind) { name: "forced", statistic: "forced", origin: "forced", prior: 0.9, }
    /// Copied from the source text.
    Lookup(CopyKind) { name: "lookup", statistic: "lookup", origin: "copied", prior: 0.5, }
    /// A small draft model.
    Model(ModelKind) { name: "model", statistic: "draft_model", origin: "drafted", prior: 0.8, }
}

impl DraftSource {
    /// Returns the name in the gate's report.
    pub fn name(self) -> &'static str {
        Self::TABLE[self as usize].name
    }

    /// Returns the name in the statistics.
    pub fn statistic(self) -> &'static str {
        Self::TABLE[self as usize].statistic
    }

    /// Returns the name as the origin of a token.
    pub fn origin(self) -> &'static str {
        Self::TABLE[self as usize].origin
    }

    /// Returns the acceptance rate without observations.
    pub(super) fn prior(self) -> f32 {
        Self::TABLE[self as usize].prior
    }

    /// Largest number of kinds of a source.
    const MAX_KINDS: usize = {
        let (mut most, mut i) = (0, 0);
        while i < Self::TABLE.len() {
            let kinds = Self::TABLE[i].kinds.len();
            most = if kinds > most { kinds } else { most };
            i += 1;
        }
        most
    };
}

impl Serialize for DraftSource {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl ProposalKind {
    /// Upper bound of [`slot`](Self::slot).
    pub(super) const SLOTS: usize = DraftSource::ALL.len() * DraftSource::MAX_KINDS;

    /// Returns a number of its own for each kind.
    pub(super) const fn slot(self) -> usize {
        self.source() as usize * DraftSource::MAX_KINDS + self.of_source()
    }

    /// Returns the kind of the same proposal after the draft model has read it, and would have
    /// chosen it too.
    pub(super) fn read(self) -> ProposalKind {
        match self {
            ProposalKind::Lookup(_) => ProposalKind::Lookup(CopyKind::Read),
            ProposalKind::Forced(_) | ProposalKind::Model(_) => self,
        }
    }

    /// Returns the kind of the same proposal before the forward that it needs, if it needs one.
    pub(super) fn before_call(self) -> Option<ProposalKind> {
        match self {
            ProposalKind::Model(_) => Some(ProposalKind::Model(ModelKind::BeforeCall)),
            ProposalKind::Forced(_) | ProposalKind::Lookup(_) => None,
        }
    }

    /// Returns the kind in words.
    pub fn label(self) -> &'static str {
        DraftSource::TABLE[self.source() as usize].kinds[self.of_source()]
    }
}

impl ModelKind {
    /// Returns the kind of a lead over the next most probable token, in nats.
    pub(super) fn of_lead(lead: f32) -> ModelKind {
        match lead {
            lead if lead >= 6.0 => ModelKind::LeadFrom6,
            lead if lead >= 3.0 => ModelKind::LeadBelow6,
            lead if lead >= 1.5 => ModelKind::LeadBelow3,
            lead if lead >= 0.5 => ModelKind::LeadBelow15,
            // Not a number, too.
            _ => ModelKind::LeadBelow05,
        }
    }
}
