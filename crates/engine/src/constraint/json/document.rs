//! Arena of JSON values: member order, number texts, decoded strings and JSON pointers are kept.
//!
//! This is what a schema front end needs. Numbers keep their text (no `f64`), and each value knows
//! its position in the document. Strings and names are interned, so the rest of the front end
//! compares integers.
//!
//! Annotation texts (`title`, `description`, `$comment`) make up a large part of real schemas. They
//! are checked and left out, except where they may be values or names of the instance.
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

use super::parser::Parser;
pub(in crate::constraint) use crate::constraint::json::symbols::SymbolTable;
use crate::constraint::json_schema::keyword_set::KeywordSet;
use crate::constraint::json_schema::keywords as kw;
use crate::error::{Error, ErrorKind, Place, Result};

/// Maximum size of a JSON text, in bytes.
pub(crate) const MAX_BYTES: usize = 16 << 20;
/// Maximum number of values in one JSON text.
pub(crate) const MAX_VALUES: usize = 1_000_000;
/// Maximum nesting of arrays and objects.
pub(crate) const MAX_DEPTH: usize = 512;

/// Id of a value in the arena.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(in crate::constraint) struct Id(pub u32);

/// An interned string: a member name, the decoded text of a string, or the text of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(in crate::constraint) struct Symbol(pub u32);

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

/// A parsed document, and further documents to which it refers.
#[derive(Debug)]
pub(in crate::constraint) struct Doc {
    pub(in crate::constraint) values: Vec<Value>,
    pub(in crate::constraint) parents: Vec<Option<Parent>>,
    pub(in crate::constraint) elements: Vec<Id>,
    /// Member table. Before the members of each object is one entry with the object's keyword set,
    /// as two 32-bit halves.
    pub(in crate::constraint) members: Vec<(Symbol, Id)>,
    symbols: SymbolTable,
    pub(in crate::constraint) root: Id,
    /// String values made for property names.
    name_strings: FxHashMap<Symbol, Id>,
    /// One duplicated member name with its object, if there was any.
    pub duplicate: Option<(Id, Symbol)>,
    /// `false` and `true` outside the tree.
    pub(in crate::constraint) constants: [Option<Id>; 2],
    /// Schemas made of values of the tree.
    pub(in crate::constraint) synthetic: FxHashMap<(Symbol, Box<[Id]>), Id>,
    /// Nullable schemas: the choice between the schema and `null`, with the schema.
    pub(in crate::constraint) nullable: FxHashMap<Id, Id>,
    /// Roots of further documents, with the URI of each.
    further_roots: FxHashMap<Id, String>,
}

impl Doc {
    /// Parses any JSON text.
    pub fn parse(text: &str) -> Result<Doc> {
        Doc::with(text, true)
    }

    /// Parses a schema, without its annotation texts.
    pub fn schema(text: &str) -> Result<Doc> {
        Doc::with(text, false)
    }

    fn with(text: &str, all: bool) -> Result<Doc> {
        // A value takes some 20 bytes of text in real schemas.
        let values = text.len().min(MAX_BYTES) / 20;
        let mut doc = Doc {
            values: Vec::with_capacity(values),
            parents: Vec::with_capacity(values),
            elements: Vec::new(),
            members: Vec::with_capacity(values),
            symbols: SymbolTable::on(kw::words(), text.len().min(MAX_BYTES)),
            root: Id(0),
            name_strings: FxHashMap::default(),
            duplicate: None,
            constants: [None; 2],
            synthetic: FxHashMap::default(),
            nullable: FxHashMap::default(),
            further_roots: FxHashMap::default(),
        };
        doc.root = doc.read(text, all)?;
        Ok(doc)
    }

    /// Parses another schema into the same arena and returns its root.
    pub fn add(&mut self, uri: &str, text: &str) -> Result<Id> {
        let root = self.read(text, false).map_err(|e| e.at(Place::File(uri.into())))?;
        self.further_roots.insert(root, uri.to_string());
        Ok(root)
    }

