//! Builds the automaton of free text: any text up to the first trigger or closing text.
//!
//! The automaton looks for two kinds of texts:
//!
//! - *Openers* are triggers of tags and the texts that follow (mostly the end of the tag around
//!   it). Free text contains none of them. After an opener, only text that begins with it can
//!   follow.
//! - *Excluded* texts must not occur in free text. An excluded text may be a part of an opener or
//!   overlap with it: then the text before the opener contains no excluded text, which is valid.
//!
//! The automaton is that of Aho and Corasick (1975) over characters, cut at openers. After an
//! opener comes the trie of all texts that begin with it. A state's missing transitions are those
//! of its longest suffix in the trie. They are built once per suffix *and set of characters that
//! are not missing*.
//!
//! **Ambiguity.** If one opener contains another anywhere but at its start, the inner one leaves it
//! open which of the two was written. This is refused. If one opener begins with another, the
//! shorter one decides, and whatever begins with it may follow.
//!
//! # Cost
//! The size is linear in practice. Writing out all transitions of each state would cost the number
//! of states times the number of first characters.
//!
//! # Alternatives considered
//! Working over bytes was rejected: `é` and `è` share their first byte, and texts would have to be
//! kept apart from halves of characters.

use std::rc::Rc;

use rustc_hash::FxHashMap;

use super::ast::Phrase;
use super::graph::{Follow, StateIx, TagGraph};
use super::strict_object::{error, shown};
use super::trie::{TrieStates, TriggerTrie};
use crate::char_lang::char_class::{self, unicode};
use crate::constraint::json::document::Id;
use crate::constraint::regular::utf8_class;
use crate::error::{ErrorKind, Result};

/// A free text, possibly with tags.
pub(super) struct FreeText {
    pub at: Id,
    /// The state in which it begins.
    pub entry: StateIx,
    /// The texts with which tags begin, and the states after them.
    pub begins: Rc<[(Rc<str>, StateIx)]>,
    pub triggers: Rc<[Phrase]>,
    pub excludes: Rc<[Phrase]>,
    /// True if the text after the free text may follow; if not, a tag must come.
    pub may_end: bool,
}

/// Stands for the place before a free text, in triggers that count only there. No text contains it:
/// its transition is never built.
pub(super) const START: char = char::MAX;

/// A node of a trie.
type NodeIx = u32;

impl FreeText {
    /// Refuses a free text before a format that does not begin with fixed text.
    pub(super) fn check_follow(&self, graph: &TagGraph<'_>, follow: &Follow) -> Result<()> {
        if let (true, Some(open)) = (self.may_end, follow.open) {
            let message = format!(
                "a free text must be followed by fixed text or by the end of the output, but #{} follows",
                graph.doc.pointer(open)
            );
            return Err(error(graph.doc, ErrorKind::Unsupported, self.at, message)
                .hint("put a `const_string` or a `tag` between them"));
        }
        Ok(())
    }

    /// Builds the states.
    pub(super) fn build(self, graph: &mut TagGraph<'_>, follow: Follow) -> Result<()> {
        self.check_follow(graph, &follow)?;
        let mut excludes: Vec<Rc<str>> = self.excludes.iter().map(|e| e.text.clone()).collect();
        let (mut stops, mut end) = (follow.texts, follow.end);
        if !self.may_end {
            // As long as the free text must not end, a text that would end it must not occur.
            excludes.extend(stops.drain(..).map(|s| s.0));
            end = false;
        }
        let all = self.begins.iter().map(|b| &b.0).chain(stops.iter().map(|s| &s.0));
        let all = all.chain(&excludes).chain(self.triggers.iter().map(|t| &t.text));
        graph.watch(all.map(|text| text.len()).sum(), self.at)?;
        let openers = Openers::new(&self, stops, &mut excludes);
        let patterns = Patterns::new(graph, self.at, &openers, &excludes)?;
        if end {
            graph.accept(self.entry);
        }
        let start = patterns.trie.child(0, START).unwrap_or(0);
        let builder = Builder {
            graph,
            at: self.at,
            openers: &openers,
            patterns: &patterns,
            tries: openers.trie.states(),
            free: FxHashMap::from_iter([(start, self.entry)]),
            partial_states: FxHashMap::default(),
            sets: FxHashMap::default(),
            todo: vec![PendingState::Row(start, Rc::new([]), self.entry)],
            end,
            non_ascii: None,
        };
        builder.run()
    }
}

