//! Models, sampling, drafts, decoding and batches, with the embedded models and with random ones.
//!
//! Each module is one subject; `common` has their shared parts. Tests that need a process of their own
//! (the number of threads, the largest allocation) run this program once more, as
//! `ffwd_testkit::child` describes.
#![cfg(feature = "embedded")]

mod accepted_tokens;
mod adapters;
mod batch;
mod batch_faults;
mod beam_and_best_of;
mod chat;
mod common;
mod confidence;
mod draft_sources;
mod draft_target_pairs;
mod evaluation;
mod exactness;
mod extractor;
mod families;
mod finish_reasons;
mod gguf_tokenizers;
mod hostile_models;
#[cfg(feature = "hub")]
mod hub;
mod hybrids;
mod jinja;
mod kv_precision;
mod labels;
mod many_records;
mod markers;
mod model_parity;
mod origins;
mod prefix_cache;
mod real_weights;
mod reference_tokens;
mod sampling;
mod statistics;
mod tensor_forward;
mod thinking;
mod thread_determinism;
mod traces;
mod typed_records;
mod watched_values;
mod weight_formats;

#[global_allocator]
static ALLOCATOR: common::allocations::Watching = common::allocations::Watching;
