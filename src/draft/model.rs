//! A small model that drafts under the same masks as the target.
//!
//! It chooses greedily among the legal tokens: a draft that the constraint forbids could not be
//! accepted, and one wrong token spoils all that follow. Its cache is kept in step by comparing
//! tokens: what the target rejected is truncated, what it chose instead is fed with the next draft.
//! Text copied from the source is drafts for this model, too: it reads a copied value in one forward
//! and says where it would go on otherwise, mostly at the closing quote.

use super::{Proposal, Source};
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

    /// Drafts after `history` and `draft`: goes along with `candidates`, proposals of other sources, as
    /// far as it would have chosen them itself, and adds one token of its own. One forward for all of
    /// them. Returns how many proposals were added; none where it would end the output, or where its
    /// context is full.
    ///
    /// # Errors
    /// If the model fails.
    pub fn extend(
        &mut self,
        history: &[TokenId],
        matcher: &mut Matcher,
        candidates: &[Proposal],
        draft: &mut Vec<Proposal>,
    ) -> Result<usize> {
        let all = || history.iter().copied().chain(draft.iter().map(|p| p.token));
        let same = self.seen.iter().zip(all()).take_while(|(a, b)| **a == *b).count();
        // The last token must run again if all are known: its logits are wanted.
        let same = same.min((history.len() + draft.len()).saturating_sub(1));
        let mut new: Vec<TokenId> = all().skip(same).collect();
        let Some(last) = new.len().checked_sub(1) else { return Ok(0) };
        new.extend(candidates.iter().map(|c| c.token));
        if same + new.len() > self.model.config().context {
            return Ok(0);
        }
        self.cache.truncate(same);
        self.seen.truncate(same);
        let mut rows = self.model.forward(&new, &mut self.cache, last..new.len())?;
        self.forwards += 1;
        self.seen.extend_from_slice(&new);
        self.row.resize(matcher.vocabulary().bitmask_words(), 0);
        let mut added = 0;
        for (i, logits) in rows.iter_mut().enumerate() {
            if matcher.is_terminated() {
                break;
            }
            matcher.fill_bitmask(&mut self.row);
            let token = self.sampler.sample(logits, Some(&self.row), 0, &[])?.token;
            if matcher.vocabulary().eos().contains(&token) || matcher.accept_token(token).is_err() {
                break;
            }
            let agreed = candidates.get(i).filter(|c| c.token == token);
            draft.push(agreed.copied().unwrap_or(Proposal { token, source: Source::Model }));
            added += 1;
            if agreed.is_none() {
                break;
            }
        }
        Ok(added)
    }
}
