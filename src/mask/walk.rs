//! The walk of the byte trie that finds which tokens a state allows.
//!
//! One loop over depth-first arrays: test the byte of a node, go down on success, jump over the
//! subtree on failure. It starts from threads on an unknown stack ([`BASE`](crate::machine::BASE));
//! where the rule ends, the node is noted as an *exit* and what follows is answered elsewhere, once
//! for every stack. On the stack of the root rule ([`ROOT`](crate::machine::ROOT)) nothing follows. Cost:
//! about 3 ns per node tested while one thread is alive and no rule is entered or left.

use crate::machine::{Machine, Reached, Thread};
use crate::vocab::{TokenId, Trie, TrieNode, byte_group};

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
    /// Byte groups of which a token must still have one.
    need: u16,
}

/// Buffers of a walk, kept between walks.
#[derive(Default)]
pub(super) struct Walker {
    pool: Vec<Thread>,
    levels: Vec<Level>,
    reached: Reached,
}

impl Walker {
    /// Walks a whole trie, starting from `threads` at its root. Tokens without a byte of the groups
    /// `need` are known not to be legal and may be passed over, as may those that begin with `skip`.
    pub(super) fn walk(
        &mut self,
        machine: &mut Machine,
        trie: &Trie,
        threads: &[Thread],
        (need, skip): (u16, Option<u8>),
        found: &mut Found,
    ) {
        for byte in (0..=255).filter(|&b| Some(b) != skip) {
            let child = trie.first(byte);
            if child != 0 && threads.iter().any(|t| machine.step_state(t.local.state, byte) != 0) {
                self.walk_from(machine, trie, child, threads, need, found);
            }
        }
    }

    /// Walks the node `top` and those below it; `threads` stand at its parent.
    pub(super) fn walk_from(
        &mut self,
        machine: &mut Machine,
        trie: &Trie,
        top: TrieNode,
        threads: &[Thread],
        need: u16,
        found: &mut Found,
    ) {
        self.pool.clear();
        self.pool.extend_from_slice(threads);
        self.levels.clear();
        let stop = trie.end(top);
        self.levels.push(Level { end: stop, from: 0, need });
        let mut p = top;
        while p < stop {
            while let Some(level) = self.levels.last()
                && p >= level.end
            {
                self.pool.truncate(level.from);
                self.levels.pop();
            }
            // The first level spans the whole walk, so there always is one.
            let (from, need) = self.levels.last().map_or((0, need), |l| (l.from, l.need));
            if trie.groups(p) & need == 0 {
                p = trie.end(p);
                continue;
            }
            let byte = trie.byte(p);
            // Once such a byte is on the path, every token below has it.
            let need = if byte_group(byte) & need != 0 { u16::MAX } else { need };
            if let [thread] = self.pool[from..] {
                let Some(local) = machine.step_local(thread.local, byte) else {
                    p = trie.end(p);
                    continue;
                };
                if machine.stays(local.state, thread.stack) {
                    found.tokens.extend(trie.tokens_at(p).iter().map(|&t| (t, local.n)));
                    self.descend(trie, p, &[Thread { local, stack: thread.stack }], need);
                    p += 1;
                    continue;
                }
            }
            machine.step(&self.pool[from..], byte, &mut self.reached);
            if let Some(n) = self.reached.exit {
                found.exits.push((p, n));
            }
            if self.reached.threads.is_empty() {
                if self.reached.ended {
                    found.tokens.extend(trie.tokens_at(p).iter().map(|&t| (t, 0)));
                }
                p = trie.end(p);
                continue;
            }
            let n = if let [one] = self.reached.threads[..] { one.local.n } else { 0 };
            found.tokens.extend(trie.tokens_at(p).iter().map(|&t| (t, n)));
            let threads = std::mem::take(&mut self.reached.threads);
            self.descend(trie, p, &threads, need);
            self.reached.threads = threads;
            p += 1;
        }
    }

    fn descend(&mut self, trie: &Trie, p: TrieNode, threads: &[Thread], need: u16) {
        let end = trie.end(p);
        if end > p + 1 {
            self.levels.push(Level { end, from: self.pool.len(), need });
            self.pool.extend_from_slice(threads);
        }
    }
}
