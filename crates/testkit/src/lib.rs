//! What unit tests, integration tests, benchmarks and fuzz targets share.
//!
//! - [`random`]: the one generator of pseudo-random numbers; equal seeds give equal tests.
//! - [`vocab`]: the one test vocabulary, small and hostile.
//! - [`oracle`]: the slow reference for masks, by derivatives; [`shapes`] draws constraints for it.
//! - [`walk`]: the one random walk that compares a matcher with a reference.
//! - [`gguf_file`]: model files with random weights of any block format.
//! - [`adapter_file`]: an adapter of the embedded model.
//! - [`data`]: readers of the benchmark files; [`remotes`] has the documents that suites refer to.
//! - [`env`]: the environment variables of tests and benchmarks.
//! - [`child`]: tests that need a process of their own.
//! - [`tables`]: measured tables inside the documentation.

// The modules are documented; most items are plain test code.
#![allow(missing_docs)]

pub mod adapter_file;
pub mod child;
pub mod data;
pub mod env;
pub mod gguf_file;
pub mod oracle;
pub mod random;
pub mod remotes;
pub mod shapes;
pub mod tables;
pub mod vocab;
pub mod walk;
