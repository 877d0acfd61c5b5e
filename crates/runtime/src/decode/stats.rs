//! Statistics of a generation, its mode, and the reason why it ended.

use std::collections::BTreeMap;
use std::ops::{Index, IndexMut};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::draft::{DraftSource, GateReport};
use crate::vocab::TokenId;

/// Handling of forced runs; see the architecture page for the four modes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// One forward per token; the definition of the output.
    Off,
    /// Drafts, each position verified: the same tokens as `Off`.
    #[default]
    Exact,
    /// Forced runs as the tokenizer would write them, unverified.
    Canonical,
    /// Forced runs by longest token, unverified.
    Longest,
}

impl Mode {
    /// All modes.
    pub const ALL: [Mode; 4] = [Mode::Off, Mode::Exact, Mode::Canonical, Mode::Longest];

    /// Returns the name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Off => "off",
            Mode::Exact => "exact",
            Mode::Canonical => "canonical",
            Mode::Longest => "longest",
        }
    }
}

impl std::str::FromStr for Mode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Mode::ALL
            .into_iter()
            .find(|m| m.name() == text)
            .ok_or_else(|| format!("{text:?} is no mode; the modes are off, exact, canonical and longest"))
    }
}

/// The reason why a generation ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "reason")]
#[non_exhaustive]
pub enum Finish {
    /// The model chose to end, or the constraint left nothing else.
    Stop,
    /// A stop text was generated; the output ends in front of it.
    StopText {
        /// The stop text.
        stop: String,
    },
    /// A stop token was chosen; it is not part of the output.
    StopToken {
        /// The token.
        token: TokenId,
    },
    /// The token limit was near, so a short completion was emitted instead of the model's own
    /// continuation. The output is complete, but its last values are not the model's.
    Closed,
    /// The token limit or the model's context was reached; with a constraint, inside the value at
    /// this JSON pointer. The text is not a complete output.
    Length {
        /// JSON pointer of the unfinished value; empty at the top level.
        path: String,
        /// The text so far of that value.
        partial: String,
    },
    /// The generation was cancelled; with a constraint, inside the value at this JSON pointer.
    Cancelled {
        /// JSON pointer of the unfinished value; empty at the top level.
        path: String,
        /// The text so far of that value.
        partial: String,
    },
}

impl Finish {
    /// Returns `stop`, `stop_text`, `stop_token`, `closed`, `length` or `cancelled`.
    pub fn name(&self) -> &'static str {
        match self {
            Finish::Stop => "stop",
            Finish::StopText { .. } => "stop_text",
            Finish::StopToken { .. } => "stop_token",
            Finish::Closed => "closed",
            Finish::Length { .. } => "length",
            Finish::Cancelled { .. } => "cancelled",
        }
    }
}

/// Number of tokens by the source that proposed them.
///
/// ```
/// use ffwd::decode::BySource;
/// use ffwd::draft::DraftSource;
///
/// let mut counts = BySource::default();
/// counts[DraftSource::Lookup] += 3;
/// assert_eq!(counts.total(), 3);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BySource([usize; DraftSource::ALL.len()]);

impl BySource {
    /// Returns the sources with their counts.
    pub fn iter(&self) -> impl Iterator<Item = (DraftSource, usize)> + '_ {
        DraftSource::ALL.into_iter().map(|source| (source, self[source]))
    }

    /// Returns the sum of all counts.
    pub fn total(&self) -> usize {
        self.0.iter().sum()
    }

    /// Adds the counts of another generation.
    pub fn add(&mut self, other: &BySource) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, count)| *sum += count);
    }
}

impl Index<DraftSource> for BySource {
    type Output = usize;

    fn index(&self, source: DraftSource) -> &usize {
        &self.0[source as usize]
    }
}

impl IndexMut<DraftSource> for BySource {
    fn index_mut(&mut self, source: DraftSource) -> &mut usize {
        &mut self.0[source as usize]
    }
}

/// A map from the names of the sources.
impl Serialize for BySource {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter().map(|(source, count)| (source.statistic(), count)))
    }
}

impl<'de> Deserialize<'de> for BySource {
    /// Sources that are not in the map have no tokens; other names are ignored.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let counts = BTreeMap::<String, usize>::deserialize(deserializer)?;
        let count = |source: DraftSource| counts.get(source.statistic()).copied().unwrap_or_default();
        Ok(BySource(DraftSource::ALL.map(count)))
    }
}

/// Seconds of a generation by activity; the remaining seconds are masks, choices and bookkeeping.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct TimeBreakdown {
    /// The target's first forward: the prompt, and the tokens drafted after it.
    pub prompt: f64,
    /// Further forwards of the target.
    pub target: f64,
    /// Forwards of the draft model.
    pub draft_model: f64,
}

/// Statistics of one generation.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Stats {
    /// Output tokens, the end token not counted.
    pub tokens: usize,
    /// Calls of the target model, the one for the prompt included.
    pub forwards: usize,
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// Prompt tokens shared with an earlier prompt, whose keys and values were already present.
    pub prompt_cached: usize,
    /// Output tokens that came from forced runs.
    pub forced: usize,
    /// Output tokens emitted without verification: completions before the limit, and ends of
    /// thinking.
    pub unverified: usize,
    /// JSON pointers of values that repeated themselves and were ended
    /// ([`Request::guard`](super::Request::guard)).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub guarded: Vec<String>,
    /// JSON pointers of strings that were ended before their `maxLength`
    /// ([`Request::end_at_words`](super::Request::end_at_words)).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub shortened: Vec<String>,
    /// Tokens after the ends of these strings, which were taken back.
    pub taken_back: usize,
    /// Tokens proposed for verification.
    pub drafted: usize,
    /// Proposed tokens that the target model agreed with.
    pub accepted: usize,
    /// Proposed tokens, by source.
    pub drafted_by_source: BySource,
    /// Accepted tokens, by source.
    pub accepted_by_source: BySource,
    /// Calls of the draft model.
    pub draft_forwards: usize,
    /// `tokens / forwards`.
    pub tokens_per_forward: f64,
    /// `forced / tokens`.
    pub deterministic_fraction: f64,
    /// In the unverified modes: the probability, under plain masked decoding, of all unverified
    /// forced tokens that later passed through the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub survival: Option<f64>,
    /// The seconds by activity; `None` for a generation in a batch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spent: Option<TimeBreakdown>,
    /// The reasons for the draft lengths, if requested with
    /// [`Request::explain_gate`](super::Request::explain_gate).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gate: Option<GateReport>,
    /// The mode.
    pub mode: Mode,
    /// Wall-clock seconds, without the compilation of the constraint.
    pub seconds: f64,
    /// Seconds spent on compiling the constraint.
    pub compile_seconds: f64,
    /// The name of the [`Finish`].
    pub finish: String,
}

impl Stats {
    /// Fills in the ratios, the seconds and the name of the finish.
    pub(super) fn close(&mut self, finish: &Finish, seconds: f64) {
        let ratio = |a: usize, b: usize| if b == 0 { 0.0 } else { a as f64 / b as f64 };
        self.tokens_per_forward = ratio(self.tokens, self.forwards);
        self.deterministic_fraction = ratio(self.forced, self.tokens);
        self.seconds = seconds;
        self.finish = finish.name().into();
    }
}
