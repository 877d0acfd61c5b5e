//! Arena of JSON values: member order, number texts, decoded strings and JSON pointers are kept.
//!
//! This is what the front ends need. Numbers keep their text (no `f64`), and each value knows its
//! position in the document. Strings and names are interned, so a front end compares integers. It
//! may pass names that are interned first ([`Language`]): then it knows their symbols.
//!
//! Texts for readers make up a large part of some documents. A [`TextFilter`] names them: they are
//! checked and left out.
//!
//! If a name occurs twice in one object, the last value counts and takes the position of the first,
//! as in `serde_json`. The document remembers one such name, for a warning.
//!
//! # Cost
//!
//! Parsing is one pass with an explicit stack, linear in the text.
//!
//! # Alternatives considered
//!
//! `serde_json::Value` was rejected: it reads numbers through `f64`, and a value does not know its
//! position. Its ids cannot be keys of a memo.

use rustc_hash::{FxBuildHasher, FxHashMap};

use super::symbol_set::SymbolSet;
pub(in crate::constraint) use super::symbols::Symbol;
use super::symbols::SymbolTable;
use crate::error::Place;

/// Maximum size of a JSON text, in bytes.
pub(crate) const MAX_BYTES: usize = 16 << 20;
/// Maximum number of values in one JSON text.
pub(crate) const MAX_VALUES: usize = 1_000_000;
/// Maximum nesting of arrays and objects.
pub(crate) const MAX_DEPTH: usize = 512;

/// Id of a value in the arena.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(in crate::constraint) struct Id(pub u32);

/// A JSON value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::constraint) enum Value {
    Null,
    Bool(bool),
    /// The text of the number as written.
    Number(Symbol),
    /// The decoded text.
    String(Symbol),
    /// Elements `first..first + len` of the element table.
    Array {
        first: u32,
        len: u32,
    },
    /// Members `first..first + len` of the member table.
    Object {
        first: u32,
        len: u32,
    },
}

/// Location of a value: its parent and the index among the parent's children.
#[derive(Debug, Clone, Copy)]
pub(in crate::constraint) struct Parent {
    id: Id,
    index: u32,
}

/// Members whose texts are left out of a document, because they are for its readers.
#[derive(Debug)]
pub(in crate::constraint) struct TextFilter {
    /// Names of the members that are left out if they are strings.
    pub texts: SymbolSet,
    /// Names of members inside which everything is kept.
    pub literals: SymbolSet,
    /// Names of members whose own members have free names: none of these is left out.
    pub free_names: SymbolSet,
}

/// What a front end knows about the documents of its language before it reads one.
#[derive(Debug)]
pub(in crate::constraint) struct Language {
    /// Symbols that all its documents share.
    pub symbols: SymbolTable,
    pub filter: TextFilter,
}

/// A parsed document, and further documents to which it refers.
#[derive(Debug)]
pub(in crate::constraint) struct Doc {
    pub(in crate::constraint) values: Vec<Value>,
    parents: Vec<Option<Parent>>,
    pub(in crate::constraint) elements: Vec<Id>,
    /// Member table. Before the members of each object are two entries with the set of their names,
    /// as four 32-bit parts.
    pub(in crate::constraint) members: Vec<(Symbol, Id)>,
    symbols: SymbolTable,
    /// Texts that are left out of all documents.
    pub(super) filter: Option<&'static TextFilter>,
    pub(in crate::constraint) root: Id,
    /// String values made for property names.
    name_strings: FxHashMap<Symbol, Id>,
    /// One duplicated member name with its object, if there was any.
    pub duplicate: Option<(Id, Symbol)>,
    /// Roots of further documents, with the URI of each.
    pub(super) further_roots: FxHashMap<Id, String>,
}

impl Doc {
    /// Creates a document without values, with room for those of a text of some bytes.
    pub(super) fn with_capacity(language: Option<&'static Language>, bytes: usize) -> Doc {
        // A value takes some 20 bytes of text in real schemas.
        let values = bytes.min(MAX_BYTES) / 20;
        Doc {
            values: Vec::with_capacity(values),
            parents: Vec::with_capacity(values),
            elements: Vec::new(),
            members: Vec::with_capacity(values),
            symbols: SymbolTable::on(language.map(|l| &l.symbols), bytes.min(MAX_BYTES)),
            filter: language.map(|l| &l.filter),
            root: Id(0),
            name_strings: FxHashMap::default(),
            duplicate: None,
            further_roots: FxHashMap::default(),
        }
    }

