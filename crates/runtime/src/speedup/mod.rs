//! What drafts of forced tokens can save: the time of forwards by their rows, walks through a
//! constraint, the estimate that follows from both, and the script that plots measurements.
//!
//! # Cost
//! Some hundred forwards for the times; walks run no model.
//!
//! # Alternatives considered
//!
//! Plots that are drawn in Rust were rejected: the pages of `ffwd bench` and the playground draw
//! curves of their sliders in the browser, so a second way to draw the same curve would remain.

mod estimate;
mod forward_costs;
mod spread;
mod walk;

pub use estimate::{Estimate, Expected, estimate};
pub use forward_costs::ForwardCosts;
pub use spread::Spread;
pub use walk::{ConstraintWalk, TokenKind, Walker};

/// A JavaScript module with the function `plot`, which draws lines and marks as SVG.
pub const PLOT_SCRIPT: &str = include_str!("plot.js");
