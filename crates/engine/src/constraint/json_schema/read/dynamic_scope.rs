//! Dynamic scopes: `$dynamicRef` and `$recursiveRef`.
//!
//! Such a reference means the outermost schema resource with the anchor, among those entered on the
//! path to it. So the path matters only through the schema that each anchor name is bound to. That
//! is a *scope*, a finite map.
//!
//! A schema that is reached in a scope is *copied*, with the reference values as new values of the
//! arena. A reference is then resolved from its own copy. Everything else (merging, memos, the
//! validator) works on copies as on any schema and ignores scopes. Documents without such
//! references are not copied.
//!
//! # Cost
//!
//! A resource is copied once per scope in which it is entered. All copies together have at most
//! [`MAX_VALUES`] values.
//!
//! # Alternatives considered
//!
//! Carrying the scope in every term and memo key: every part of the front end would have to pass it
//! on.

use std::rc::Rc;

use rustc_hash::FxHashMap;

use super::schema_positions::{is_data, names_members};
use crate::constraint::json::document::{Doc, Id, MAX_VALUES, Symbol, Value};
use crate::error::{Error, ErrorKind, Result};

/// Schemas that the anchors are bound to, by name.
type Bindings = Rc<[(Symbol, Id)]>;

/// All scopes met and the copies made for them. Scope 0 is the empty one.
#[derive(Default)]
pub(super) struct Scopes {
    /// Bindings of scope `i + 1`.
    known: Vec<Bindings>,
    numbers: FxHashMap<Bindings, u32>,
    /// For a copy: the original value and the scope of the copy.
    origins: FxHashMap<Id, (Id, u32)>,
    copies: FxHashMap<(Id, u32), Id>,
}

impl Scopes {
    /// Returns the original of a copy, and its scope; for other values, themselves and the empty
    /// scope.
    pub(super) fn origin(&self, id: Id) -> (Id, u32) {
        self.origins.get(&id).copied().unwrap_or((id, 0))
    }

    /// Returns the schema that an anchor is bound to in a scope.
    pub(super) fn binding(&self, scope: u32, name: Symbol) -> Option<Id> {
        self.bindings(scope).iter().find(|b| b.0 == name).map(|b| b.1)
    }

    fn bindings(&self, scope: u32) -> &[(Symbol, Id)] {
        scope.checked_sub(1).map_or(&[], |i| &self.known[i as usize])
    }

    /// Returns the scope after a resource with these anchors is entered: what is bound stays bound.
    pub(super) fn extend(&mut self, scope: u32, anchors: &[(Symbol, Id)]) -> u32 {
        let mut all = self.bindings(scope).to_vec();
        for &(name, id) in anchors {
            if all.iter().all(|b| b.0 != name) {
                all.push((name, id));
            }
        }
        all.sort_unstable();
        if all.is_empty() {
            return 0;
        }
        let all: Bindings = all.into();
        let next = self.known.len() as u32 + 1;
        let number = *self.numbers.entry(all.clone()).or_insert(next);
        if number == next {
            self.known.push(all);
        }
        number
    }

    /// Returns the copy of `target`, which lies in the resource at `root`, for a scope that the
    /// resource has already extended. `anchors` returns the bindings of a resource that starts at a
    /// value.
    pub(super) fn copy_of<'a>(
        &mut self,
        doc: &mut Doc,
        (target, root): (Id, Id),
        scope: u32,
        anchors: &dyn Fn(Id) -> Option<&'a [(Symbol, Id)]>,
    ) -> Result<Id> {
        // Also in the empty scope: a resource embedded here may extend it. The copy of the resource
        // shares values in data, so these are copied on their own.
        for start in [root, target] {
            if let Some(&copy) = self.copies.get(&(target, scope)) {
                return Ok(copy);
            }
            self.copy(doc, (start, false), scope, anchors)?;
        }
        Ok(self.copies.get(&(target, scope)).copied().unwrap_or(target))
    }

    /// Copies a value; `named`: its members are named by the user. The parser limits the nesting,
    /// so this may recurse.
    fn copy<'a>(
        &mut self,
        doc: &mut Doc,
        (id, named): (Id, bool),
        scope: u32,
        anchors: &dyn Fn(Id) -> Option<&'a [(Symbol, Id)]>,
    ) -> Result<Id> {
        if let Some(&copy) = self.copies.get(&(id, scope)) {
            return Ok(copy);
        }
        let is_array = matches!(doc.value(id), Value::Array { .. });
        let mut children = match is_array {
            true => doc.elements(id).iter().map(|&id| (Symbol(0), id)).collect(),
            false => doc.members(id).to_vec(),
        };
        let keywords = !named && !is_array;
        for (name, child) in &mut children {
            if !(keywords && is_data(*name)) {
                let inner = anchors(*child).map_or(scope, |anchors| self.extend(scope, anchors));
                *child = self.copy(doc, (*child, keywords && names_members(*name)), inner, anchors)?;
            }
        }
        if self.origins.len() > MAX_VALUES {
            let message = format!("dynamic references need copies of more than {MAX_VALUES} JSON values");
            return Err(Error::new(ErrorKind::TooComplex, message).at(doc.place(id)));
        }
        let copy = doc.copy(id, &children);
        self.origins.insert(copy, (id, scope));
        self.copies.insert((id, scope), copy);
        Ok(copy)
    }
}