    /// Replaces the root by a copy that is specific to a dynamic scope.
    pub(crate) fn set_root(&mut self, root: Id) {
        self.root = root;
    }

    /// Puts a rewritten copy of a document in the place of its root.
    pub(in crate::constraint) fn replace_root(&mut self, root: Id, copy: Id) {
        self.parents[copy.0 as usize] = self.parents[root.0 as usize];
        if self.root == root {
            self.root = copy;
        }
        if let Some(uri) = self.further_roots.get(&root).cloned() {
            self.further_roots.insert(copy, uri);
        }
    }

    /// Copies a value with other children, given in the order of its own. The copy of a root is a
    /// root.
    pub(crate) fn copy(&mut self, id: Id, children: &[(Symbol, Id)]) -> Id {
        let copy = match self.value(id) {
            Value::Array { .. } => self.close_array(children),
            Value::Object { .. } => self.close_object(children),
            scalar => self.push(scalar),
        };
        if let Some(uri) = self.further_roots.get(&id).cloned() {
            self.further_roots.insert(copy, uri);
        }
        copy
    }

    pub(crate) fn root(&self) -> Id {
        self.root
    }

    pub(crate) fn value(&self, id: Id) -> Value {
        self.values[id.0 as usize]
    }

    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }

    pub(crate) fn name(&self, name: Symbol) -> &str {
        self.symbols.get(name)
    }

    /// Returns the symbol of a string that occurs in the document or was interned later.
    pub(crate) fn lookup(&self, text: &str) -> Option<Symbol> {
        self.symbols.find(text)
    }

    pub(crate) fn intern(&mut self, text: &str) -> Symbol {
        self.symbols.intern(text)
    }

    /// Returns the members of an object, in order; empty for other values.
    pub(crate) fn members(&self, id: Id) -> &[(Symbol, Id)] {
        match self.value(id) {
            Value::Object { first, len } => &self.members[first as usize..(first + len) as usize],
            _ => &[],
        }
    }

    /// Returns the elements of an array, in order; empty for other values.
    pub(crate) fn elements(&self, id: Id) -> &[Id] {
        match self.value(id) {
            Value::Array { first, len } => &self.elements[first as usize..(first + len) as usize],
            _ => &[],
        }
    }

    /// Returns the names that an object has; empty for other values.
    pub(crate) fn names(&self, id: Id) -> SymbolSet {
        let Value::Object { first, .. } = self.value(id) else { return SymbolSet::default() };
        let Some(&[(a, b), (c, d)]) = self.members[..first as usize].last_chunk() else {
            return SymbolSet::default();
        };
        let half = |low: Symbol, high: Id| u64::from(low.0) | u64::from(high.0) << 32;
        SymbolSet(u128::from(half(a, b)) | u128::from(half(c, d)) << 64)
    }

    /// Begins the members of an object and returns the index of the first.
    fn open_members(&mut self) -> usize {
        self.members.extend([(Symbol(0), Id(0)); 2]);
        self.members.len()
    }

    /// Makes an object of the members from `first` on.
    fn object_of(&mut self, first: usize) -> Id {
        let members = &self.members[first..];
        let len = members.len() as u32;
        let names = members.iter().fold(SymbolSet::default(), |names, m| names.or(SymbolSet::one(m.0))).0;
        self.members[first - 2] = (Symbol(names as u32), Id((names >> 32) as u32));
        self.members[first - 1] = (Symbol((names >> 64) as u32), Id((names >> 96) as u32));
        self.push(Value::Object { first: first as u32, len })
    }

    /// Returns the member of that name.
    pub(crate) fn get(&self, id: Id, name: impl Into<Symbol>) -> Option<Id> {
        let name = name.into();
        if !self.names(id).may_have(name) {
            return None;
        }
        self.members(id).iter().find(|m| m.0 == name).map(|m| m.1)
    }

    /// Returns the member of that name; `null` counts as absent.
    pub(crate) fn member(&self, id: Id, name: &str) -> Option<Id> {
        self.get(id, self.lookup(name)?).filter(|&member| self.value(member) != Value::Null)
    }

    /// Returns a value as JSON text.
    pub(crate) fn written(&self, id: Id) -> String {
        let mut text = Vec::new();
        self.write(id, &mut text);
        // It is written from strings, so it is UTF-8 and nothing is lost here.
        String::from_utf8_lossy(&text).into_owned()
    }

    /// Returns the decoded text of a string value.
    pub(crate) fn string(&self, id: Id) -> Option<Symbol> {
        match self.value(id) {
            Value::String(name) => Some(name),
            _ => None,
        }
    }

    pub(crate) fn parent(&self, id: Id) -> Option<Id> {
        self.parents[id.0 as usize].map(|p| p.id)
    }

    /// Returns the JSON pointer (RFC 6901) of a value in its document.
    pub(crate) fn pointer(&self, id: Id) -> String {
        self.pointer_and_root(id).0
    }

    fn pointer_and_root(&self, id: Id) -> (String, Id) {
        let mut steps = Vec::new();
        let mut at = id;
        while let Some(parent) = self.parents[at.0 as usize] {
            steps.push(match self.value(parent.id) {
                Value::Object { first, .. } => {
                    let name = self.members[(first + parent.index) as usize].0;
                    self.name(name).replace('~', "~0").replace('/', "~1")
                }
                _ => parent.index.to_string(),
            });
            at = parent.id;
        }
        let mut text = String::new();
        for step in steps.iter().rev() {
            text.push('/');
            text.push_str(step);
        }
        (text, at)
    }

    /// Returns the location of a value, for errors.
    pub(crate) fn place(&self, id: Id) -> Place {
        let (pointer, root) = self.pointer_and_root(id);
        match self.further_roots.get(&root) {
            Some(uri) => Place::Document { uri: uri.clone(), pointer },
            None => Place::Pointer(pointer),
        }
    }

    pub(in crate::constraint) fn push(&mut self, value: Value) -> Id {
        self.values.push(value);
        self.parents.push(None);
        Id(self.values.len() as u32 - 1)
    }

    /// Returns a string value outside the document tree.
    pub(crate) fn string_value(&mut self, text: Symbol) -> Id {
        if let Some(&id) = self.name_strings.get(&text) {
            return id;
        }
        let id = self.push(Value::String(text));
        self.name_strings.insert(text, id);
        id
    }

    /// Makes an array of values of the tree, which keep their locations.
    pub(in crate::constraint) fn outside_array(&mut self, elements: &[Id]) -> Id {
        self.elements.extend(elements);
        let (all, len) = (self.elements.len() as u32, elements.len() as u32);
        self.push(Value::Array { first: all - len, len })
    }

    /// Makes an object of values that keep their locations.
    pub(in crate::constraint) fn outside_object(&mut self, members: &[(Symbol, Id)]) -> Id {
        let first = self.open_members();
        self.members.extend(members);
        self.object_of(first)
    }

    /// Gives a value, in messages, the location of another one.
    pub(in crate::constraint) fn locate_as(&mut self, id: Id, like: Id) {
        self.parents[id.0 as usize] = self.parents[like.0 as usize];
    }

    /// Makes an array of these elements; the symbols are ignored.
    pub(in crate::constraint) fn close_array(&mut self, elements: &[(Symbol, Id)]) -> Id {
        let first = self.elements.len() as u32;
        self.elements.extend(elements.iter().map(|e| e.1));
        let id = self.push(Value::Array { first, len: elements.len() as u32 });
        for (&(_, child), index) in elements.iter().zip(0..) {
            self.parents[child.0 as usize] = Some(Parent { id, index });
        }
        id
    }

    /// Makes an object of these members; the last of several members with one name counts.
    pub(in crate::constraint) fn close_object(&mut self, members: &[(Symbol, Id)]) -> Id {
        let first = self.open_members();
        let many = if members.len() > COMPARE_NAMES_UP_TO { members.len() } else { 0 };
        let mut seen: FxHashMap<Symbol, usize> = FxHashMap::with_capacity_and_hasher(many, FxBuildHasher);
        let mut duplicate = None;
        for &(name, id) in members {
            // Most objects are so small that comparing every name is faster than hashing.
            let kept = &self.members[first..];
            let known = match members.len() {
                ..=COMPARE_NAMES_UP_TO => kept.iter().position(|m| m.0 == name),
                _ => seen.get(&name).copied(),
            };
            match known {
                Some(at) => {
                    self.members[first + at].1 = id;
                    duplicate = Some(name);
                }
                None => {
                    if members.len() > COMPARE_NAMES_UP_TO {
                        seen.insert(name, kept.len());
                    }
                    self.members.push((name, id));
                }
            }
        }
        let id = self.object_of(first);
        for (&(_, child), index) in self.members[first..].iter().zip(0..) {
            self.parents[child.0 as usize] = Some(Parent { id, index });
        }
        if let Some(name) = duplicate {
            self.duplicate.get_or_insert((id, name));
        }
        id
    }
}

/// Objects with at most this many members have their names compared one by one.
const COMPARE_NAMES_UP_TO: usize = 16;