    fn read(&mut self, text: &str, all: bool) -> Result<Id> {
        if text.len() > MAX_BYTES {
            return Err(Error::new(
                ErrorKind::TooComplex,
                format!("the schema has {} bytes; the limit is {MAX_BYTES}", text.len()),
            ));
        }
        Parser::new(text, self, all).document()
    }

    /// Replaces the root by a copy that is specific to a dynamic scope.
    pub fn set_root(&mut self, root: Id) {
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
    pub fn copy(&mut self, id: Id, children: &[(Symbol, Id)]) -> Id {
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

    pub fn root(&self) -> Id {
        self.root
    }

    pub fn value(&self, id: Id) -> Value {
        self.values[id.0 as usize]
    }

    pub fn len(&self) -> usize {
        self.values.len()
    }

    pub fn name(&self, name: Symbol) -> &str {
        self.symbols.get(name)
    }

    /// Returns the symbol of a string that occurs in the document or was interned later.
    pub fn lookup(&self, text: &str) -> Option<Symbol> {
        self.symbols.find(text)
    }

    pub fn intern(&mut self, text: &str) -> Symbol {
        self.symbols.intern(text)
    }

    /// Returns the members of an object, in order; empty for other values.
    pub fn members(&self, id: Id) -> &[(Symbol, Id)] {
        match self.value(id) {
            Value::Object { first, len } => &self.members[first as usize..(first + len) as usize],
            _ => &[],
        }
    }

    /// Returns the elements of an array, in order; empty for other values.
    pub fn elements(&self, id: Id) -> &[Id] {
        match self.value(id) {
            Value::Array { first, len } => &self.elements[first as usize..(first + len) as usize],
            _ => &[],
        }
    }

    /// Returns the keywords that an object has as members; empty for other values.
    pub fn keyword_set(&self, id: Id) -> KeywordSet {
        match self.value(id) {
            Value::Object { first, .. } => {
                let (low, high) = self.members[first as usize - 1];
                KeywordSet(u64::from(low.0) | u64::from(high.0) << 32)
            }
            _ => KeywordSet::default(),
        }
    }

    /// Begins the members of an object and returns the index of the first.
    pub(in crate::constraint) fn open_members(&mut self) -> usize {
        self.members.push((Symbol(0), Id(0)));
        self.members.len()
    }

    /// Makes an object of the members from `first` on.
    pub(in crate::constraint) fn object_of(&mut self, first: usize) -> Id {
        let members = &self.members[first..];
        let len = members.len() as u32;
        let KeywordSet(keys) =
            members.iter().fold(KeywordSet::default(), |keys, m| keys.or(KeywordSet::of(&[m.0])));
        self.members[first - 1] = (Symbol(keys as u32), Id((keys >> 32) as u32));
        self.push(Value::Object { first: first as u32, len })
    }

    /// Returns the member of that name.
    pub fn get(&self, id: Id, name: Symbol) -> Option<Id> {
        if !self.keyword_set(id).may_have(name) {
            return None;
        }
        self.members(id).iter().find(|m| m.0 == name).map(|m| m.1)
    }

    /// Returns the decoded text of a string value.
    pub fn string(&self, id: Id) -> Option<Symbol> {
        match self.value(id) {
            Value::String(name) => Some(name),
            _ => None,
        }
    }

    pub fn parent(&self, id: Id) -> Option<Id> {
        self.parents[id.0 as usize].map(|p| p.id)
    }

    /// Returns the JSON pointer (RFC 6901) of a value in its document.
    pub fn pointer(&self, id: Id) -> String {
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
    pub fn place(&self, id: Id) -> Place {
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
    pub fn string_value(&mut self, text: Symbol) -> Id {
        if let Some(&id) = self.name_strings.get(&text) {
            return id;
        }
        let id = self.push(Value::String(text));
        self.name_strings.insert(text, id);
        id
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
