//! Resources of a schema: the targets of references (JSON pointers, anchors, `$id`, other
//! documents), with their draft and vocabulary.
//!
//! References lead to resources that the document embeds, or to documents that the caller supplies.
//! Nothing is ever fetched. Values that are data (`enum`, `const`, `default`, `examples`) are not
//! scanned: an `$id` inside them names nothing. `dynamic_scope` holds what depends on the dynamic
//! scope.
//!
//! # Cost
//!
//! One scan per document finds the resources, anchors and references, linear in its size. Documents
//! that a reference names are read before anything is merged, so the set of resources is fixed from
//! then on. A reference is resolved once and remembered.

use std::borrow::Cow;

use rustc_hash::{FxHashMap, FxHashSet};

use super::dialect;
use super::documents::Documents;
use super::draft_inference::infer_draft;
use super::drafts::SchemaDraft;
use super::dynamic_scope::Scopes;
use super::keywords::{self, Keyword, NAMING, PassiveKeyword, REFERENCES};
use super::schema_positions::{Role, is_data, names_members};
use super::uri::{join, percent_decode};
use crate::constraint::json::document::{Doc, Id, Symbol, Value};
use crate::constraint::json::symbol_set::SymbolSet;
use crate::error::{Error, ErrorKind, Result};
use crate::warning::Warning;

/// Maximum number of documents that a schema refers to, directly or not.
pub(super) const MAX_DOCUMENTS: usize = 1_000;

/// A schema resource: a document or an embedded schema with an `$id`.
struct Resource {
    uri: String,
    root: Id,
    /// Schemas that `$dynamicAnchor` names in it; `$recursiveAnchor` counts as a name of its own.
    dynamic: Vec<(Symbol, Id)>,
}

/// All possible targets of references.
#[derive(Default)]
pub(crate) struct Refs {
    pub draft: SchemaDraft,
    /// True if the metaschema omits the vocabulary of assertions.
    pub unasserted: bool,
    /// The first one is the document itself.
    resources: Vec<Resource>,
    by_uri: FxHashMap<String, usize>,
    /// Documents in another draft, with the location of their `$schema`.
    foreign: FxHashMap<String, Id>,
    /// By resource and name.
    anchors: FxHashMap<(usize, String), Id>,
    /// Resource roots other than the document's.
    roots: FxHashMap<Id, usize>,
    resolved: FxHashMap<Id, Id>,
    /// References whose documents have not been looked for.
    waiting: Vec<Id>,
    /// True if some reference depends on the dynamic scope.
    is_dynamic: bool,
    scopes: Scopes,
    /// True if keywords of other dialects count.
    dialects: bool,
    /// Names that are not keywords of the draft.
    strange: SymbolSet,
    /// Nullable schemas of other dialects: the choice between the schema and `null`, with the
    /// schema.
    nullable: FxHashMap<Id, Id>,
    /// Schemas that have such names.
    pub with_strange: Vec<Id>,
    /// Names that are keywords of other dialects and were rewritten.
    pub understood: FxHashSet<Symbol>,
    /// Warnings about keywords of other dialects.
    pub warnings: Vec<Warning>,
}

impl Refs {
    /// Scans a document and everything that it refers to. If references depend on the dynamic
    /// scope, a copy for the outermost scope replaces the root of the document.
    pub(crate) fn new(doc: &mut Doc, documents: &Documents) -> Result<Refs> {
        let root = doc.root();
        let metaschema = text_of(doc, root, PassiveKeyword::Schema).map(str::to_owned);
        let named = SchemaDraft::named(metaschema.as_deref());
        let draft3 = SchemaDraft::is_before_4(metaschema.as_deref());
        let shown = if named.is_none() && !draft3 { infer_draft(doc, root) } else { None };
        let draft = shown.unwrap_or(SchemaDraft::of(metaschema.as_deref()));
        let mut refs = Refs {
            draft,
            resources: vec![Resource { uri: String::new(), root, dynamic: Vec::new() }],
            dialects: named.is_none(),
            strange: keywords::strange(draft),
            ..Refs::default()
        };
        let root = refs.rewrite(doc, root, draft3);
        refs.resources[0].root = root;
        refs.scan(doc, root, 0)?;
        refs.read_documents(doc, documents)?;
        if let Some(uri) = metaschema {
            refs.read_vocabulary(doc, &uri, documents)?;
        }
        if refs.resources.len() == 1 && !refs.is_dynamic && doc.offers_choices() {
            doc.unify();
        }
        if refs.is_dynamic {
            let own = refs.in_scope(doc, root, 0)?;
            doc.set_root(own);
        }
        Ok(refs)
    }