/// The trie of all texts that can follow free text, and the shortest parts that decide.
struct Openers {
    trie: TriggerTrie,
    /// By node of the trie: the opener that ends there, if no shorter opener ends above it.
    fires: Vec<Option<Rc<str>>>,
}

impl Openers {
    /// Builds the openers. Triggers without tags become excluded texts.
    fn new(text: &FreeText, stops: Vec<(Rc<str>, StateIx)>, excludes: &mut Vec<Rc<str>>) -> Self {
        let mut trie = TriggerTrie::default();
        for (begin, state) in text.begins.iter() {
            trie.insert(begin, Some(*state));
        }
        let mut ends: Vec<(NodeIx, Rc<str>)> = Vec::new();
        for trigger in text.triggers.iter() {
            match trie.find(&trigger.text) {
                Some(node) => ends.push((node, trigger.text.clone())),
                None => excludes.push(trigger.text.clone()),
            }
        }
        for (stop, state) in stops {
            ends.push((trie.insert(&stop, Some(state)), stop));
        }
        let mut fires = vec![None; trie.len()];
        for (node, text) in ends {
            fires[node as usize] = Some(text);
        }
        let mut openers = Openers { trie, fires };
        openers.keep_shortest();
        openers
    }

    /// Removes openers that begin with other openers.
    fn keep_shortest(&mut self) {
        let mut todo: Vec<(NodeIx, bool)> = vec![(0, false)];
        while let Some((node, below)) = todo.pop() {
            let fire = &mut self.fires[node as usize];
            if below {
                *fire = None;
            }
            let below = below || fire.is_some();
            todo.extend(self.trie.children(node).iter().map(|&(_, child)| (child, below)));
        }
    }
}

/// The texts that the automaton looks for, with the links of Aho and Corasick.
struct Patterns {
    trie: TriggerTrie,
    /// By node: its longest proper suffix that is also a node.
    fail: Vec<NodeIx>,
    /// By node: the nearest such suffix with a transition that this node lacks; otherwise the root.
    fallback: Vec<NodeIx>,
    /// By node: the node of the openers' trie whose opener was just written.
    fires: Vec<Option<NodeIx>>,
    /// By node: whether an excluded text was just written.
    excluded: Vec<bool>,
    /// By node that is a prefix of an opener: its node in the openers' trie.
    opener: Vec<Option<NodeIx>>,
}

impl Patterns {
    fn new(graph: &TagGraph<'_>, at: Id, openers: &Openers, excludes: &[Rc<str>]) -> Result<Self> {
        let mut trie = TriggerTrie::default();
        let fires: Vec<(NodeIx, &Rc<str>)> =
            openers.fires.iter().zip(0..).filter_map(|(f, node)| Some((node, f.as_ref()?))).collect();
        let ends: Vec<NodeIx> = fires.iter().map(|(_, text)| trie.insert(text, None)).collect();
        let bad: Vec<NodeIx> = excludes.iter().map(|text| trie.insert(text, None)).collect();
        let len = trie.len();
        let mut patterns = Patterns {
            trie,
            fail: vec![0; len],
            fallback: vec![0; len],
            fires: vec![None; len],
            excluded: vec![false; len],
            opener: vec![None; len],
        };
        // By node: an opener that begins with it.
        let mut owner: Vec<Option<&Rc<str>>> = vec![None; len];
        for ((fire, text), end) in fires.into_iter().zip(ends) {
            let (mut node, mut opener) = (0, 0);
            for c in text.chars() {
                let (Some(next), Some(same)) = (patterns.trie.child(node, c), openers.trie.child(opener, c))
                else {
                    break; // never: the text is in both tries
                };
                (node, opener) = (next, same);
                owner[node as usize] = Some(text);
                patterns.opener[node as usize] = Some(opener);
            }
            patterns.fires[end as usize] = Some(fire);
        }
        bad.into_iter().for_each(|node| patterns.excluded[node as usize] = true);
        patterns.link(|inner, outer| match (&openers.fires[inner as usize], owner[outer as usize]) {
            (Some(inner), Some(outer)) => {
                let message = format!(
                    "ambiguous: {:?} contains {:?}, and each of them decides what follows a free text",
                    shown(outer),
                    shown(inner)
                );
                Err(error(graph.doc, ErrorKind::Unsupported, at, message)
                    .hint("choose triggers and ends that do not contain each other, except at the start"))
            }
            _ => Ok(()),
        })?;
        Ok(patterns)
    }

