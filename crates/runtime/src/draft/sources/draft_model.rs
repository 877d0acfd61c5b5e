//! The draft model: a small model that proposes tokens under the same masks as the target.
//!
//! It chooses greedily among the legal tokens: the target cannot accept a token that the constraint
//! forbids, and one wrong token spoils all that follow. Comparing tokens keeps its KV cache in
//! step: tokens that the target rejected are truncated, and the target's own choice runs with the
//! next draft. Text copied from the source is a draft for this model, too. It reads a copied value
//! in one forward and finds where it would continue differently, mostly at the closing quote.

use std::sync::Arc;

use super::draft_vocab::shortlist;
use super::{ModelKind, ProposalKind};
use crate::draft::acceptance::ProposalContext;
use crate::draft::proposal::{DraftRun, Proposal};
use crate::error::{ErrorKind, Result};
use crate::matcher::Matcher;
use crate::model::{KvCache, Model, Segment};
use crate::sample::leading;
use crate::vocab::{TokenId, Vocabulary};

/// A draft model with its KV cache.
pub struct DraftModel {
    model: Model,
    cache: KvCache,
    /// The tokens in the cache.
    seen: Vec<TokenId>,
    row: Vec<u32>,
    /// The tokens to run after those in the cache. A long input runs in several parts.
    input: Vec<TokenId>,
    /// Index of the first token of `input` whose logits are wanted.
    first: usize,
    /// Number of tokens that the current forward runs.
    running: usize,
    /// The tokens it chooses among, unless all; computed at the first call.
    shortlist: Option<Vec<TokenId>>,
    /// The tokens on every such list.
    always: Arc<Vec<TokenId>>,
    /// For each row of the forward, the tokens whose logits are wanted.
    only: Vec<Vec<TokenId>>,
    /// Number of forwards run.
    pub forwards: usize,
}

impl DraftModel {
    /// Returns a draft model at the start of a generation. It chooses among the tokens of `always`,
    /// which is sorted, and those that the prompt suggests. If these are most of the vocabulary, it
    /// chooses among all tokens.
    ///
    /// # Errors
    /// Returns an error if the model cannot create a cache.
    pub fn new(model: &Model, always: Arc<Vec<TokenId>>) -> Result<Self> {
        let cache = model.new_cache()?;
        Ok(DraftModel {
            model: model.clone(),
            cache,
            seen: Vec::new(),
            row: Vec::new(),
            input: Vec::new(),
            first: 0,
            running: 0,
            shortlist: None,
            always,
            only: Vec::new(),
            forwards: 0,
        })
    }

    /// Returns the model.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Returns the tokens in the cache, and the cache.
    pub fn cache(&self) -> (&[TokenId], &KvCache) {
        (&self.seen, &self.cache)
    }

    /// Adopts a cache that holds the keys and values of the first of `tokens`.
    pub fn adopt(&mut self, tokens: &[TokenId], cache: KvCache) {
        self.seen = tokens[..cache.len().min(tokens.len())].to_vec();
        self.cache = cache;
    }

    /// Prepares a forward after `history` and `draft`, and returns its number of tokens, or nothing
    /// if the context is full.
    ///
    /// The forward follows `candidates`, proposals of other sources, as far as the model would have
    /// chosen the same tokens, and adds one token of its own. [`segment`](Self::segment) is the
    /// input, [`judge`](Self::judge) takes its logits. Call [`choose_among`](Self::choose_among)
    /// next if the forward is to run.
    pub fn prepare(
        &mut self,
        history: &[TokenId],
        draft: &[Proposal],
        candidates: &[Proposal],
    ) -> Option<usize> {
        let all = || history.iter().copied().chain(draft.iter().map(|p| p.token));
        let same = self.seen.iter().zip(all()).take_while(|(a, b)| **a == *b).count();
        // The last token must run again even if all are in the cache, since its logits are wanted.
        let same = same.min((history.len() + draft.len()).saturating_sub(1));
        self.input.clear();
        self.input.extend(all().skip(same));
        let last = self.input.len().checked_sub(1)?;
        self.first = last;
        self.input.extend(candidates.iter().map(|c| c.token));
        if same + self.input.len() > self.model.config().context {
            return None;
        }
        self.cache.truncate(same);
        self.seen.truncate(same);
        Some(self.input.len())
    }

