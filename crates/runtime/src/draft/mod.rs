//! Drafts: sources of proposed tokens, and the decision how many of them to verify.
//!
//! A draft is a run of tokens that the target model verifies in one forward. Several kinds of
//! sources build it in turn: the forced run of the constraint, text copied from the source, and a
//! small draft model under the same masks. After each source the constraint is consulted again. So
//! one draft may reach through a copied value, its closing quote, the next key and into the next
//! value. The draft model, if there is one, reads copied text before the target sees it. No draft
//! can change the output. The [`Gate`] decides the length of a draft by measured cost and past
//! success ([`AcceptanceRates`]).

mod acceptance;
mod cost_trust;
mod gate;
mod gate_report;
mod proposal;
mod sources;

pub(crate) use acceptance::ModelRole;
pub use acceptance::{AcceptanceRates, OutputRegion, ProposalContext};
pub use gate::{Gate, RoundEstimate};
pub use gate_report::{GateLine, GateReport};
pub use proposal::{DraftRun, Proposal};
pub use sources::*;
