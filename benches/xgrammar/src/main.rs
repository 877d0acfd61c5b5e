//! MaskBench with XGrammar as further columns; `benches/maskbench` describes the measurement.

mod engine;

use std::process::ExitCode;

use engine::XGrammar;

fn main() -> ExitCode {
    ffwd_maskbench::main(&[
        ("xgrammar", |options, vocab| Ok(Box::new(XGrammar::new(options, vocab, false)?))),
        ("xgrammar-strict", |options, vocab| Ok(Box::new(XGrammar::new(options, vocab, true)?))),
    ])
}