    /// Sets the tokens to choose among. These are the `few` tokens that are legal after the draft,
    /// if there are any and no `candidates`. Otherwise they are those that the prompt at the start
    /// of `history` suggests, and the candidates.
    pub fn choose_among(
        &mut self,
        vocab: &Vocabulary,
        history: &[TokenId],
        candidates: &[Proposal],
        few: Vec<TokenId>,
    ) {
        self.only.clear();
        if candidates.is_empty() && !few.is_empty() {
            self.only.push(few);
            return;
        }
        let list = self.shortlist.get_or_insert_with(|| shortlist(vocab, &self.always, history));
        if list.is_empty() {
            return;
        }
        let mut list = list.clone();
        for candidate in candidates {
            // Copied text may be tokenised differently from the prompt.
            if let Err(at) = list.binary_search(&candidate.token) {
                list.insert(at, candidate.token);
            }
        }
        self.only.resize(candidates.len() + 1, list);
    }

    /// Returns the next segment to run: the whole input, or, if that exceeds `most` tokens, a part
    /// without logits.
    pub fn segment(&mut self, most: usize) -> Segment<'_> {
        let whole = self.input.len() <= most || self.first == 0;
        self.running = if whole { self.input.len() } else { self.first.min(most.max(1)) };
        let rows = if whole { self.first..self.running } else { 0..0 };
        Segment { tokens: &self.input[..self.running], cache: &mut self.cache, rows, only: &self.only }
    }

    /// Takes the logits of the segment and returns the proposals after the position of `matcher`;
    /// `None` if a part of the input still has to run.
    ///
    /// There are none where the model would end the output. `context` is that of the proposals.
    ///
    /// # Errors
    /// Returns an error if the logits are not usable.
    pub fn judge(
        &mut self,
        rows: &[Vec<f32>],
        mut matcher: Matcher,
        candidates: &DraftRun,
        context: ProposalContext,
    ) -> Result<Option<DraftRun>> {
        self.forwards += 1;
        self.seen.extend(self.input.drain(..self.running));
        self.first = self.first.saturating_sub(self.running);
        if rows.is_empty() {
            return Ok(None);
        }
        self.row.resize(matcher.vocabulary().bitmask_words(), 0);
        let mut proposals = Vec::new();
        for (i, logits) in rows.iter().enumerate() {
            if matcher.is_terminated() {
                break;
            }
            matcher.fill_bitmask(&mut self.row);
            let (token, lead) = match leading(logits, &self.row) {
                // No legal token is on the list.
                Err(e) if e.kind() == ErrorKind::IllegalToken => break,
                leading => leading?,
            };
            let lead = ModelKind::of_lead(lead);
            let agreed = candidates.proposals().get(i).filter(|c| c.token == token);
            let next = match agreed {
                Some(_) => candidates.matcher_after(i + 1),
                None => after(&matcher, token),
            };
            let Some(next) = next else { break };
            matcher = next;
            match agreed {
                Some(agreed) => proposals.push(agreed.read()),
                None => {
                    proposals.push(Proposal { token, kind: ProposalKind::Model(lead), context });
                    break;
                }
            }
        }
        Ok(Some(DraftRun::reached(proposals, matcher)))
    }
}

/// Returns the constraint after `token`, if it is legal and does not end the output.
fn after(matcher: &Matcher, token: TokenId) -> Option<Matcher> {
    let mut next = matcher.fork();
    let ends = matcher.vocabulary().eos().contains(&token);
    (!ends && next.accept_token(token).is_ok()).then_some(next)
}
