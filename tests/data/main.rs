//! Real schemas, real inputs and the JSON Schema Test Suite, read from the benchmark data.
//!
//! `FFWD_BENCH_DIR` names the folder, or it is `../shared/bench` next to the repository. Without it
//! the tests say so and pass.

mod coverage;
#[cfg(feature = "embedded")]
#[path = "../runtime/common/exact.rs"]
mod exact;
mod forced_tokens;
mod random_walks;
mod real_inputs;
mod real_masks;
#[cfg(feature = "embedded")]
mod real_outputs;
mod schema_suite;
