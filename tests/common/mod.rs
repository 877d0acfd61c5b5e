//! Helpers shared by the integration tests.
#![allow(dead_code)] // each test program uses its own part

pub mod data;
#[cfg(feature = "model")]
pub mod gguf;
#[cfg(feature = "model")]
pub mod models;
pub mod oracle;
pub mod random;
pub mod remotes;
pub mod shapes;
pub mod vocab;