    /// Rewrites keywords of other dialects in a document; returns its new root.
    fn rewrite(&mut self, doc: &mut Doc, root: Id, draft3: bool) -> Id {
        let rewritten = if self.dialects { dialect::rewrite(doc, root, draft3) } else { None };
        let Some((root, rewritten)) = rewritten else { return root };
        self.understood.extend(rewritten.understood);
        self.warnings.extend(rewritten.warnings);
        self.nullable.extend(rewritten.nullable);
        root
    }

    /// Finds the resources, anchors and references of a document whose resource is `outermost`.
    fn scan(&mut self, doc: &Doc, root: Id, outermost: usize) -> Result<()> {
        // The flag: the members are named by the user (`properties`), and are not keywords.
        let mut todo = Vec::with_capacity(32);
        todo.push((root, outermost, false, Role::Schema));
        while let Some((id, outer, named, role)) = todo.pop() {
            let holds = |id: Id| matches!(doc.value(id), Value::Array { .. } | Value::Object { .. });
            let resource = if !named { self.enter(doc, id, outer)? } else { outer };
            if role == Role::Schema && doc.names(id).meet(self.strange) {
                self.with_strange.push(id);
            }
            todo.extend(doc.elements(id).iter().filter(|&&e| holds(e)).map(|&e| (e, resource, false, role)));
            for &(name, member) in doc.members(id) {
                if !named && REFERENCES.may_have(name) {
                    self.is_dynamic |= name != Keyword::Ref && self.draft.knows(name);
                    self.waiting.push(member);
                }
                if holds(member) && (named || !is_data(name)) {
                    todo.push((member, resource, !named && names_members(name), role.of_member(name)));
                }
            }
        }
        Ok(())
    }

    /// Notes the resource or anchor that starts at a value. Returns the resource of its children.
    fn enter(&mut self, doc: &Doc, id: Id, outer: usize) -> Result<usize> {
        if !doc.names(id).meet(NAMING) {
            return Ok(outer);
        }
        let own = if self.draft == SchemaDraft::D4 { PassiveKeyword::OldId } else { PassiveKeyword::Id };
        let shadowed = self.draft <= SchemaDraft::D7 && doc.get(id, Keyword::Ref).is_some();
        let mut resource = outer;
        if let Some(uri) = text_of(doc, id, own).filter(|_| !shadowed) {
            let (uri, fragment) = uri.split_once('#').unwrap_or((uri, ""));
            if !uri.is_empty() {
                let full = join(&self.resources[outer].uri, uri);
                if id == self.resources[outer].root {
                    self.resources[outer].uri.clone_from(&full);
                } else {
                    resource = self.add(full.clone(), id);
                    self.other_draft(doc, id).map_or(Ok(()), |at| Err(wrong_draft(doc, at)))?;
                }
                self.by_uri.entry(full).or_insert(resource);
            }
            if !fragment.is_empty() && self.draft <= SchemaDraft::D7 {
                self.anchors.insert((resource, fragment.to_string()), id);
            }
        }
        if self.draft >= SchemaDraft::D2019 {
            for name in [PassiveKeyword::Anchor, PassiveKeyword::DynamicAnchor] {
                if let Some(anchor) = text_of(doc, id, name) {
                    self.anchors.insert((resource, anchor.to_string()), id);
                }
            }
        }
        let at = |name: PassiveKeyword| doc.get(id, name).map(|at| doc.value(at));
        match self.draft {
            SchemaDraft::D2020 => {
                if let Some(Value::String(name)) = at(PassiveKeyword::DynamicAnchor) {
                    self.resources[resource].dynamic.push((name, id));
                }
            }
            SchemaDraft::D2019
                if self.resources[resource].root == id
                    && at(PassiveKeyword::RecursiveAnchor) == Some(Value::Bool(true)) =>
            {
                self.resources[resource].dynamic.push((PassiveKeyword::RecursiveAnchor.into(), id));
            }
            _ => {}
        }
        Ok(resource)
    }

