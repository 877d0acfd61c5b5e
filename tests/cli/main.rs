//! The program as a child process: output, exit codes, messages.
#![cfg(all(feature = "cli", feature = "embedded"))]

mod commands;
mod help;
mod labels;
#[cfg(feature = "hub")]
mod models;
mod multi_output;
#[cfg(feature = "parquet")]
mod parquet;
mod pile;
mod program;
mod prompts;
mod stream;
