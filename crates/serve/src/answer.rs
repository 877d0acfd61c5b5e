//! A finished answer in the terms of the protocols: its parts, the reason of its end, and the
//! statistics.

use std::hash::{BuildHasher, Hasher, RandomState};

use serde_json::{Value, json};

use super::reply::{ReplyFormat, ReplyPiece, ReplyReader};
use ffwd_runtime::decode::{BySource, Finish, Output, TokenLogprob};
use ffwd_runtime::vocab::{TokenId, Vocabulary};

/// The parts of an answer.
#[derive(Debug, Default)]
pub(super) struct AnswerParts {
    pub reasoning: String,
    pub content: String,
    pub calls: Vec<AnswerCall>,
}

/// A call of a tool.
#[derive(Debug)]
pub(super) struct AnswerCall {
    pub id: String,
    pub name: String,
    pub custom: bool,
    /// The arguments, or the input of a custom tool.
    pub arguments: String,
}

impl AnswerParts {
    /// Reads a whole answer.
    pub(crate) fn of(format: &ReplyFormat, output: &Output) -> Self {
        let mut reader = ReplyReader::new(format.clone());
        let mut parts = AnswerParts::default();
        let mut pieces = reader.push(&output.text);
        pieces.extend(reader.finish(is_cut(output)));
        for piece in pieces {
            parts.add(&piece);
        }
        parts
    }

    /// Adds a part.
    pub(crate) fn add(&mut self, piece: &ReplyPiece) {
        match piece {
            ReplyPiece::Reasoning(text) => self.reasoning.push_str(text),
            ReplyPiece::Content(text) => self.content.push_str(text),
            ReplyPiece::Call { name, custom } => self.calls.push(AnswerCall {
                id: new_id("call"),
                name: name.clone(),
                custom: *custom,
                arguments: String::new(),
            }),
            ReplyPiece::Arguments(text) => {
                if let Some(call) = self.calls.last_mut() {
                    call.arguments.push_str(text);
                }
            }
        }
    }
}

/// Returns a new name, such as `call_0f3a…`.
pub(super) fn new_id(prefix: &str) -> String {
    format!("{prefix}_{:016x}{:08x}", random_bits(), random_bits() as u32)
}

/// Returns bits that no client can foresee.
pub(super) fn random_bits() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// Returns the seconds since 1970.
pub(super) fn unix_seconds() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |elapsed| elapsed.as_secs())
}

/// Returns the reason of the end. An output that was closed before the limit was cut by it, too.
pub(super) fn finish_reason(output: &Output, calls: bool) -> &'static str {
    match &output.finish {
        Finish::Length { .. } | Finish::Closed | Finish::Cancelled { .. } => "length",
        _ if calls => "tool_calls",
        _ => "stop",
    }
}

/// Returns true if the output may end anywhere in its format.
pub(super) fn is_cut(output: &Output) -> bool {
    finish_reason(output, false) == "length" || stop_reason(output) != Value::Null
}

/// Returns the stop text or stop token that ended the output.
pub(super) fn stop_reason(output: &Output) -> Value {
    match &output.finish {
        Finish::StopText { stop } => stop.as_str().into(),
        Finish::StopToken { token } => (*token).into(),
        _ => Value::Null,
    }
}

/// Tokens of all answers.
pub(super) struct TokenCounts {
    pub prompt: usize,
    pub cached: usize,
    pub output: usize,
    pub reasoning: usize,
}

impl TokenCounts {
    /// Counts the tokens; `reasoning` are those of the thinking.
    pub(crate) fn of(outputs: &[&Output], reasoning: usize) -> Self {
        let first = outputs.first().map(|output| &output.stats);
        TokenCounts {
            prompt: first.map_or(0, |stats| stats.prompt_tokens),
            cached: first.map_or(0, |stats| stats.prompt_cached),
            output: outputs.iter().map(|output| output.stats.tokens).sum(),
            reasoning,
        }
    }

    /// Returns them in the form of chat completions.
    pub(crate) fn usage(&self) -> Value {
        json!({
            "prompt_tokens": self.prompt,
            "completion_tokens": self.output,
            "total_tokens": self.prompt + self.output,
            "prompt_tokens_details": {"cached_tokens": self.cached},
            "completion_tokens_details": {"reasoning_tokens": self.reasoning},
        })
    }
}

