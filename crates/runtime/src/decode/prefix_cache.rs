//! Cache of the keys and values of prompt prefixes that many prompts share: instructions, schemas.
//!
//! An engine keeps them for consecutive generations, a scheduler for those of a batch. A prefix is
//! kept as a copy of its own once two prompts have had it, and is copied into the KV cache of each
//! later request. The latest prompt without a known prefix is kept whole, so that the second prompt
//! with a prefix can use it. When the byte limit is reached, the least recently used prefix is
//! dropped.
//!
//! # Cost
//!
//! A lookup compares with every entry. A copy costs a small part of the forward it saves: the bytes
//! of the cache against the bytes of the weights times tokens.
//!
//! # Alternatives considered
//!
//! Paged caches were rejected: attention would have to gather the pages, and copies are cheap.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::model::KvCache;
use crate::vocab::TokenId;

/// Length of the shortest prefix that is cached, in tokens.
pub(super) const MIN_PREFIX_TOKENS: usize = 16;
/// Number of recent prompts that are remembered to find common prefixes.
const REMEMBERED: usize = 64;
/// Default limit on the size of the cache, in bytes.
pub(super) const DEFAULT_BYTES: usize = 64 << 20;

/// Keys and values of the target and, if there is one, the draft model.
pub(super) type CachedPrefix = (KvCache, Option<KvCache>);

struct PrefixEntry {
    tokens: Vec<TokenId>,
    caches: Arc<CachedPrefix>,
    used: u64,
    /// True until another prompt begins like it.
    is_of_one: bool,
}

/// Cached prefixes and the recent prompts.
pub(super) struct PrefixCache {
    entries: Vec<PrefixEntry>,
    prompts: VecDeque<Vec<TokenId>>,
    most_bytes: usize,
    clock: u64,
}

