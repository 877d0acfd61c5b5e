//! The arms of a comparison: ways to decode the same request.

use clap::ValueEnum;
use plotters::style::RGBColor;
use serde::{Deserialize, Serialize};

use crate::decode::{Mode, Request};

/// A way to decode a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Arm {
    /// One forward per token
    Off,
    /// All draft sources, verified
    Exact,
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
    pub(super) fn all() -> impl Iterator<Item = Arm> {
        Arm::value_variants().iter().copied()
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Arm::Off => "off",
            Arm::Exact => "exact",
            Arm::Forced => "forced",
            Arm::Copied => "copied",
            Arm::DraftModel => "draft-model",
            Arm::Canonical => "canonical",
            Arm::Longest => "longest",
            Arm::Unconstrained => "unconstrained",
        }
    }

    /// Returns the color of its marks, as on all plots.
    pub(super) fn color(self) -> RGBColor {
        match self {
            Arm::Off => RGBColor(0x6b, 0x72, 0x80),
            Arm::Exact => RGBColor(0x1f, 0x77, 0xd0),
            Arm::Forced => RGBColor(0x0f, 0x9d, 0x74),
            Arm::Copied => RGBColor(0xd9, 0x8a, 0x00),
            Arm::DraftModel => RGBColor(0xc2, 0x5c, 0xa5),
            Arm::Canonical => RGBColor(0xd5, 0x4e, 0x1c),
            Arm::Longest => RGBColor(0x8c, 0x6d, 0x31),
            Arm::Unconstrained => RGBColor(0x99, 0x86, 0xd6),
        }
    }

    /// Returns true if the text must be that of `off`.
    pub(super) fn is_exact(self) -> bool {
        !matches!(self, Arm::Canonical | Arm::Longest | Arm::Unconstrained)
    }

    /// Returns true if the arm differs from all others for such a request.
    pub(super) fn applies(self, constrained: bool, draft_model: bool) -> bool {
        match self {
            Arm::Off | Arm::Exact | Arm::Copied => true,
            Arm::DraftModel => constrained && draft_model,
            _ => constrained,
        }
    }

    pub(super) fn apply(self, request: Request) -> Request {
        let only = |request: Request, forced, copied, model| {
            request.forced_runs(forced).lookup(copied).draft_model(model)
        };
        match self {
            Arm::Off | Arm::Unconstrained => request.mode(Mode::Off),
            Arm::Exact => request,
            Arm::Forced => only(request, true, false, false),
            Arm::Copied => only(request, false, true, false),
            Arm::DraftModel => only(request, false, false, true),
            Arm::Canonical => request.mode(Mode::Canonical),
            Arm::Longest => request.mode(Mode::Longest),
        }
    }
}
