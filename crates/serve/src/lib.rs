//! HTTP server for one machine that clients of OpenAI's API can talk to.
//!
//! Every endpoint reads its body into one internal request (`request`), which `prepare` makes ready
//! for the engine. A [`Scheduler`](ffwd_runtime::Scheduler) for each model runs all requests in one batch;
//! a request joins while others run. What cannot be honoured is an error that names the field, or a
//! warning in the answer. `docs/serving.md` describes the fields.
//!
//! # Cost
//! The threads of tokio, of which two serve connections. Each model has the threads of its scheduler.
//!
//! # Alternatives considered
//! A thread for each request was rejected: a stream that waits would hold one. Structures derived
//! for each protocol were rejected: they ignore the fields that they do not know.

mod answer;
mod anthropic;
mod api_error;
mod app;
mod body_text;
mod completion_fields;
mod completions;
mod extract;
mod fields;
mod format;
mod grammars;
mod guard;
mod listen;
mod messages;
mod metrics;
mod model;
mod options;
mod playground;
mod prepare;
mod reply;
mod request;
mod response_events;
mod response_object;
mod responses;
mod routes;
mod running;
mod stream;
mod tokenize;
mod tool_fields;

use std::net::SocketAddr;
use std::time::Duration;

pub use listen::{BoundServer, ServerHandle};
pub use model::{LoadEngine, ModelSource};

use ffwd_runtime::decode::SchedulerOptions;
use ffwd_runtime::extract::corpus::ReadDocument;
use ffwd_runtime::sample::SamplingParams;

/// Options of a server.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ServeOptions {
    /// The address to listen on (default 127.0.0.1:8080); port 0 takes a free one.
    pub address: SocketAddr,
    /// A key that clients must send (default: none).
    pub api_key: Option<String>,
    /// Names by which clients may call the server, besides `localhost` and addresses.
    pub allowed_hosts: Vec<String>,
    /// Origins of pages elsewhere that may use the server (default: none).
    pub cors_origins: Vec<String>,
    /// Limits of the batch of each model (default: 256 waiting requests).
    pub scheduler: SchedulerOptions,
    /// Sampling parameters for requests that name none (default: greedy).
    pub sampling: SamplingParams,
    /// Largest body in bytes (default 8 MiB).
    pub max_body: usize,
    /// Largest constraint in bytes (default 1 MiB).
    pub max_constraint: usize,
    /// Largest number of connections (default 1024).
    pub max_connections: usize,
    /// Reads documents that are not plain text (default: none are).
    pub document: Option<ReadDocument>,
    /// Time limit of a request (default 10 minutes).
    pub timeout: Duration,
    /// Time limit for the headers of a request, and for its body (default 30 seconds).
    pub body_timeout: Duration,
    /// Time that running requests get after a signal to end (default 30 seconds).
    pub grace: Duration,
}

impl Default for ServeOptions {
    fn default() -> Self {
        let mut scheduler = SchedulerOptions::default();
        scheduler.queue = 256;
        ServeOptions {
            address: SocketAddr::from(([127, 0, 0, 1], 8080)),
            api_key: None,
            allowed_hosts: Vec::new(),
            cors_origins: Vec::new(),
            scheduler,
            sampling: SamplingParams::default(),
            max_body: 8 << 20,
            max_constraint: 1 << 20,
            max_connections: 1024,
            document: None,
            timeout: Duration::from_secs(600),
            body_timeout: Duration::from_secs(30),
            grace: Duration::from_secs(30),
        }
    }
}
