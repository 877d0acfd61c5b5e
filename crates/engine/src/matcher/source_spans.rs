//! Where the spans stand that an output quotes from a source: in the output, and in the source.
//!
//! A byte belongs to a quote if the automaton read it inside the spans of a source. Which bytes do is found by
//! following the output once more; whether the span may end there, and where else it occurs, is then asked of
//! the source. Costs a step of the automaton per byte and a walk through the source's automaton per quote.
//! Noting places while the output is made was rejected: it would cost every generation something at each token.

use std::ops::Range;

use super::Matcher;
use super::tables::Tables;
use crate::constraint::substring::Occurrences;

/// A span of a source in an output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceSpan {
    /// Its bytes in the output, as written there: in a JSON string with escapes and without the quotation marks.
    pub output: Range<usize>,
    /// The text that is quoted.
    pub text: String,
    /// The source, by its place in [`CompiledGrammar::sources`](super::CompiledGrammar::sources).
    pub source: usize,
    /// Where it stands in the source.
    pub found: Occurrences,
}

impl Matcher {
    /// The spans that the output so far quotes from the sources of its constraint, in their order. One that is
    /// still being written is among them if it may end where it stands. Two that follow each other without
    /// anything between them count as one, so they are reported only if they occur like this.
    ///
    /// ```
    /// use ffwd_engine::constraint::substring::SubstringOptions;
    /// use ffwd_engine::{Compiler, Constraint, Policy, Vocabulary};
    ///
    /// fn signed_by(vocab: Vocabulary, letter: &str, tokens: &[u32]) -> ffwd_engine::Result<()> {
    ///     let schema = r#"{"properties": {"by": {"type": "string", "x-verbatim": true}}}"#;
    ///     let options = SubstringOptions::words();
    ///     let constraint = Constraint::json_schema_quoting(schema, Policy::default(), letter, &options)?;
    ///     let mut matcher = Compiler::new(vocab).compile(&constraint)?.matcher();
    ///     tokens.iter().try_for_each(|&token| matcher.accept_token(token))?;
    ///     for quote in matcher.quotes() {
    ///         println!("{:?} is at {:?} of the letter", quote.text, quote.found.first);
    ///     }
    ///     Ok(())
    /// }
    /// ```
    pub fn quotes(&self) -> Vec<SourceSpan> {
        if self.grammar.sources().is_empty() {
            return Vec::new();
        }
        let output = self.vocab.decode(&self.history.tokens());
        let runs = self.quoted_bytes(&output);
        runs.into_iter().filter_map(|(range, escaped)| self.located(&output, range, escaped)).collect()
    }

    /// Runs of bytes that were read inside spans, and whether they are escaped.
    fn quoted_bytes(&self, output: &[u8]) -> Vec<(Range<usize>, bool)> {
        let mut runs: Vec<(Range<usize>, bool)> = Vec::new();
        let mut runtime = self.replica.lock();
        let Tables::Bytes { machine, .. } = &mut runtime.tables else { return runs };
        let mut config = machine.initial();
        for (i, &byte) in output.iter().enumerate() {
            if let Some(escaped) = machine.copies_source(config, byte) {
                match runs.last_mut() {
                    Some((run, known)) if run.end == i && *known == escaped => run.end += 1,
                    _ => runs.push((i..i + 1, escaped)),
                }
            }
            config = machine.step_bytes(config, &[byte]);
        }
        runs
    }

    fn located(&self, output: &[u8], range: Range<usize>, escaped: bool) -> Option<SourceSpan> {
        let written = std::str::from_utf8(&output[range.clone()]).ok()?;
        let text: String = match escaped {
            true => serde_json::from_str(&format!("\"{written}\"")).ok()?,
            false => written.into(),
        };
        let sources = self.grammar.sources().iter().enumerate();
        let (source, found) = sources.filter_map(|(i, s)| Some((i, s.find(&text)?))).next()?;
        Some(SourceSpan { output: range, text, source, found })
    }
}