    /// Sets the links and the properties inherited through them, breadth first. Calls `check` with
    /// each opener that ends at a node longer than the opener.
    fn link(&mut self, check: impl Fn(NodeIx, NodeIx) -> Result<()>) -> Result<()> {
        let mut queue = std::collections::VecDeque::from([0]);
        while let Some(node) = queue.pop_front() {
            for &(c, child) in self.trie.children(node) {
                if node != 0 {
                    let mut suffix = self.fail[node as usize];
                    self.fail[child as usize] = loop {
                        match self.trie.child(suffix, c) {
                            Some(found) => break found,
                            None if suffix == 0 => break 0,
                            None => suffix = self.fail[suffix as usize],
                        }
                    };
                }
                queue.push_back(child);
            }
            if node == 0 {
                continue;
            }
            let (here, suffix) = (node as usize, self.fail[node as usize] as usize);
            if let Some(inner) = self.fires[suffix] {
                check(inner, node)?;
                self.fires[here] = Some(inner);
            }
            self.excluded[here] |= self.excluded[suffix];
            let mut other = suffix as NodeIx;
            while other != 0
                && self.trie.children(other).iter().all(|&(c, _)| self.trie.child(node, c).is_some())
            {
                other = self.fallback[other as usize];
            }
            self.fallback[here] = other;
        }
        Ok(())
    }

    /// Returns the openers' prefixes that end at a node, as nodes of the openers' trie.
    fn open_prefixes(&self, mut node: NodeIx) -> Vec<NodeIx> {
        let mut begun = Vec::new();
        while node != 0 {
            begun.extend(self.opener[node as usize]);
            node = self.fail[node as usize];
        }
        begun
    }
}

/// A state whose transitions are still to be built.
enum PendingState {
    /// The transitions of a node of the patterns, without those for the given characters (sorted).
    Row(NodeIx, Rc<[char]>, StateIx),
    /// One of these openers has begun and must be completed.
    Set(Rc<[NodeIx]>, StateIx),
}

struct Builder<'b, 'a> {
    graph: &'b mut TagGraph<'a>,
    at: Id,
    openers: &'b Openers,
    patterns: &'b Patterns,
    tries: TrieStates,
    /// States by node of the patterns.
    free: FxHashMap<NodeIx, StateIx>,
    /// States with the transitions of a node, except for the given characters.
    partial_states: FxHashMap<(NodeIx, Rc<[char]>), StateIx>,
    sets: FxHashMap<Rc<[NodeIx]>, StateIx>,
    todo: Vec<PendingState>,
    /// True if the output may end in free text.
    end: bool,
    /// The state that has the transitions of all characters beyond ASCII.
    non_ascii: Option<StateIx>,
}

impl Builder<'_, '_> {
    fn run(mut self) -> Result<()> {
        while let Some(todo) = self.todo.pop() {
            match todo {
                PendingState::Row(node, without, state) => self.add_transitions(node, &without, state)?,
                PendingState::Set(nodes, state) => self.add_set_transitions(&nodes, state)?,
            }
        }
        self.tries.build(self.graph, &self.openers.trie, self.at)
    }

    /// Returns the state of free text that ends with a node.
    fn free(&mut self, node: NodeIx) -> Result<StateIx> {
        if let Some(&known) = self.free.get(&node) {
            return Ok(known);
        }
        let state = self.graph.state(self.at)?;
        if self.end {
            self.graph.accept(state);
        }
        self.free.insert(node, state);
        self.todo.push(PendingState::Row(node, Rc::new([]), state));
        Ok(state)
    }

    /// Returns the state after the last character of a node; `None` if no text can continue there.
    fn state_after(&mut self, node: NodeIx) -> Result<Option<StateIx>> {
        if let Some(fire) = self.patterns.fires[node as usize] {
            return self.tries.reach(self.graph, fire, self.at).map(Some);
        }
        if !self.patterns.excluded[node as usize] {
            return self.free(node).map(Some);
        }
        self.set(self.patterns.open_prefixes(node))
    }

