//! Panics at chosen points of a step, for tests of what a panic leaves behind.
//!
//! It is compiled for unit tests only. A test arms one point; the panic comes when the thread has
//! passed that point a number of times.

use std::cell::Cell;

/// A point at which a panic can be injected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Point {
    /// In the closure after a byte, with work left.
    Closure,
    /// Between the calls of a closure and their stacks.
    Calls,
    /// In the middle of the entry of a stack node.
    Stack,
    /// In the middle of the entry of a deterministic state.
    State,
    /// In a name that must be new.
    Name,
    /// In the scan of an array with unique items.
    Scan,
    /// In the search for a new item.
    Search,
    /// In a walk of the byte trie.
    Walk,
    /// While the mask of a configuration is composed.
    Mask,
}

impl Point {
    pub(crate) const ALL: [Point; 9] = [
        Point::Closure,
        Point::Calls,
        Point::Stack,
        Point::State,
        Point::Name,
        Point::Scan,
        Point::Search,
        Point::Walk,
        Point::Mask,
    ];
}

thread_local! {
    static ARMED: Cell<Option<(Point, u32)>> = const { Cell::new(None) };
}

/// Arms a point: the passage after `count` others panics.
pub(crate) fn arm(point: Point, count: u32) {
    ARMED.set(Some((point, count)));
}

/// Disarms all points.
pub(crate) fn disarm() {
    ARMED.set(None);
}

/// Panics if the point is armed and its count has run out.
pub(crate) fn pass(point: Point) {
    match ARMED.get() {
        Some((armed, 0)) if armed == point => {
            disarm();
            std::panic::panic_any(Injected);
        }
        Some((armed, count)) if armed == point => ARMED.set(Some((armed, count - 1))),
        _ => {}
    }
}

/// The payload of an injected panic.
pub(crate) struct Injected;
