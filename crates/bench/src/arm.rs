//! The arms of a comparison: ways to decode the same request.

use clap::ValueEnum;
use ffwd_runtime::decode::DraftOverride;
use ffwd_runtime::{Mode, Request, TokenId};
use serde::{Deserialize, Serialize};

/// A way to decode a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Arm {
    /// One forward per token
    Off,
    /// All draft sources, verified
    Exact,
    /// `exact` with every draft as long as it can be, without the cost gate
    Ungated,
    /// `exact` with drafts of random tokens, which are nearly always wrong
    RandomDrafts,
    /// `exact` with forced runs only
    Forced,
    /// `exact` with copies only
    Copied,
    /// `exact` with the draft model only
    DraftModel,
    /// Forced text unverified, as the tokenizer writes it
    Canonical,
    /// Forced text unverified, by the longest tokens
    Longest,
    /// `off` without the constraint
    Unconstrained,
}

impl Arm {
    /// Returns all arms.
    pub(crate) fn all() -> impl Iterator<Item = Arm> {
        Arm::value_variants().iter().copied()
    }

    /// Returns the arms that run if `wanted` is empty, or those that it names and `off`.
    pub(crate) fn chosen(wanted: &[Arm]) -> impl Iterator<Item = Arm> + '_ {
        Arm::all().filter(move |arm| match wanted {
            [] => !matches!(arm, Arm::Ungated | Arm::RandomDrafts),
            wanted => *arm == Arm::Off || wanted.contains(arm),
        })
    }

    /// Returns the name, as the command line and JSON have it.
    pub(crate) fn name(self) -> &'static str {
        self.name_and_color().0
    }

    /// Returns the color of its marks, as on all plots.
    pub(crate) fn color(self) -> &'static str {
        self.name_and_color().1
    }

    fn name_and_color(self) -> (&'static str, &'static str) {
        match self {
            Arm::Off => ("off", "#6b7280"),
            Arm::Exact => ("exact", "#1f77d0"),
            Arm::Ungated => ("ungated", "#0a5c46"),
            Arm::RandomDrafts => ("random-drafts", "#e0316b"),
            Arm::Forced => ("forced", "#0f9d74"),
            Arm::Copied => ("copied", "#d98a00"),
            Arm::DraftModel => ("draft-model", "#c25ca5"),
            Arm::Canonical => ("canonical", "#d54e1c"),
            Arm::Longest => ("longest", "#8c6d31"),
            Arm::Unconstrained => ("unconstrained", "#9986d6"),
        }
    }

    /// Returns true if the text must be that of `off`.
    pub(crate) fn is_exact(self) -> bool {
        !matches!(self, Arm::Canonical | Arm::Longest | Arm::Unconstrained)
    }

    /// Returns true if the arm differs from all others for such a request.
    pub(crate) fn applies(self, constrained: bool, draft_model: bool) -> bool {
        match self {
            Arm::Off | Arm::Exact | Arm::Ungated | Arm::RandomDrafts | Arm::Copied => true,
            Arm::DraftModel => constrained && draft_model,
            _ => constrained,
        }
    }

    pub(crate) fn apply(self, request: Request) -> Request {
        let only = |request: Request, forced, copied, model| {
            request.forced_runs(forced).lookup(copied).draft_model(model)
        };
        match self {
            Arm::Off | Arm::Unconstrained => request.mode(Mode::Off),
            Arm::Exact => request,
            Arm::Ungated => request.without_gate(),
            Arm::RandomDrafts => request.draft_override(random_drafts()),
            Arm::Forced => only(request, true, false, false),
            Arm::Copied => only(request, false, true, false),
            Arm::DraftModel => only(request, false, false, true),
            Arm::Canonical => request.mode(Mode::Canonical),
            Arm::Longest => request.mode(Mode::Longest),
        }
    }
}

/// Returns a source of eight tokens at random (xorshift), legal or not.
fn random_drafts() -> DraftOverride {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    Box::new(move |_| {
        let mut token = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state % 4096) as TokenId
        };
        (0..8).map(|_| token()).collect()
    })
}