    /// Returns the `$schema` of a schema if it names another draft than the document.
    fn other_draft(&self, doc: &Doc, id: Id) -> Option<Id> {
        let at = doc.get(id, PassiveKeyword::Schema)?;
        let uri = doc.string(at).map(|n| doc.name(n));
        (SchemaDraft::of(uri) != self.draft).then_some(at)
    }

    /// Adds a resource.
    fn add(&mut self, uri: String, root: Id) -> usize {
        self.roots.insert(root, self.resources.len());
        self.resources.push(Resource { uri, root, dynamic: Vec::new() });
        self.resources.len() - 1
    }

    /// Reads the documents that references name, and those that these name.
    fn read_documents(&mut self, doc: &mut Doc, documents: &Documents) -> Result<()> {
        let mut asked: FxHashSet<String> = FxHashSet::default();
        while let Some(reference) = self.waiting.pop() {
            let Some(name) = doc.string(reference) else { continue };
            let uri = without_fragment(doc.name(name));
            if uri.is_empty() {
                continue;
            }
            let full = join(&self.resources[self.resource_of(doc, reference)].uri, uri);
            if self.by_uri.contains_key(&full) || self.by_uri.contains_key(uri) || !asked.insert(full.clone())
            {
                continue;
            }
            let Some(text) = documents.get(&full)? else { continue };
            if asked.len() > MAX_DOCUMENTS {
                let message = format!("the schema refers to more than {MAX_DOCUMENTS} documents");
                return Err(fault(ErrorKind::TooComplex, doc, reference, message));
            }
            let root = doc.add(&full, &text)?;
            if let Some(at) = self.other_draft(doc, root) {
                // It is an error only if a reference that counts leads there.
                self.foreign.insert(full, at);
                continue;
            }
            let root = if documents.is_builtin(&full) { root } else { self.rewrite(doc, root, false) };
            let resource = self.add(full.clone(), root);
            self.by_uri.insert(full, resource);
            self.scan(doc, root, resource)?;
        }
        Ok(())
    }

    /// Applies the `$vocabulary` of a metaschema that the caller supplies.
    fn read_vocabulary(&mut self, doc: &mut Doc, uri: &str, documents: &Documents) -> Result<()> {
        let uri = without_fragment(uri);
        if self.draft < SchemaDraft::D2019 || documents.is_builtin(uri) {
            return Ok(());
        }
        let Some(text) = documents.get(uri)? else { return Ok(()) };
        let root = doc.add(uri, &text)?;
        let Some(list) = doc.get(root, PassiveKeyword::Vocabulary) else { return Ok(()) };
        let mut asserted = false;
        for &(name, needed) in doc.members(list) {
            let vocabulary = doc.name(name);
            let drafts = ["2019-09/", "2020-12/"];
            let draft = vocabulary.strip_prefix("https://json-schema.org/draft/");
            let known = draft.is_some_and(|draft| drafts.iter().any(|own| draft.starts_with(own)));
            asserted |= known && vocabulary.ends_with("/vocab/validation");
            if !known && doc.value(needed) == Value::Bool(true) {
                let name = shorten(vocabulary);
                let message = format!("the metaschema requires an unknown vocabulary: {name}");
                return Err(fault(ErrorKind::Unsupported, doc, needed, message));
            }
        }
        self.unasserted = !asserted;
        Ok(())
    }

    /// Returns the resource of a value of a document (not of a copy).
    fn resource_of(&self, doc: &Doc, id: Id) -> usize {
        let mut at = Some(id);
        while let Some(id) = at {
            if let Some(&resource) = self.roots.get(&id) {
                return resource;
            }
            at = doc.parent(id);
        }
        0
    }

    /// Returns the target schema of a reference; `reference` is the value of its keyword.
    pub(crate) fn resolve(&mut self, doc: &mut Doc, keyword: Keyword, reference: Id) -> Result<Id> {
        if let Some(&known) = self.resolved.get(&reference) {
            return Ok(known);
        }
        let Some(text) = doc.string(reference) else {
            let message = format!("`{}` must be a string", keyword.name());
            return Err(fault(ErrorKind::InvalidSchema, doc, reference, message));
        };
        let (own, scope) = self.scopes.origin(reference);
        let mut target = self.find(doc, own, doc.name(text))?;
        let anchor = if keyword == Keyword::DynamicRef {
            doc.name(text).split_once('#').and_then(|t| doc.lookup(t.1))
        } else {
            (keyword == Keyword::RecursiveRef).then(|| PassiveKeyword::RecursiveAnchor.into())
        };
        let is_anchor = |name| {
            let resource = self.resource_of(doc, target);
            self.resources[resource].dynamic.contains(&(name, target))
        };
        if let Some(name) = anchor.filter(|&name| is_anchor(name)) {
            target = self.scopes.binding(scope, name).unwrap_or(target);
        }
        if self.is_dynamic {
            target = self.in_scope(doc, target, scope)?;
        }
        self.resolved.insert(reference, target);
        Ok(target)
    }