/// Returns the length of the common prefix, in tokens.
pub(super) fn common(a: &[TokenId], b: &[TokenId]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

impl PrefixCache {
    pub(super) fn new(most_bytes: usize) -> PrefixCache {
        PrefixCache { entries: Vec::new(), prompts: VecDeque::new(), most_bytes, clock: 0 }
    }

    pub(super) fn bytes(&self) -> usize {
        self.entries.iter().map(PrefixEntry::bytes).sum()
    }

    /// Returns the number of first tokens of a prompt that are cached.
    pub(super) fn kept(&self, prompt: &[TokenId]) -> usize {
        self.entries.iter().map(|e| common(&e.tokens, prompt)).max().unwrap_or(0)
    }

    /// Returns the longest cached prefix of the prompt, without its last token: that token's logits
    /// are needed, so it has to run.
    pub(super) fn find(&mut self, prompt: &[TokenId]) -> Option<Found> {
        self.clock += 1;
        let most = prompt.len().saturating_sub(1);
        let entry = self.entries.iter_mut().max_by_key(|e| common(&e.tokens, prompt))?;
        let len = common(&entry.tokens, prompt).min(most);
        if len < MIN_PREFIX_TOKENS {
            return None;
        }
        entry.used = self.clock;
        entry.is_of_one = false;
        Some(Found { caches: entry.caches.clone(), len })
    }

    /// Remembers a prompt; returns the length of its prefix that is to be cached, if any: what it
    /// shares with an earlier one, or all of it if no prefix of it is known.
    pub(super) fn meet(&mut self, prompt: &[TokenId]) -> Option<usize> {
        if self.most_bytes == 0 {
            return None;
        }
        let shared = self.prompts.iter().map(|p| common(p, prompt)).max().unwrap_or(0);
        if self.prompts.len() == REMEMBERED {
            self.prompts.pop_front();
        }
        self.prompts.push_back(prompt.to_vec());
        let kept = self.kept(prompt);
        let known = shared.max(kept) >= MIN_PREFIX_TOKENS;
        match known {
            true => (shared > kept).then_some(shared),
            false => (prompt.len() >= MIN_PREFIX_TOKENS).then_some(prompt.len()),
        }
    }

    /// Caches a prefix, unless it is cached already or exceeds the whole limit.
    pub(super) fn keep(&mut self, tokens: &[TokenId], caches: CachedPrefix) {
        self.clock += 1;
        let same = self.prompts.iter().filter(|p| common(p, tokens) == tokens.len()).count();
        let is_of_one = same < 2;
        let caches = Arc::new(caches);
        let entry = PrefixEntry { tokens: tokens.to_vec(), caches, used: self.clock, is_of_one };
        if self.kept(tokens) >= tokens.len() || entry.bytes() > self.most_bytes {
            return;
        }
        // Entries that are prefixes of the new one are redundant, and one prompt is enough.
        self.entries.retain(|e| common(&e.tokens, tokens) < e.tokens.len() && !(is_of_one && e.is_of_one));
        if is_of_one && self.bytes() + entry.bytes() > self.most_bytes {
            return;
        }
        self.entries.push(entry);
        while self.bytes() > self.most_bytes {
            let oldest = (0..self.entries.len()).min_by_key(|&i| self.entries[i].used);
            // The new entry alone fits, so there is another one to remove.
            let Some(oldest) = oldest else { break };
            self.entries.swap_remove(oldest);
        }
    }
}

/// A prefix to copy. The copy may take a while, so it is made when the cache is no longer locked.
pub(super) struct Found {
    caches: Arc<CachedPrefix>,
    len: usize,
}

impl Found {
    /// Returns a copy for one request.
    pub(super) fn copy(&self) -> CachedPrefix {
        let (target, draft) = &*self.caches;
        (target.prefix(self.len), draft.as_ref().map(|c| c.prefix(self.len)))
    }
}

impl PrefixEntry {
    fn bytes(&self) -> usize {
        self.caches.0.bytes() + self.caches.1.as_ref().map_or(0, KvCache::bytes)
    }
}

#[cfg(test)]
#[cfg(feature = "embedded")]
mod tests {
    use super::*;
    use crate::model::{LoadOptions, Model};

    #[test]
    fn beginnings_are_kept_within_their_bytes_and_the_oldest_goes_first() {
        let model = Model::embedded_draft(&LoadOptions::default()).unwrap();
        let run = |tokens: &[TokenId]| {
            let mut cache = model.new_cache().unwrap();
            model.forward(tokens, &mut cache, 0..0).unwrap();
            (cache.prefix(tokens.len()), None)
        };
        let prompt = |kind: u32| (0..40).map(|i| 100 * kind + i).collect::<Vec<_>>();
        let [a, b, c] = [1, 2, 3].map(prompt);
        let one = run(&a).0.bytes();
        let mut prefixes = PrefixCache::new(2 * one);
        assert!(prefixes.find(&a).is_none());
        assert_eq!(prefixes.meet(&a), Some(40), "all of it, since none of it is known");
        assert_eq!(prefixes.meet(&a), Some(40));
        assert_eq!(prefixes.meet(&[&a[..20], &b[..]].concat()), Some(20));
        assert_eq!(prefixes.meet(&[&a[..10], &b[..]].concat()), Some(50), "too short");
        // From here on, each is of two prompts.
        for tokens in [&b, &c, &[&c[..], &b[..5]].concat()] {
            (0..2).for_each(|_| _ = prefixes.meet(tokens));
        }
        prefixes.keep(&a, run(&a));
        prefixes.keep(&b, run(&b));
        assert_eq!((prefixes.kept(&a), prefixes.bytes()), (40, 2 * one));
        assert_eq!(prefixes.meet(&a), None, "it is kept");
        // The last token has to run.
        assert_eq!(prefixes.find(&a).unwrap().copy().0.len(), 39);
        assert_eq!(prefixes.find(&[&a[..], &b[..]].concat()).unwrap().copy().0.len(), 40);
        prefixes.keep(&c, run(&c));
        assert_eq!([&a, &b, &c].map(|p| prefixes.kept(p)), [40, 0, 40]);
        // A longer prefix replaces its own prefix; one that is too long is not kept.
        let longer = [&c[..], &b[..5]].concat();
        prefixes.keep(&longer, run(&longer));
        assert!(prefixes.bytes() <= 2 * one);
        assert_eq!(prefixes.kept(&longer), 45);
        let endless: Vec<TokenId> = (0..200).collect();
        prefixes.keep(&endless, run(&endless));
        assert_eq!(prefixes.kept(&endless), 0);
        // A prompt that no other began like gives way to the next one, and not to those that were used.
        let [d, e] = [4, 5].map(prompt);
        let mut prefixes = PrefixCache::new(2 * one);
        for p in [&a, &d, &e] {
            assert_eq!(prefixes.meet(p), Some(40));
            prefixes.keep(p, run(p));
            assert_eq!(prefixes.kept(p), 40);
        }
        assert_eq!([&a, &d].map(|p| prefixes.kept(p)), [0, 0]);
        let like_e = [&e[..20], &a[..]].concat();
        assert_eq!(prefixes.find(&like_e).unwrap().copy().0.len(), 20);
        assert_eq!(prefixes.meet(&like_e), None, "it is kept as a part of the other");
        prefixes.keep(&d, run(&d));
        assert_eq!([&e, &d].map(|p| prefixes.kept(p)), [40, 40]);
        prefixes.keep(&b, run(&b));
        assert_eq!([&e, &d, &b].map(|p| prefixes.kept(p)), [40, 0, 40]);
        prefixes = PrefixCache::new(2 * one);
        prefixes.keep(&longer, run(&longer));
        // The copy equals the computed one.
        let next = |mut cache: KvCache| model.forward(&[7], &mut cache, 0..1).unwrap();
        let copied = prefixes.find(&longer).unwrap().copy().0;
        assert_eq!(next(copied), next(run(&longer[..44]).0));
    }
}
