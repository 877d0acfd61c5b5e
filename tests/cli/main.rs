//! The program as a child process: output, exit codes, messages.

mod adapters;
#[cfg(feature = "bench")]
mod bench;
mod commands;
mod explain;
mod grounding;
#[cfg(feature = "full")]
mod help;
mod hostile;
mod labels;
#[cfg(feature = "hub")]
mod models;
mod multi_output;
#[cfg(feature = "parquet")]
mod parquet;
mod parts;
mod pile;
mod program;
mod prompts;
mod report;
mod seeds;
mod stream;
mod tour;