    /// Returns the copy of a schema for the dynamic scope in which it is entered from `scope`.
    fn in_scope(&mut self, doc: &mut Doc, target: Id, scope: u32) -> Result<Id> {
        let resource = self.resource_of(doc, target);
        let Refs { resources, roots, scopes, .. } = self;
        let scope = scopes.extend(scope, &resources[resource].dynamic);
        let root = resources[resource].root;
        let enter = |id: Id| roots.get(&id).map(|&r| &resources[r].dynamic[..]);
        scopes.copy_of(doc, (target, root), scope, &enter)
    }

    fn find(&self, doc: &Doc, reference: Id, text: &str) -> Result<Id> {
        let (uri, fragment) = text.split_once('#').unwrap_or((text, ""));
        let base = self.resource_of(doc, reference);
        let resource = if uri.is_empty() {
            base
        } else {
            let full = join(&self.resources[base].uri, uri);
            let found = self.by_uri.get(&full).or_else(|| self.by_uri.get(uri));
            if let (None, Some(&at)) = (found, self.foreign.get(&full)) {
                return Err(wrong_draft(doc, at));
            }
            *found.ok_or_else(|| {
                let message = format!("`$ref` leads outside the schema: {}", shorten(text));
                fault(ErrorKind::Unsupported, doc, reference, message).hint("supply the other schema (`ConstraintBuilder::document`, `--ref URI=FILE`, `--schema-dir`), or copy it into `$defs` with its `$id`")
            })?
        };
        let missing = || {
            let message = format!("`$ref` leads nowhere: {}", shorten(text));
            fault(ErrorKind::InvalidSchema, doc, reference, message)
        };
        let fragment = percent_decode(fragment).ok_or_else(missing)?;
        let root = self.resources[resource].root;
        if fragment.is_empty() {
            return Ok(root);
        }
        if !fragment.starts_with('/') {
            return self.anchors.get(&(resource, fragment.into_owned())).copied().ok_or_else(missing);
        }
        let mut at = root;
        for step in fragment[1..].split('/') {
            let step = match step.contains('~') {
                true => Cow::Owned(step.replace("~1", "/").replace("~0", "~")),
                false => Cow::Borrowed(step),
            };
            // The members of a nullable schema are in one of two alternatives.
            let at_or_inside = self.nullable.get(&at).copied().unwrap_or(at);
            let next = match doc.value(at_or_inside) {
                Value::Object { .. } => doc.lookup(&step).and_then(|name| doc.get(at_or_inside, name)),
                Value::Array { .. } => {
                    step.parse::<usize>().ok().and_then(|i| doc.elements(at).get(i).copied())
                }
                _ => None,
            };
            at = next.ok_or_else(missing)?;
        }
        Ok(at)
    }
}

fn fault(kind: ErrorKind, doc: &Doc, at: Id, message: impl Into<String>) -> Error {
    Error::new(kind, message).at(doc.place(at))
}

fn wrong_draft(doc: &Doc, at: Id) -> Error {
    let message = "a schema that this one embeds or refers to is written in another draft";
    fault(ErrorKind::Unsupported, doc, at, message).hint("write all of them in one draft")
}

/// Returns the text of a member that is a string.
fn text_of(doc: &Doc, id: Id, name: PassiveKeyword) -> Option<&str> {
    doc.get(id, name).and_then(|i| doc.string(i)).map(|n| doc.name(n))
}

fn without_fragment(uri: &str) -> &str {
    uri.split_once('#').map_or(uri, |u| u.0)
}

/// Returns at most 80 characters of a text, for messages.
pub(super) fn shorten(text: &str) -> String {
    if text.chars().count() <= 80 { text.to_string() } else { text.chars().take(79).chain(['…']).collect() }
}
