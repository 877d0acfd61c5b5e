//! Constraints and masks: tests that need no model.
//!
//! Each module is one subject. `cargo test --release --test engine mask_oracle` runs one of them.

mod closed_objects;
mod combinators;
mod examples;
mod explain;
mod forced_prefixes;
mod fuzz_findings;
mod grammar_corpus;
mod grammar_memory;
mod grammar_oracle;
mod hostile_inputs;
mod label_machines;
mod mask_oracle;
mod policies;
mod schema_dedup;
mod schema_validator;
mod shared_grammar;
mod shared_refs;
mod shortest;
mod state_graph;
mod structural_tag_oracle;
mod substring;
mod token_machines;
mod tool_calls;
mod tool_feasibility;
mod tool_parameters;
mod unique_items;
