//! Probabilities of all values that the constraint allows in the place of a value, such as the
//! values of an enum.
//!
//! The values are found by a search through the constraint's bytes, which ends without a result if
//! there are too many. A search over tokens, best first, then adds up probabilities: as soon as the
//! bytes of a path leave a single value, all of the path's probability belongs to that value. So all
//! token sequences of a value count, and most values need a single forward together.
//!
//! # Cost
//!
//! The prompt and the output pass through the model once more. Each value then takes a forward for
//! each path that leaves several values.
//!
//! # Alternatives considered
//!
//! A trie of the values in the tokenizer's own tokens, as for labels, was rejected. The masks of a
//! JSON Schema allow every tokenisation, so its sums would be too small.

use std::collections::BinaryHeap;

use serde::Serialize;
use serde_json::Value;

use super::best_first::SearchEntry;
use super::confidence::is_forced;
use super::engine::Engine;
use super::json_values::{LeafValue, leaf_values};
use super::output::Output;
use super::prefix_reader::PrefixReader;
use super::request::Request;
use crate::error::{Error, ErrorKind, Result};
use crate::matcher::Matcher;
use crate::sample::Sampler;
use crate::vocab::{TokenId, Vocabulary};

/// Largest number of byte positions that are examined for the values of one field.
const MAX_STEPS: usize = 4096;
/// Probability of the undecided paths at which the search ends.
const NEGLIGIBLE: f64 = 1e-9;

/// Limits of [`Engine::alternatives`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AlternativeOptions {
    /// Largest number of values (default 64). Values with more alternatives are left out.
    pub max_values: usize,
    /// Largest number of forwards for each value (default 64). What is undecided then is the rest.
    pub max_forwards: usize,
}

impl Default for AlternativeOptions {
    fn default() -> Self {
        AlternativeOptions { max_values: 64, max_forwards: 64 }
    }
}

/// The distribution over the values that the constraint allows at a JSON pointer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ValueAlternatives {
    /// JSON pointer of the value.
    pub pointer: String,
    /// All values, the most probable first.
    pub values: Vec<ValueProbability>,
    /// Probability that no value has got within the limit of forwards: the probabilities are exact
    /// up to this sum.
    pub rest: f64,
    /// Number of forwards.
    pub forwards: usize,
}

/// A value and its probability.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ValueProbability {
    /// The value.
    pub value: Value,
    /// Its probability under masked decoding at temperature 1, given the output before it: the sum
    /// over all token sequences of the value.
    pub probability: f64,
}

impl Engine {
    /// Returns the distributions over the values of an output that the constraint chooses from a
    /// few: enums, booleans, optional values of these, and small ranges of numbers. `output` is an
    /// output of `request`.
    ///
    /// Values that the constraint determines are left out. So is a value whose first token also
    /// ends the value before it.
    ///
    #[cfg_attr(feature = "embedded", doc = "```")]
    #[cfg_attr(not(feature = "embedded"), doc = "```ignore")]
    /// use ffwd::Engine;
    /// use ffwd::decode::AlternativeOptions;
    /// use ffwd::extract::Extractor;
    ///
    /// # fn main() -> ffwd::Result<()> {
    /// let engine = Engine::embedded()?;
    /// let schema = r#"{"properties": {"paid": {"type": "boolean"}}, "required": ["paid"]}"#;
    /// let request = Extractor::new(&engine, schema)?.request("The invoice is settled.")?;
    /// let output = engine.generate(&request)?;
    /// let found = engine.alternatives(&request, &output, &AlternativeOptions::default())?;
    /// assert_eq!(found[0].pointer, "/paid");
    /// let sum: f64 = found[0].values.iter().map(|value| value.probability).sum();
    /// assert!((sum + found[0].rest - 1.0).abs() < 1e-5);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Fails if the request has no constraint, if the output is not one of the request, or if the
    /// model fails.
    pub fn alternatives(
        &self,
        request: &Request,
        output: &Output,
        options: &AlternativeOptions,
    ) -> Result<Vec<ValueAlternatives>> {
        let grammar = self.grammar(request)?.ok_or_else(|| {
            Error::new(ErrorKind::InvalidOption, "alternatives are those of a constraint, but there is none")
        })?;
        let mut matcher = grammar.matcher();
        let Some(answer) = output.answer.as_deref().filter(|_| !matcher.is_token_level()) else {
            return Ok(Vec::new());
        };
        let prompt = request.prompt.encode(self.vocabulary())?;
        let mut search = AlternativeSearch {
            reader: self.reader(&prompt)?.0,
            sampler: Sampler::new(request.sampling.clone())?,
            vocab: self.vocabulary(),
            options: *options,
            history: prompt,
            context: self.target().config().context,
        };
        let offset = output.text.len() - answer.len();
        let mut leaves = leaf_values(answer.as_bytes()).into_iter().peekable();
        let mut found = Vec::new();
        let mut end = 0;
        for &token in &output.tokens {
            let at = end;
            end += self.vocabulary().token_bytes(token).len();
            while leaves.next_if(|leaf| has_ended(leaf, answer.as_bytes(), offset, at)).is_some() {}
            if !is_forced(&mut matcher, self.vocabulary(), token) {
                // The values that begin to differ with this token.
                while let Some(leaf) = leaves.next_if(|leaf| offset + leaf.bytes.start < end) {
                    if at >= offset {
                        found.extend(search.of_value(&matcher, answer.as_bytes(), at - offset, leaf)?);
                    }
                }
            }
            matcher.accept_token(token)?;
            search.history.push(token);
        }
        Ok(found)
    }
}

