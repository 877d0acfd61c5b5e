//! A small model that drafts under the same masks as the target.
//!
//! It chooses greedily among the legal tokens: a draft that the constraint forbids could not be
//! accepted, and one wrong token spoils all that follow. Its cache is kept in step by comparing
//! tokens: what the target rejected is truncated, what it chose instead is fed with the next draft.
//! Text copied from the source is drafts for this model, too: it reads a copied value in one forward
//! and says where it would go on otherwise, mostly at the closing quote.

use std::sync::Arc;

use super::draft_vocab::shortlist;
use super::{Proposal, ProposalContext, Source};
use crate::error::{ErrorKind, Result};
use crate::matcher::Matcher;
use crate::model::{KvCache, Model, Segment};
use crate::sample::leading;
use crate::vocab::{TokenId, Vocabulary};

/// What the model would have written if not the proposal it made.
pub struct RunnerUp {
    /// The proposal, by its number among those of one judgement.
    pub of: usize,
    /// The constraint in front of it.
    pub matcher: Matcher,
    /// The next most probable token.
    pub token: TokenId,
    /// By how much the proposal led: its grade.
    pub lead: u8,
}

/// A draft model with its cache.
pub struct DraftModel {
    model: Model,
    cache: KvCache,
    /// The tokens in the cache.
    seen: Vec<TokenId>,
    row: Vec<u32>,
    /// What is to be run, from the end of the cache on; not all of it at once if it is long.
    input: Vec<TokenId>,
    /// The first of it that has logits wanted.
    first: usize,
    /// How much of it is being run.
    running: usize,
    /// The tokens it chooses among, if not all; known when it is first asked.
    shortlist: Option<Vec<TokenId>>,
    /// Those that are on every such list.
    always: Arc<Vec<TokenId>>,
    /// The tokens whose logits each row wants.
    only: Vec<Vec<TokenId>>,
    /// Calls so far.
    pub forwards: usize,
}

impl DraftModel {
    /// A draft model at the start of a generation. It chooses among the tokens `always`, sorted, and those that the
    /// prompt suggests; if these are most of the vocabulary, among all.
    ///
    /// # Errors
    /// If no cache can be made.
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

    /// The model.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// The tokens in its cache, and the cache.
    pub fn cache(&self) -> (&[TokenId], &KvCache) {
        (&self.seen, &self.cache)
    }

    /// Begins with the keys and values of the first tokens already known.
    pub fn adopt(&mut self, tokens: &[TokenId], cache: KvCache) {
        self.seen = tokens[..cache.len().min(tokens.len())].to_vec();
        self.cache = cache;
    }

    /// Gets ready to draft after `history` and `draft`: to go along with `candidates`, proposals of other
    /// sources, as far as it would have chosen them itself, and to add one token of its own, in one
    /// forward over [`segment`](Self::segment), whose logits [`judge`](Self::judge) takes. Returns how many
    /// tokens that is over; nothing where its context is full. If it is to run,
    /// [`choose_among`](Self::choose_among) comes next.
    pub fn prepare(
        &mut self,
        history: &[TokenId],
        draft: &[Proposal],
        candidates: &[Proposal],
    ) -> Option<usize> {
        let all = || history.iter().copied().chain(draft.iter().map(|p| p.token));
        let same = self.seen.iter().zip(all()).take_while(|(a, b)| **a == *b).count();
        // The last token must run again if all are known: its logits are wanted.
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

    /// Notes what it chooses among: the `few` tokens that are legal behind the draft, if there are any and no
    /// `candidates`, else those that the prompt, the beginning of `history`, suggests, and the candidates.
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
            // What is copied may be spelled in other tokens than the prompt.
            if let Err(at) = list.binary_search(&candidate.token) {
                list.insert(at, candidate.token);
            }
        }
        self.only.resize(candidates.len() + 1, list);
    }

    /// What is to be run next: all of it, or if that is more than `most` a part that wants no logits.
    pub fn segment(&mut self, most: usize) -> Segment<'_> {
        let whole = self.input.len() <= most || self.first == 0;
        self.running = if whole { self.input.len() } else { self.first.min(most.max(1)) };
        let rows = if whole { self.first..self.running } else { 0..0 };
        Segment {
            tokens: &self.input[..self.running],
            branches: &[],
            cache: &mut self.cache,
            rows,
            only: &self.only,
        }
    }

    /// Takes the logits of the segment and adds proposals to `draft`, behind which `matcher` stands: none
    /// where the model would end the output. They stand at `place`; of those that lead by less than `sure`, a grade,
    /// `seconds` are noted. False if a part is still to be run.
    ///
    /// # Errors
    /// If the logits are of no use.
    pub fn judge(
        &mut self,
        rows: &[Vec<f32>],
        matcher: &mut Matcher,
        candidates: &[Proposal],
        place: ProposalContext,
        draft: &mut Vec<Proposal>,
        (seconds, sure): (&mut Vec<RunnerUp>, u8),
    ) -> Result<bool> {
        self.forwards += 1;
        self.seen.extend(self.input.drain(..self.running));
        self.first = self.first.saturating_sub(self.running);
        if rows.is_empty() {
            return Ok(false);
        }
        self.row.resize(matcher.vocabulary().bitmask_words(), 0);
        for (i, logits) in rows.iter().enumerate() {
            if matcher.is_terminated() {
                break;
            }
            matcher.fill_bitmask(&mut self.row);
            let (token, lead, second) = match leading(logits, &self.row) {
                // Nothing that is legal is on the list.
                Err(e) if e.kind() == ErrorKind::IllegalToken => break,
                leading => leading?,
            };
            let grade = sureness(lead);
            let doubted = second.filter(|_| grade < sure).map(|second| (matcher.fork(), second));
            if matcher.vocabulary().eos().contains(&token) || matcher.accept_token(token).is_err() {
                break;
            }
            if let Some((matcher, token)) = doubted {
                seconds.push(RunnerUp { of: draft.len(), matcher, token, lead: grade });
            }
            match candidates.get(i).filter(|c| c.token == token) {
                Some(agreed) => draft.push(agreed.read()),
                None => {
                    let state = ProposalContext { confidence: grade, ..place };
                    draft.push(Proposal { token, source: Source::Model, state });
                    break;
                }
            }
        }
        Ok(true)
    }
}

/// A grade from the lead of the most probable token over the next one, in nats.
fn sureness(lead: f32) -> u8 {
    [0.5, 1.5, 3.0, 6.0].iter().filter(|bound| lead >= **bound).count() as u8
}
