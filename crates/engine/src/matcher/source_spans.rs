//! Spans of an output that were copied from a source text, with their positions in both.
//!
//! A byte belongs to a span if the automaton read it inside the spans of a source. A second pass
//! over the output finds these bytes. The source then determines whether the span may end there and
//! where else it occurs.
//!
//! # Cost
//!
//! A step of the automaton per byte, and a walk through the source's automaton per span.
//!
//! # Alternatives considered
//!
//! Noting positions during generation was rejected: it would make each token of every generation
//! more expensive.

use std::ops::Range;

use super::Matcher;
use super::tables::Tables;
use crate::constraint::substring::Occurrences;

/// A span of a source text in an output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceSpan {
    /// Its bytes in the output, as written there: in a JSON string with escapes and without the
    /// quotation marks.
    pub output: Range<usize>,
    /// The copied text.
    pub text: String,
    /// Index of the source in [`CompiledGrammar::sources`](super::CompiledGrammar::sources).
    pub source: usize,
    /// Its occurrences in the source.
    pub found: Occurrences,
}

impl Matcher {
    /// Returns the spans of the output so far that come from the sources of its constraint, in
    /// output order. A span that is still being written is included if it may end at its current
    /// end. Two spans with nothing between them count as one, so they are reported only if the
    /// source contains them in this form.
    ///
    /// ```
    /// use ffwd_engine::constraint::substring::SubstringOptions;
    /// use ffwd_engine::{Compiler, Constraint, Vocabulary};
    ///
    /// fn signed_by(vocab: Vocabulary, letter: &str, tokens: &[u32]) -> ffwd_engine::Result<()> {
    ///     let schema = r#"{"properties": {"by": {"type": "string", "x-verbatim": true}}}"#;
    ///     let constraint =
    ///         Constraint::builder().source(letter, &SubstringOptions::words()).json_schema(schema)?;
    ///     let mut matcher = Compiler::new(vocab).compile(&constraint)?.matcher();
    ///     tokens.iter().try_for_each(|&token| matcher.accept_token(token))?;
    ///     for quote in matcher.source_spans() {
    ///         println!("{:?} is at {:?} of the letter", quote.text, quote.found.first);
    ///     }
    ///     Ok(())
    /// }
    /// ```
    pub fn source_spans(&self) -> Vec<SourceSpan> {
        if let Some(moved) = self.moved() {
            return moved.source_spans();
        }
        if self.grammar.sources().is_empty() {
            return Vec::new();
        }
        let output = self.vocab.decode(&self.history.tokens());
        let runs = self.quoted_bytes(&output);
        runs.into_iter().filter_map(|(range, escaped)| self.located(&output, range, escaped)).collect()
    }

    /// Returns the runs of bytes that were read inside spans, and whether each is escaped.
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