/// Returns true if a value has ended before byte `at` of the tokens: a number ends only with the
/// token after it.
fn has_ended(leaf: &LeafValue, answer: &[u8], offset: usize, at: usize) -> bool {
    let end = offset + leaf.bytes.end;
    end < at || (end == at && !answer[leaf.bytes.end - 1].is_ascii_digit())
}

/// The search for the alternatives of the values of one output.
struct AlternativeSearch<'a> {
    reader: PrefixReader<'a>,
    sampler: Sampler,
    vocab: &'a Vocabulary,
    options: AlternativeOptions,
    /// The prompt and the output before the value.
    history: Vec<TokenId>,
    context: usize,
}

impl AlternativeSearch<'_> {
    /// Returns the alternatives of a value. `matcher` is the constraint at byte `at` of the answer,
    /// where the first free token of the value begins.
    fn of_value(
        &mut self,
        matcher: &Matcher,
        answer: &[u8],
        at: usize,
        leaf: LeafValue,
    ) -> Result<Option<ValueAlternatives>> {
        let start = leaf.bytes.start;
        let lead = answer.get(at..start).unwrap_or_default();
        let lead_is_forced =
            || matcher.forced_bytes_after(b"", lead.len()).is_some_and(|run| run.starts_with(lead));
        if !lead.is_empty() && !lead_is_forced() {
            return Ok(None);
        }
        let written = answer.get(start..at).unwrap_or_default();
        let Some(texts) = allowed_values(matcher, self.vocab, lead, written, self.options.max_values) else {
            return Ok(None);
        };
        if texts.len() < 2 {
            return Ok(None);
        }
        // As the bytes after `at`.
        let texts: Vec<Vec<u8>> = texts.iter().map(|text| [lead, &text[written.len()..]].concat()).collect();
        let (probabilities, rest, forwards) = self.probabilities(matcher, &texts)?;
        let mut values: Vec<ValueProbability> = Vec::new();
        for (text, probability) in texts.iter().zip(probabilities) {
            let text = [written, &text[lead.len()..]].concat();
            let Ok(value) = serde_json::from_slice(&text) else { return Ok(None) };
            match values.iter_mut().find(|known| known.value == value) {
                Some(known) => known.probability += probability,
                None => values.push(ValueProbability { value, probability }),
            }
        }
        values.sort_by(|a, b| b.probability.total_cmp(&a.probability));
        Ok(Some(ValueAlternatives { pointer: leaf.pointer, values, rest, forwards }))
    }

    /// Returns the probability of each text, the undecided probability, and the number of forwards.
    fn probabilities(&mut self, matcher: &Matcher, texts: &[Vec<u8>]) -> Result<(Vec<f64>, f64, usize)> {
        let mut sums = vec![0.0; texts.len()];
        let start = TokenPath { bytes: Vec::new(), matcher: matcher.fork() };
        let start = SearchEntry { log: 0.0, key: Vec::new(), value: start };
        let mut paths = BinaryHeap::from([start]);
        let mut mask = vec![0; self.vocab.bitmask_words()];
        let (mut left, mut forwards) = (1.0, 0);
        while left > NEGLIGIBLE
            && forwards < self.options.max_forwards
            && let Some(SearchEntry { log: before, key: tokens, value: mut path }) = paths.pop()
        {
            let sequence = [&self.history[..], &tokens].concat();
            if sequence.len() >= self.context {
                continue;
            }
            let mut logits = self.reader.logits_from(&sequence, sequence.len())?.swap_remove(0);
            forwards += 1;
            path.matcher.fill_bitmask(&mut mask);
            for (token, log) in self.sampler.log_probabilities(&mut logits, &mask, &sequence)? {
                let ends = self.vocab.eos().contains(&token);
                let bytes = match ends {
                    true => path.bytes.clone(),
                    false => [&path.bytes[..], self.vocab.token_bytes(token)].concat(),
                };
                let log = before + log;
                let mut fitting = (0..texts.len()).filter(|&i| fits(&texts[i], &bytes, ends));
                match (fitting.next(), fitting.next()) {
                    (Some(only), None) => {
                        sums[only] += log.exp();
                        left -= log.exp();
                    }
                    (Some(_), Some(_)) => {
                        let mut matcher = path.matcher.fork();
                        matcher.accept_token(token)?;
                        let key = [&tokens[..], &[token]].concat();
                        paths.push(SearchEntry { log, key, value: TokenPath { bytes, matcher } });
                    }
                    (None, _) => {}
                }
            }
        }
        Ok((sums, left.max(0.0), forwards))
    }
}

