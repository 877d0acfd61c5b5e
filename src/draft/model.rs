//! A small model that drafts under the same masks as the target.
//!
//! It chooses greedily among the legal tokens: a draft that the constraint forbids could not be
//! accepted, and one wrong token spoils all that follow. Its cache is kept in step by comparing
//! tokens: what the target rejected is truncated, what it chose instead is fed with the next draft.

use super::{Gate, Proposal, Source};
use crate::error::Result;
use crate::matcher::Matcher;
use crate::model::{KvCache, Model};
use crate::sample::{Sampler, SamplingParams};
use crate::vocab::TokenId;

/// A draft model with its cache.
pub struct DraftModel {
    model: Model,
    cache: KvCache,
    /// The tokens in the cache.
    seen: Vec<TokenId>,
    sampler: Sampler,
    row: Vec<u32>,
    /// Calls so far.
    pub forwards: usize,
}

impl DraftModel {
    /// A draft model at the start of a generation.
    ///
    /// # Errors
    /// If no cache can be made.
    pub fn new(model: &Model) -> Result<Self> {
        let sampler = Sampler::new(SamplingParams::default())?;
        let cache = model.new_cache()?;
        Ok(DraftModel {
            model: model.clone(),
            cache,
            seen: Vec::new(),
            sampler,
            row: Vec::new(),
            forwards: 0,
        })
    }

    /// Drafts tokens after `history` and `draft` while the gate admits them and the constraint leaves
    /// a choice; returns the survival estimate of the whole draft.
    ///
    /// # Errors
    /// If the model fails.
    pub fn propose(
        &mut self,
        history: &[TokenId],
        matcher: &mut Matcher,
        gate: &Gate,
        mut survival: f64,
        room: usize,
        draft: &mut Vec<Proposal>,
    ) -> Result<f64> {
        while draft.len() < room && gate.admits(Source::Model, survival, draft.len()) {
            let all = || history.iter().copied().chain(draft.iter().map(|p| p.token));
            let same = self.seen.iter().zip(all()).take_while(|(a, b)| **a == *b).count();
            // The last token must run again if all are known: its logits are wanted.
            let same = same.min(history.len() + draft.len() - 1);
            let new: Vec<TokenId> = all().skip(same).collect();
            if same + new.len() > self.model.config().context {
                break;
            }
            self.cache.truncate(same);
            self.seen.truncate(same);
            let last = new.len() - 1;
            let mut rows = self.model.forward(&new, &mut self.cache, last..last + 1)?;
            self.forwards += 1;
            self.seen.extend_from_slice(&new);
            let Some(logits) = rows.first_mut() else { break };
            self.row.resize(matcher.vocabulary().bitmask_words(), 0);
            matcher.fill_bitmask(&mut self.row);
            let token = self.sampler.sample(logits, Some(&self.row), 0, &[])?.token;
            if matcher.vocabulary().eos().contains(&token) || matcher.accept_token(token).is_err() {
                break;
            }
            draft.push(Proposal { token, source: Source::Model });
            survival *= gate.rate(Source::Model);
            if matcher.is_terminated() || !matcher.forced_bytes().is_empty() {
                break;
            }
        }
        Ok(survival)
    }
}
