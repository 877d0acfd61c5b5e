//! The walk of the byte trie that finds which tokens a state allows.
//!
//! One loop over depth-first arrays: test the byte of a node, go down on success, jump over the
//! subtree on failure. It starts from threads on an unknown stack ([`BASE`](crate::machine::BASE));
//! where the rule ends, the node is noted as an *exit* and what follows is answered elsewhere, once
//! for every stack. Cost: about 3 ns per node tested while one thread is alive and no rule is entered
//! or left.

use crate::machine::{Machine, Reached, Thread};
use crate::vocab::{TokenId, Trie, TrieNode};

/// What a walk found. The numbers are register values: characters so far where they are counted.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Tokens that end inside the rule.
    pub tokens: Vec<(TokenId, u32)>,
    /// Nodes at which the rule ends.
    pub exits: Vec<(TrieNode, u32)>,
}

struct Level {
    /// One past the subtree that these threads are for.
    end: TrieNode,
    /// Where they start in the pool.
    from: usize,
}

/// Buffers of a walk, kept between walks.
#[derive(Default)]
pub(super) struct Walker {
    pool: Vec<Thread>,
    levels: Vec<Level>,
    reached: Reached,
}

impl Walker {
    /// Walks the nodes below `root` of `trie`, starting from `threads` there.
    pub(super) fn walk(
        &mut self,
        machine: &mut Machine,
        trie: &Trie,
        root: TrieNode,
        threads: &[Thread],
        found: &mut Found,
    ) {
        self.pool.clear();
        self.pool.extend_from_slice(threads);
        self.levels.clear();
        let stop = trie.end(root);
        self.levels.push(Level { end: stop, from: 0 });
        let mut p = root + 1;
        while p < stop {
            while let Some(level) = self.levels.last()
                && p >= level.end
            {
                self.pool.truncate(level.from);
                self.levels.pop();
            }
            // The level of `root` spans the whole walk, so there always is one.
            let from = self.levels.last().map_or(0, |l| l.from);
            let byte = trie.byte(p);
            if let [thread] = self.pool[from..] {
                let Some(local) = machine.step_local(thread.local, byte) else {
                    p = trie.end(p);
                    continue;
                };
                if !machine.is_busy(local.state) {
                    found.tokens.extend(trie.tokens_at(p).iter().map(|&t| (t, local.n)));
                    self.descend(trie, p, &[Thread { local, stack: thread.stack }]);
                    p += 1;
                    continue;
                }
            }
            machine.step(&self.pool[from..], byte, &mut self.reached);
            if let Some(n) = self.reached.exit {
                found.exits.push((p, n));
            }
            if self.reached.threads.is_empty() {
                p = trie.end(p);
                continue;
            }
            let n = if let [one] = self.reached.threads[..] { one.local.n } else { 0 };
            found.tokens.extend(trie.tokens_at(p).iter().map(|&t| (t, n)));
            let threads = std::mem::take(&mut self.reached.threads);
            self.descend(trie, p, &threads);
            self.reached.threads = threads;
            p += 1;
        }
    }

    fn descend(&mut self, trie: &Trie, p: TrieNode, threads: &[Thread]) {
        let end = trie.end(p);
        if end > p + 1 {
            self.levels.push(Level { end, from: self.pool.len() });
            self.pool.extend_from_slice(threads);
        }
    }
}