/// Returns true if the output may be `text` and what follows it, once `bytes` are there; `ends` if
/// nothing follows them.
fn fits(text: &[u8], bytes: &[u8], ends: bool) -> bool {
    if ends {
        return text == bytes;
    }
    match bytes.strip_prefix(text) {
        Some([]) => true,
        // A number continues with these.
        Some([next, ..]) => !text.last().is_some_and(u8::is_ascii_digit) || !continues_number(*next),
        None => text.starts_with(bytes),
    }
}

fn continues_number(byte: u8) -> bool {
    byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E' | b'+' | b'-')
}

/// A sequence of tokens after the start of the search, which several values have in common.
struct TokenPath {
    bytes: Vec<u8>,
    matcher: Matcher,
}

/// Returns the texts of all JSON values that the constraint allows after `lead`, each beginning with
/// `written`, of which `matcher` has read nothing if `lead` is not empty. Returns `None` if they are
/// more than `most`, or if an object or array may come.
fn allowed_values(
    matcher: &Matcher,
    vocab: &Vocabulary,
    lead: &[u8],
    written: &[u8],
    most: usize,
) -> Option<Vec<Vec<u8>>> {
    let trie = vocab.trie();
    let single = |byte: u8| trie.child(0, byte).and_then(|node| trie.tokens_at(node).first().copied());
    let mut start = matcher.fork();
    for &byte in lead {
        start.accept_token(single(byte)?).ok()?;
    }
    let mut texts = Vec::new();
    let mut open = vec![(start, written.to_vec())];
    let mut steps = 0;
    while let Some((mut matcher, text)) = open.pop() {
        steps += 1;
        if steps > MAX_STEPS || texts.len() + open.len() > most {
            return None;
        }
        if is_whole(&text) {
            texts.push(text);
            continue;
        }
        let is_number = text.last().is_some_and(u8::is_ascii_digit) && text[0] != b'"';
        let mask = matcher.bitmask();
        let next: Vec<(u8, TokenId)> = (0..=u8::MAX)
            .filter(|byte| !text.is_empty() || !byte.is_ascii_whitespace())
            .filter_map(|byte| Some((byte, single(byte)?)))
            .filter(|&(_, token)| mask.contains(token))
            .collect();
        if is_number && (matcher.is_accepting() || next.iter().any(|&(byte, _)| !continues_number(byte))) {
            texts.push(text.clone());
        }
        for (byte, token) in next.into_iter().rev() {
            if is_number && !continues_number(byte) {
                continue;
            }
            if text.is_empty() && matches!(byte, b'{' | b'[') {
                return None;
            }
            let mut next = matcher.fork();
            next.accept_token(token).ok()?;
            open.push((next, [&text[..], &[byte]].concat()));
        }
    }
    (texts.len() <= most).then_some(texts)
}

/// Returns true if the text is a whole string or literal, which cannot continue.
fn is_whole(text: &[u8]) -> bool {
    match text.first() {
        Some(b'"') => serde_json::from_slice::<String>(text).is_ok(),
        Some(b't' | b'f' | b'n') => serde_json::from_slice::<Value>(text).is_ok(),
        _ => false,
    }
}
