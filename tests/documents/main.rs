//! The documentation: its examples run and give what the pages say.

mod doc_examples;
