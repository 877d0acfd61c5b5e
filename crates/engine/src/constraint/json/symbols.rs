//! Table of interned strings, on top of a table that all documents share.
//!
//! # Cost
//!
//! Interning hashes the text once. Each symbol adds four bytes to its text.
//!
//! # Alternatives considered
//!
//! A `Vec<String>` with a map from `String` was rejected: it holds every text twice and allocates
//! for each.

use std::hash::BuildHasher;

use hashbrown::HashTable;
use rustc_hash::FxBuildHasher;

/// An interned string: a member name, the decoded text of a string, or the text of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(in crate::constraint) struct Symbol(pub u32);

/// Interned strings, one after the other in one buffer. Most of a schema is names, so an allocation
/// for each would dominate parsing.
#[derive(Debug, Default)]
pub(in crate::constraint) struct SymbolTable {
    /// Table that all documents share; its symbols come first.
    shared: Option<&'static SymbolTable>,
    text: String,
    ends: Vec<u32>,
    index: HashTable<Entry>,
}

/// A symbol and the location of its text. Most unequal texts already differ in length.
#[derive(Debug, Clone, Copy)]
struct Entry {
    name: Symbol,
    first: u32,
    length: u32,
}

impl Entry {
    fn text(self, all: &str) -> &str {
        &all[self.first as usize..][..self.length as usize]
    }
}

impl SymbolTable {
    /// Creates a table, on top of a shared one if there is one, with room for the strings of a text
    /// of `bytes` bytes.
    pub(crate) fn on(shared: Option<&'static SymbolTable>, bytes: usize) -> SymbolTable {
        SymbolTable {
            shared,
            text: String::with_capacity(bytes / 3),
            ends: Vec::with_capacity(bytes / 60),
            index: HashTable::with_capacity(bytes / 60),
        }
    }

    /// Returns the number of shared symbols.
    fn first(&self) -> u32 {
        self.shared.map_or(0, |shared| shared.ends.len() as u32)
    }

    pub(crate) fn get(&self, name: Symbol) -> &str {
        match (self.shared, name.0.checked_sub(self.first())) {
            (Some(shared), None) => shared.get(name),
            (_, at) => word(&self.text, &self.ends, at.unwrap_or(0)),
        }
    }

    /// Returns the symbols that were added to this table, in their order.
    pub(crate) fn all(&self) -> impl Iterator<Item = Symbol> + use<> {
        let first = self.first();
        (first..first + self.ends.len() as u32).map(Symbol)
    }

    pub(crate) fn find(&self, text: &str) -> Option<Symbol> {
        self.find_hashed(text, FxBuildHasher.hash_one(text))
    }

    fn find_hashed(&self, text: &str, hash: u64) -> Option<Symbol> {
        let shared = self.shared.and_then(|shared| shared.find_hashed(text, hash));
        let is_text = |e: &Entry| e.length as usize == text.len() && e.text(&self.text) == text;
        shared.or_else(|| self.index.find(hash, is_text).map(|e| e.name))
    }

    /// Returns the symbol of a string. Symbols are numbered in the order in which strings are
    /// added.
    pub(crate) fn intern(&mut self, text: &str) -> Symbol {
        let hash = FxBuildHasher.hash_one(text);
        if let Some(name) = self.find_hashed(text, hash) {
            return name;
        }
        let name = Symbol(self.first() + self.ends.len() as u32);
        let entry = Entry { name, first: self.text.len() as u32, length: text.len() as u32 };
        self.text.push_str(text);
        self.ends.push(self.text.len() as u32);
        let SymbolTable { text: all, index, .. } = self;
        index.insert_unique(hash, entry, |e| FxBuildHasher.hash_one(e.text(all)));
        name
    }
}

/// Returns the string with this number. It begins at the end of its predecessor.
fn word<'a>(text: &'a str, ends: &[u32], at: u32) -> &'a str {
    let at = at as usize;
    let from = if at == 0 { 0 } else { ends[at - 1] as usize };
    &text[from..ends[at] as usize]
}
