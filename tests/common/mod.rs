//! Helpers shared by the integration tests.
#![allow(dead_code)] // each test program uses its own part

pub mod data;
pub mod oracle;
pub mod random;
pub mod shapes;
pub mod vocab;