/// Returns the number of tokens of the thinking, which the vocabulary writes for its text.
pub(super) fn reasoning_tokens(vocab: &Vocabulary, reasoning: &str) -> usize {
    if reasoning.is_empty() { 0 } else { vocab.encode(reasoning).map_or(0, |tokens| tokens.len()) }
}

/// Returns the member `ffwd` of an answer: sums over all answers, and the warnings.
pub(super) fn statistics(
    outputs: &[&Output],
    warnings: &[String],
    compile_seconds: f64,
    seed: Option<u64>,
) -> Value {
    let sum = |count: fn(&Output) -> usize| outputs.iter().map(|output| count(output)).sum::<usize>();
    let (mut drafted, mut accepted) = (BySource::default(), BySource::default());
    for output in outputs {
        drafted.add(&output.stats.drafted_by_source);
        accepted.add(&output.stats.accepted_by_source);
    }
    let mut all = json!({
        "forwards": sum(|o| o.stats.forwards),
        "draft_forwards": sum(|o| o.stats.draft_forwards),
        "tokens": sum(|o| o.stats.tokens),
        "forced": sum(|o| o.stats.forced),
        "unverified": sum(|o| o.stats.unverified),
        "drafted": sum(|o| o.stats.drafted),
        "accepted": sum(|o| o.stats.accepted),
        "drafted_by_source": drafted,
        "accepted_by_source": accepted,
        "prompt_cached": sum(|o| o.stats.prompt_cached),
        "compile_seconds": compile_seconds,
        "seconds": outputs.iter().map(|o| o.stats.seconds).fold(0.0, f64::max),
        "finish": outputs.iter().map(|o| o.finish.name()).collect::<Vec<_>>(),
        "complete": outputs.iter().all(|o| o.complete),
        "warnings": warnings,
    });
    if let Some(seed) = seed {
        all["seed"] = seed.into();
    }
    let values = |list: fn(&Output) -> &Vec<String>| {
        outputs.iter().flat_map(|output| list(output)).cloned().collect::<Vec<_>>()
    };
    for (name, list) in
        [("guarded", values(|o| &o.stats.guarded)), ("shortened", values(|o| &o.stats.shortened))]
    {
        if !list.is_empty() {
            all[name] = list.into();
        }
    }
    all
}

/// Returns the log-probabilities of the tokens in the form of completions of a text.
pub(super) fn text_logprobs(output: &Output, vocab: &Vocabulary) -> Value {
    let (mut tokens, mut offsets, mut at) = (Vec::new(), Vec::new(), 0);
    for &token in &output.tokens {
        let text = String::from_utf8_lossy(vocab.token_bytes(token)).into_owned();
        offsets.push(at);
        at += text.chars().count();
        tokens.push(text);
    }
    let values: Vec<Option<f32>> = output.logprobs.iter().map(|known| Some(known.as_ref()?.raw)).collect();
    let top = |known: &Option<TokenLogprob>| -> Value {
        let own = known.iter().flat_map(|known| &known.top);
        own.map(|&(token, value)| (String::from_utf8_lossy(vocab.token_bytes(token)), value)).collect()
    };
    let reported = output.logprobs.iter().flatten().any(|known| !known.top.is_empty());
    let top = reported.then(|| output.logprobs.iter().map(top).collect::<Vec<Value>>());
    json!({"tokens": tokens, "token_logprobs": values, "text_offset": offsets, "top_logprobs": top})
}

/// Returns the log-probabilities of the tokens in the form of chat completions. `logprob` is the
/// model's own; that among the legal tokens and their share are in addition.
pub(super) fn logprobs(output: &Output, vocab: &Vocabulary) -> Value {
    let tokens = output.tokens.iter().zip(&output.logprobs);
    let content: Vec<Value> = tokens
        .map(|(&token, logprob)| {
            let entry = |token: TokenId, logprob: f32| {
                let bytes = vocab.token_bytes(token);
                json!({"token": String::from_utf8_lossy(bytes), "logprob": logprob, "bytes": bytes})
            };
            let top = logprob.iter().flat_map(|known| &known.top);
            let top: Vec<Value> = top.map(|&(token, value)| entry(token, value)).collect();
            let mut entry = entry(token, logprob.as_ref().map_or(-9999.0, |logprob| logprob.raw));
            entry["top_logprobs"] = top.into();
            if let Some(logprob) = logprob {
                entry["ffwd"] = json!({"masked": logprob.masked, "legal_mass": logprob.legal_mass});
            }
            entry
        })
        .collect();
    json!({"content": content, "refusal": null})
}
