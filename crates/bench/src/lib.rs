//! Measurements of `ffwd` on the machine at hand: decoding, the speedup by the share of forced
//! tokens, masks, threads, loading, formats of weights, and hostile constraints. The program's
//! command `ffwd bench` parses the options and shows the reports.
//!
//! There is one module for each measurement. `rounds` runs the arms of a comparison in turn, and
//! `report` shows tables and plots.
//!
//! # Cost
//! That of what is measured, as often as the rounds say.
//!
//! # Alternatives considered
//! Benchmarks beside the program were rejected: each had its own rounds, options and tables, and a
//! user could not run them on a schema or a model of one's own.

mod arm;
mod environment;
mod report;
mod rounds;
mod scenario;
mod table;

pub mod decode;
pub mod formats;
pub mod fraction;
pub mod hostile;
pub mod masks;
pub mod start;
pub mod threads;

pub use environment::ModelNames;
pub use report::BenchReport;