    /// Builds the transitions from a node, without those for the given characters.
    fn add_transitions(&mut self, node: NodeIx, without: &[char], state: StateIx) -> Result<()> {
        let patterns = self.patterns;
        let mut settled = without.to_vec();
        for &(c, child) in patterns.trie.children(node) {
            if c == START || without.binary_search(&c).is_ok() {
                continue;
            }
            settled.push(c);
            if let Some(to) = self.state_after(child)? {
                let node = self.graph.char(c);
                self.graph.edge(state, node, to);
            }
        }
        settled.sort_unstable();
        if node == 0 {
            return self.others(state, &settled);
        }
        let mut suffix = patterns.fail[node as usize];
        let known = |node| patterns.trie.children(node).iter().all(|(c, _)| settled.binary_search(c).is_ok());
        while suffix != 0 && known(suffix) {
            suffix = patterns.fallback[suffix as usize];
        }
        let key = (suffix, Rc::from(settled));
        let rest = match self.partial_states.get(&key) {
            Some(&rest) => rest,
            None => {
                let rest = self.graph.state(self.at)?;
                self.todo.push(PendingState::Row(suffix, key.1.clone(), rest));
                self.partial_states.insert(key, rest);
                rest
            }
        };
        self.graph.add_empty_edge(state, rest);
        Ok(())
    }

    /// Builds transitions back to the start for all characters except these.
    fn others(&mut self, state: StateIx, settled: &[char]) -> Result<()> {
        let start = self.free(0)?;
        let mut others = others(settled);
        if settled.iter().all(char::is_ascii) {
            // All characters beyond ASCII share one state. So states differ in a few bytes only,
            // and their masks are derived from each other.
            let wide = match self.non_ascii {
                Some(wide) => wide,
                None => {
                    let wide = self.graph.state(self.at)?;
                    let class = utf8_class::class(&[('\u{80}', char::MAX)], self.graph.ir);
                    self.graph.edge(wide, class, start);
                    *self.non_ascii.insert(wide)
                }
            };
            self.graph.add_empty_edge(state, wide);
            others.retain(|r| r.0.is_ascii());
            others.iter_mut().for_each(|r| r.1 = r.1.min('\x7f'));
        }
        if !others.is_empty() {
            let class = utf8_class::class(&others, self.graph.ir);
            self.graph.edge(state, class, start);
        }
        Ok(())
    }

    /// Returns the state in which one of several openers must be completed. An excluded text ends
    /// after their beginnings, so this state cannot continue as free text.
    fn set(&mut self, mut nodes: Vec<NodeIx>) -> Result<Option<StateIx>> {
        nodes.sort_unstable();
        match nodes[..] {
            [] => return Ok(None),
            [one] => return self.tries.reach(self.graph, one, self.at).map(Some),
            _ => {}
        }
        let nodes: Rc<[NodeIx]> = nodes.into();
        if let Some(&known) = self.sets.get(&nodes) {
            return Ok(Some(known));
        }
        let state = self.graph.state(self.at)?;
        self.sets.insert(nodes.clone(), state);
        self.todo.push(PendingState::Set(nodes, state));
        Ok(Some(state))
    }

    fn add_set_transitions(&mut self, nodes: &[NodeIx], state: StateIx) -> Result<()> {
        let openers = self.openers;
        let mut ways: Vec<(char, NodeIx)> =
            nodes.iter().flat_map(|&node| openers.trie.children(node).iter().copied()).collect();
        ways.sort_unstable();
        for same in ways.chunk_by(|a, b| a.0 == b.0) {
            // The first opener that is complete decides.
            let fired = same.iter().find(|w| openers.fires[w.1 as usize].is_some());
            let next = match fired {
                Some(&(_, fire)) => vec![fire],
                None => same.iter().map(|w| w.1).collect(),
            };
            if let Some(to) = self.set(next)? {
                let node = self.graph.char(same[0].0);
                self.graph.edge(state, node, to);
            }
        }
        Ok(())
    }
}

/// Returns all characters except the given ones.
fn others(chars: &[char]) -> Vec<(char, char)> {
    let mut class = unicode(&chars.iter().map(|&c| (c, c)).collect::<Vec<_>>());
    class.negate();
    char_class::ranges(&class).collect()
}
