//! The documentation: its examples run and give what the pages say, and pages, files and names stay
//! within their bounds.

mod doc_examples;
mod layers;
mod structure;
mod wording;
