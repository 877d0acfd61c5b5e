//! Stacks of return frames, hash-consed from the bottom.
//!
//! A stack node holds a *set* of frames. Alternatives that enter the same rule at the same position
//! share the node (a graph-structured stack, Tomita 1985). So the number of threads stays linear in
//! the nesting.
//!
//! The frame of an array with unique items is a *scope*. Each node knows the scopes below it, so
//! that one array can be refused without the others (see [`unique_items`](super::unique_items)).
//!
//! # Cost
//!
//! A hash lookup for each rule that is entered.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::nfa::RegisterIx;
use super::properties::seen_names::TextId;
use super::register::Register;
use super::thread::{Frame, LocalState, StackId, Thread};

/// An open array with unique items: its register, and the text before it.
pub(super) type Scope = (RegisterIx, TextId);

/// All stack nodes met so far.
#[derive(Debug, Clone)]
pub(crate) struct Stacks {
    nodes: Vec<Arc<[Frame]>>,
    index: FxHashMap<Arc<[Frame]>, StackId>,
    /// The scopes below each node. Empty if no register is a scope.
    scopes: Vec<Arc<[Scope]>>,
    registers: Arc<[Register]>,
    /// Bytes of the lists of frames.
    heap: usize,
}

impl Stacks {
    /// Creates the two stacks that always exist.
    pub(super) fn new(registers: Arc<[Register]>, scoped: bool) -> Self {
        let (no_frames, no_scopes): (Arc<[Frame]>, Arc<[Scope]>) = (Arc::from([]), Arc::from([]));
        Stacks {
            nodes: vec![no_frames.clone(), no_frames],
            index: FxHashMap::default(),
            scopes: if scoped { vec![no_scopes.clone(), no_scopes] } else { Vec::new() },
            registers,
            heap: 0,
        }
    }

    /// Returns the number of nodes.
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns the bytes held.
    pub(crate) fn bytes(&self) -> usize {
        let nodes = self.nodes.capacity() * 16 + self.index.capacity() * 24;
        nodes + self.scopes.len() * 24 + self.heap
    }

    /// Returns the frames of a node.
    #[inline]
    pub(crate) fn frames(&self, stack: StackId) -> &Arc<[Frame]> {
        &self.nodes[stack as usize]
    }

    /// Returns the node with one frame.
    pub(crate) fn above(&mut self, ret: LocalState, parent: StackId) -> StackId {
        self.intern(&[Frame { ret, parent }])
    }

    /// Returns the node of some frames.
    pub(super) fn intern(&mut self, frames: &[Frame]) -> StackId {
        if let Some(&id) = self.index.get(frames) {
            return id;
        }
        let scopes = self.has_scopes().then(|| self.scopes_below(frames));
        let frames: Arc<[Frame]> = frames.into();
        let id = self.nodes.len() as StackId;
        self.heap += 16 + size_of_val(&*frames);
        self.scopes.extend(scopes);
        #[cfg(test)]
        crate::fault::pass(crate::fault::Point::Stack);
        self.nodes.push(frames.clone());
        self.index.insert(frames, id);
        id
    }

    fn has_scopes(&self) -> bool {
        !self.scopes.is_empty()
    }

    fn scopes_below(&self, frames: &[Frame]) -> Arc<[Scope]> {
        let mut all: Vec<Scope> = Vec::new();
        for frame in frames {
            all.extend(self.scope(frame));
            all.extend_from_slice(&self.scopes[frame.parent as usize]);
        }
        all.sort_unstable();
        all.dedup();
        all.into()
    }

    /// Returns the scope that a frame is, if it is one.
    fn scope(&self, frame: &Frame) -> Option<Scope> {
        let LocalState { register, n, .. } = frame.ret;
        matches!(self.registers[register as usize], Register::Distinct(_)).then_some((register, n))
    }

    /// Returns the scopes below a node.
    #[inline]
    pub(super) fn scopes_of(&self, stack: StackId) -> &[Scope] {
        self.scopes.get(stack as usize).map_or(&[], |scopes| scopes)
    }

    /// Returns the scopes that some of the threads are in.
    pub(super) fn scopes(&self, threads: &[Thread]) -> Vec<Scope> {
        let of = |t: &Thread| self.scopes_of(t.stack).iter().copied();
        let mut all: Vec<Scope> = threads.iter().flat_map(of).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Returns a stack without the paths through some scopes, or `None` if nothing is left.
    pub(super) fn without_scopes(&mut self, stack: StackId, bad: &[Scope]) -> Option<StackId> {
        let touched =
            |stacks: &Stacks, s: StackId| stacks.scopes_of(s).iter().any(|scope| bad.contains(scope));
        if !touched(self, stack) {
            return Some(stack);
        }
        let mut all = vec![stack];
        let mut next = 0;
        while let Some(&at) = all.get(next) {
            for frame in self.frames(at).iter() {
                if touched(self, frame.parent) && !all.contains(&frame.parent) {
                    all.push(frame.parent);
                }
            }
            next += 1;
        }
        // A node is made after those below it.
        all.sort_unstable();
        let mut made: FxHashMap<StackId, Option<StackId>> = FxHashMap::default();
        for at in all {
            let mut frames = Vec::new();
            for frame in self.frames(at).iter() {
                if self.scope(frame).is_some_and(|scope| bad.contains(&scope)) {
                    continue;
                }
                let parent = made.get(&frame.parent).copied().unwrap_or(Some(frame.parent));
                frames.extend(parent.map(|parent| Frame { parent, ..*frame }));
            }
            frames.sort_unstable();
            frames.dedup();
            let node = if frames.is_empty() { None } else { Some(self.intern(&frames)) };
            made.insert(at, node);
        }
        made.get(&stack).copied().flatten()
    }

    /// Returns the threads that are left without the paths through some scopes.
    pub(super) fn threads_without(&mut self, threads: &[Thread], bad: &[Scope]) -> Vec<Thread> {
        if bad.is_empty() {
            return threads.to_vec();
        }
        let mut left = Vec::with_capacity(threads.len());
        for thread in threads {
            left.extend(self.without_scopes(thread.stack, bad).map(|stack| Thread { stack, ..*thread }));
        }
        left
    }
}
