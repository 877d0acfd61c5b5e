//! State of one run of the front end, and the small queries that all its parts use.
//!
//! Examples are the target of a reference, a text against a pattern, and whether a schema accepts
//! everything.
//!
//! # Cost
//!
//! Every answer that may be needed twice is memoised under interned keys. So a run is linear in the
//! number of distinct conjunctions.
//!
//! # Alternatives considered
//!
//! Free functions with a dozen parameters.

use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::{SmallVec, smallvec};

use super::documents::Documents;
use super::format_automata;
use super::keyword_set::KeywordSet;
use super::keywords::{self as kw, SchemaDraft};
use super::normalize::Fork;
use super::refs::{Refs, shorten};
use super::shape::{Term, Terms, Test, Types};
use super::unevaluated;
use super::verbatim::Quoted;
use super::wrapper;
use crate::char_lang::byte_nfa::ByteNfa;
use crate::char_lang::char_dfa::CharDfa;
use crate::constraint::ir::{Ir, NodeId};
use crate::constraint::json::document::{Doc, Id, Symbol, Value};
use crate::constraint::{Policy, ecma, format};
use crate::decimal::Decimal;
use crate::error::{Error, ErrorKind, Result};
use crate::warning::{Warning, WarningKind};

/// Maximum number of alternatives of one value after distributing `anyOf`, `oneOf`, `if` and the
/// like.
pub(super) const MAX_DISJUNCTS: usize = 4_096;
/// Maximum number of nodes of the representation.
pub(super) const MAX_NODES: usize = 2_000_000;
/// Maximum number of distinct conjunctions of schemas.
pub(super) const MAX_CONJUNCTIONS: usize = 200_000;
/// Maximum number of steps for checking literals against schemas and for merging shapes.
pub(super) const MAX_STEPS: u64 = 20_000_000;

/// A schema, and the reason why nothing satisfies it. Most reasons are fixed texts, and most are
/// never shown.
pub(super) type UnsatCause = (Id, Cow<'static, str>);

/// State of the check that a schema does not apply to the same value as itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Grounded {
    Unknown,
    /// Being checked.
    OnPath,
    Yes,
}

/// State of one run.
pub(super) struct SchemaContext<'p> {
    pub doc: Doc,
    pub refs: Refs,
    pub draft: SchemaDraft,
    pub policy: &'p Policy,
    pub ir: Ir,
    /// Nodes of languages that only automata of this front end read.
    scratch: Ir,
    /// Keywords that may assert something.
    may_assert: KeywordSet,
    /// Keywords that the draft does not have, and all names that are not keywords.
    pub unknown_keywords: KeywordSet,
    /// Automata by test; `None` for unknown formats.
    automata: FxHashMap<Test, Option<Arc<CharDfa>>>,
    /// Nodes of formats by name; `None` for unknown ones.
    formats: FxHashMap<Symbol, Option<NodeId>>,
    pub empty: FxHashMap<Terms, (bool, u32)>,
    /// Forks that wait for their turn; those of the innermost query come last.
    pub forks: Vec<Fork>,
    /// Alternatives that violate each schema that was negated.
    pub violations: FxHashMap<Id, Rc<Vec<Terms>>>,
    /// Choice that the `if` of each schema gives.
    pub conditionals: FxHashMap<Id, Rc<Vec<Terms>>>,
    /// Depth of nested emptiness queries.
    pub empty_depth: u32,
    /// State of the check for each schema, by id.
    checked: Vec<Grounded>,
    pub steps: u64,
    pub warned: FxHashSet<(WarningKind, Symbol)>,
    /// A buffer for the keywords of a schema.
    pub keywords: Vec<(Symbol, Id)>,
    /// Unknown keywords that were checked for misspellings.
    pub unknown: FxHashSet<Symbol>,
    /// Reason why the last alternative was dropped.
    pub culprit: Option<UnsatCause>,
    pub numbers: FxHashMap<Id, Rc<Decimal>>,
    /// Alternatives that `unevaluated…` needs, by schema; and the sets in use.
    pub alternatives: unevaluated::AlternativesMemo,
    pub evaluated: Vec<Rc<unevaluated::Evaluated>>,
    /// Source text of `x-verbatim`.
    pub quoted: Option<Quoted<'p>>,
}

impl<'p> SchemaContext<'p> {
    pub fn new(text: &str, policy: &'p Policy, documents: &Documents) -> Result<Self> {
        let mut doc = Doc::schema(text)?;
        let unwrapped = wrapper::unwrap(&mut doc);
        let refs = Refs::new(&mut doc, documents)?;
        let draft = refs.draft;
        let counts = |name: &Symbol| {
            kw::asserts(*name) && draft.knows(*name) && !(refs.unasserted && kw::validates(*name))
        };
        let keywords = || (0..kw::COUNT).map(Symbol);
        let may_assert =
            keywords().filter(counts).fold(KeywordSet::default(), |keys, n| keys.or(KeywordSet::of(&[n])));
        let mut front = SchemaContext {
            doc,
            refs,
            draft,
            may_assert,
            unknown_keywords: draft.strange(),
            policy,
            ir: Ir::new(),
            scratch: Ir::new(),
            automata: FxHashMap::default(),
            formats: FxHashMap::default(),
            empty: FxHashMap::default(),
            forks: Vec::new(),
            violations: FxHashMap::default(),
            conditionals: FxHashMap::default(),
            empty_depth: 0,
            checked: Vec::new(),
            steps: 0,
            warned: FxHashSet::default(),
            keywords: Vec::new(),
            unknown: FxHashSet::default(),
            culprit: None,
            numbers: FxHashMap::default(),
            alternatives: FxHashMap::default(),
            evaluated: Vec::new(),
            quoted: None,
        };
        if let Some((id, name)) = front.doc.duplicate {
            let (name, at) = (front.doc.name(name), front.doc.pointer(id));
            let message = format!("the name {name:?} occurs twice; the last one counts");
            front.ir.warnings.push(Warning::new(WarningKind::DuplicateName, message).at(at));
        }
        let open = front.is_true(front.doc.root());
        front.ir.warnings.extend(unwrapped.filter(|w| w.kind() != WarningKind::Unconstrained || open));
        front.report_unknown();
        Ok(front)
    }

    /// Makes an error with the location of a value.
    pub fn error(&self, kind: ErrorKind, id: Id, message: impl Into<String>) -> Error {
        Error::new(kind, message).at(self.doc.place(id))
    }

    /// Makes an error for a keyword with an invalid value.
    pub fn invalid(&self, id: Id, message: impl Into<String>) -> Error {
        self.error(ErrorKind::InvalidSchema, id, message)
    }

    /// Returns true if integers may have zeros after a point; in draft 4 a point makes another
    /// type.
    pub fn equal_integers(&self) -> bool {
        self.policy.equal_numbers && self.draft > SchemaDraft::D4
    }

    /// Counts work.
    ///
    /// # Errors
    /// `TooComplex` if there was too much.
    pub fn step(&mut self, steps: u64, at: Id) -> Result<()> {
        self.steps += steps;
        if self.steps > MAX_STEPS {
            return Err(self.error(
                ErrorKind::TooComplex,
                at,
                format!("merging schemas takes more than {MAX_STEPS} steps"),
            ));
        }
        Ok(())
    }

    /// Adds a warning, once per kind and name.
    pub fn warn(&mut self, kind: WarningKind, name: Symbol, at: Id, message: &str) {
        if self.warned.insert((kind, name)) {
            let warning = Warning::new(kind, message).at(self.doc.pointer(at));
            self.ir.warnings.push(warning);
        }
    }

    /// Returns true if no keyword of a schema can assert anything, so that it accepts everything.
    pub fn is_true(&self, id: Id) -> bool {
        match self.doc.value(id) {
            Value::Bool(holds) => holds,
            // A `$ref` without siblings asserts something, too.
            Value::Object { .. } => !self.doc.keyword_set(id).meet(self.may_assert),
            _ => false,
        }
    }

    /// Returns the keywords of a schema object that may assert something.
    pub fn asserting(&self, id: Id) -> impl Iterator<Item = (Symbol, Id)> + '_ {
        let asserting = self.assertions(id);
        let members = if asserting.is_empty() { &[] } else { self.doc.members(id) };
        members.iter().copied().filter(move |&(name, _)| asserting.may_have(name))
    }

    /// Returns the set of keywords of a schema object that may assert something.
    pub fn assertions(&self, id: Id) -> KeywordSet {
        let keys = self.doc.keyword_set(id).and(self.may_assert);
        if self.only_ref(id) { keys.and(KeywordSet::of(&[kw::REF])) } else { keys }
    }

    /// Returns true if only the `$ref` of a schema object counts, whatever its siblings are.
    fn only_ref(&self, id: Id) -> bool {
        self.draft <= SchemaDraft::D7 && self.doc.keyword_set(id).may_have(kw::REF)
    }

    /// Returns the target schema of a reference; `name` is its keyword, `at` its value.
    pub fn target(&mut self, name: Symbol, at: Id) -> Result<Id> {
        self.refs.resolve(&mut self.doc, name, at)
    }

    /// Follows schemas that consist of a reference only.
    pub fn follow(&mut self, mut id: Id) -> Result<Id> {
        for _ in 0..1_000 {
            // Most schemas have none.
            if !self.doc.keyword_set(id).meet(KeywordSet::REFERENCES) {
                return Ok(id);
            }
            let mut keywords = self.asserting(id);
            let (Some((name, reference)), None) = (keywords.next(), keywords.next()) else {
                return Ok(id);
            };
            drop(keywords);
            if !kw::is_reference(name) {
                return Ok(id);
            }
            self.warn_siblings(id);
            id = self.target(name, reference)?;
        }
        Err(self.invalid(id, "a chain of references is longer than 1000 or leads back to itself"))
    }

    /// Warns about keywords next to `$ref`, which do not count in older drafts.
    pub fn warn_siblings(&mut self, id: Id) {
        if self.draft > SchemaDraft::D7 {
            return;
        }
        let ignored = self.doc.members(id).iter().find(|m| m.0 != kw::REF && kw::asserts(m.0)).copied();
        if let Some((name, at)) = ignored {
            let word = self.doc.name(name).to_string();
            self.warn(
                WarningKind::IgnoredKeyword,
                name,
                at,
                &format!("`{word}` beside `$ref` is ignored in this draft of JSON Schema"),
            );
        }
    }

    /// Removes terms that assert nothing, follows references, and detects what nothing satisfies.
    pub fn tidy(&mut self, terms: &[Term]) -> Result<Terms> {
        let mut tidy = Terms::new();
        for term in terms {
            let term = match *term {
                Term::Pos(id) => Term::Pos(self.follow(id)?),
                Term::Neg(id) => Term::Neg(self.follow(id)?),
                other => other,
            };
            let nothing = match term {
                Term::Pos(id) if self.is_true(id) => continue,
                Term::Pos(id) => self.doc.value(id) == Value::Bool(false),
                Term::Neg(id) if self.doc.value(id) == Value::Bool(false) => continue,
                Term::Neg(id) => self.is_true(id),
                Term::Types(types) => types.is_empty(),
                _ => false,
            };
            if nothing {
                return Ok(smallvec![super::shape::FALSE]);
            }
            if !tidy.contains(&term) {
                tidy.push(term);
            }
        }
        Ok(tidy)
    }

    /// Checks that no schema applies to the same value as itself; visits each schema once.
    pub fn check_grounded(&mut self, root: Id) -> Result<()> {
        if *self.grounded(root) != Grounded::Unknown {
            return Ok(());
        }
        let neighbours = self.in_place(root)?;
        if neighbours.is_empty() {
            *self.grounded(root) = Grounded::Yes;
            return Ok(());
        }
        // Each entry: the schema and its next neighbours.
        let mut path = vec![(root, neighbours)];
        *self.grounded(root) = Grounded::OnPath;
        while let Some((id, rest)) = path.last_mut() {
            let Some(next) = rest.pop() else {
                *self.grounded(*id) = Grounded::Yes;
                path.pop();
                continue;
            };
            match self.grounded(next) {
                Grounded::Yes => {}
                Grounded::OnPath => {
                    let fault = self
                        .invalid(next, "the schema applies to the same value as itself, without end")
                        .hint("let the recursion pass through `properties` or `items`");
                    return Err(self.not_grounded(path, fault));
                }
                Grounded::Unknown => {
                    let neighbours = match self.in_place(next) {
                        Ok(neighbours) => neighbours,
                        Err(fault) => return Err(self.not_grounded(path, fault)),
                    };
                    *self.grounded(next) = Grounded::OnPath;
                    path.push((next, neighbours));
                }
            }
        }
        Ok(())
    }

    /// Forgets that the schemas on the path were checked. Emptiness queries ignore a fault, so it
    /// must be found again.
    fn not_grounded(&mut self, path: Vec<(Id, SmallVec<[Id; 4]>)>, fault: Error) -> Error {
        for (id, _) in path {
            *self.grounded(id) = Grounded::Unknown;
        }
        fault
    }

    /// Returns the state of the check for a schema. There may be more schemas than at the last
    /// call.
    fn grounded(&mut self, id: Id) -> &mut Grounded {
        let at = id.0 as usize;
        if at >= self.checked.len() {
            self.checked.resize(self.doc.len().max(at + 1), Grounded::Unknown);
        }
        &mut self.checked[at]
    }

    /// Returns the schemas that apply to the same value.
    fn in_place(&mut self, id: Id) -> Result<SmallVec<[Id; 4]>> {
        let mut found = SmallVec::new();
        let asserting = self.assertions(id);
        if !asserting.meet(KeywordSet::IN_PLACE) {
            return Ok(found);
        }
        for i in 0..self.doc.members(id).len() {
            let (name, at) = self.doc.members(id)[i];
            if !asserting.may_have(name) {
                continue;
            }
            match name {
                _ if kw::is_reference(name) && self.doc.string(at).is_some() => {
                    found.push(self.target(name, at)?);
                }
                kw::ALL_OF | kw::ANY_OF | kw::ONE_OF => found.extend_from_slice(self.doc.elements(at)),
                kw::NOT | kw::IF | kw::THEN | kw::ELSE => found.push(at),
                kw::DEPENDENCIES | kw::DEPENDENT_SCHEMAS => {
                    found.extend(self.doc.members(at).iter().map(|m| m.1));
                }
                _ => {}
            }
        }
        Ok(found)
    }

    /// Returns the language of a format, as a node that only automata read.
    fn format_node(&mut self, name: Symbol) -> Option<NodeId> {
        let (doc, scratch) = (&self.doc, &mut self.scratch);
        *self.formats.entry(name).or_insert_with(|| format::language(doc.name(name), scratch))
    }

    /// Returns true if a format is more than an annotation.
    pub fn knows_format(&mut self, name: Symbol) -> bool {
        self.format_node(name).is_some()
    }

    /// Returns the automaton of a test on text; `None` for an unknown format.
    pub fn automaton(&mut self, test: Test, at: Id) -> Result<Option<Arc<CharDfa>>> {
        if let Some(known) = self.automata.get(&test) {
            return Ok(known.clone());
        }
        let dfa = match test {
            Test::Equals(name) => Some(CharDfa::words([self.doc.name(name)])),
            Test::Pattern(name) => {
                let node = ecma::parse(self.doc.name(name), &mut self.scratch)
                    .map_err(|e| e.at(self.doc.place(at)))?;
                Some(ByteNfa::new(&self.scratch, node).and_then(|nfa| CharDfa::from_nfa(&nfa)))
            }
            Test::Verbatim => {
                let node = self.source(at)?.graph().node(&mut self.scratch);
                Some(node.and_then(|node| CharDfa::from_nfa(&ByteNfa::new(&self.scratch, node)?)))
            }
            Test::Format(name) => {
                let dfa =
                    format_automata::automaton(self.doc.name(name)).map_err(|e| e.at(self.doc.place(at)))?;
                self.automata.insert(test, dfa.clone());
                return Ok(dfa);
            }
        };
        let dfa = dfa.transpose().map_err(|e| e.at(self.doc.place(at)))?.map(Arc::new);
        self.automata.insert(test, dfa.clone());
        Ok(dfa)
    }

    /// Returns the automaton of all texts that may be of a format, also those that are not
    /// generated; `None` for an unknown format.
    pub fn widest_format(&mut self, name: Symbol, at: Id) -> Result<Option<Arc<CharDfa>>> {
        let Some(node) = format::superset(self.doc.name(name), &mut self.scratch) else {
            return self.automaton(Test::Format(name), at);
        };
        let dfa = ByteNfa::new(&self.scratch, node).and_then(|nfa| CharDfa::from_nfa(&nfa));
        dfa.map(|dfa| Some(Arc::new(dfa))).map_err(|e| e.at(self.doc.place(at)))
    }

    /// Returns true if a text is of a format, as far as that is known.
    ///
    /// # Errors
    /// `Unsupported` for texts that may be of the format and are not generated.
    pub fn is_of_format(&mut self, name: Symbol, text: Symbol, at: Id) -> Result<bool> {
        if self.passes(Test::Format(name), text, at)? {
            return Ok(true);
        }
        match self.widest_format(name, at)? {
            Some(widest) if widest.matches(self.doc.name(text)) => {
                let format = self.doc.name(name);
                let message = format!("whether {:?} is a `{format}` is not known", self.doc.name(text));
                Err(self
                    .error(ErrorKind::Unsupported, at, message)
                    .hint("the constraints page says what formats leave out"))
            }
            _ => Ok(false),
        }
    }

    /// Returns true if a text passes a test; unknown formats accept everything.
    pub fn passes(&mut self, test: Test, text: Symbol, at: Id) -> Result<bool> {
        match test {
            Test::Equals(name) => return Ok(name == text),
            Test::Verbatim => return self.quotes(text, at),
            _ => {}
        }
        Ok(self.automaton(test, at)?.is_none_or(|dfa| dfa.matches(self.doc.name(text))))
    }

    /// Returns the exact value of a number literal.
    pub fn number(&mut self, id: Id) -> Option<Rc<Decimal>> {
        let Value::Number(text) = self.doc.value(id) else { return None };
        let doc = &self.doc;
        Some(self.numbers.entry(id).or_insert_with(|| Rc::new(Decimal::new(doc.name(text)))).clone())
    }

    /// Reads a keyword value that must be a count.
    pub fn count(&mut self, id: Id) -> Result<u32> {
        if let Value::Number(text) = self.doc.value(id)
            && let text = self.doc.name(text)
            && text.len() <= 9
            && let Ok(count) = text.parse()
        {
            return Ok(count);
        }
        let count = self.number(id).and_then(|n| n.count());
        count.ok_or_else(|| {
            self.invalid(id, format!("expected a non-negative integer, found {}", self.show(id)))
        })
    }

    /// Returns the type of a literal.
    pub fn type_of(&mut self, id: Id) -> Types {
        match self.doc.value(id) {
            Value::Null => Types::NULL,
            Value::Bool(true) => Types::TRUE,
            Value::Bool(false) => Types::FALSE,
            Value::Number(text) => {
                let plain = !self.doc.name(text).contains(['.', 'e', 'E']);
                let whole = self.number(id).is_some_and(|n| n.is_integer());
                // Draft 4 recognises integers by their text.
                if whole && (plain || self.draft > SchemaDraft::D4) { Types::INT } else { Types::FRACTION }
            }
            Value::String(_) => Types::STRING,
            Value::Array { .. } => Types::ARRAY,
            Value::Object { .. } => Types::OBJECT,
        }
    }

    /// Writes a value for a message, shortened.
    pub fn show(&self, id: Id) -> String {
        match self.doc.value(id) {
            Value::Array { .. } => "an array".into(),
            Value::Object { .. } => "an object".into(),
            _ => {
                let mut text = Vec::new();
                self.doc.write(id, &mut text);
                shorten(&String::from_utf8_lossy(&text))
            }
        }
    }

    /// Returns the node of a pattern that was parsed from the text `name`.
    pub fn read_pattern(&mut self, pattern: &ecma::Pattern, name: Symbol, at: Id) -> Result<NodeId> {
        let node = pattern.node(self.doc.name(name), &mut self.ir);
        node.map_err(|e| e.at(self.doc.place(at)))
    }

    /// Parses a pattern and returns its node.
    pub fn pattern_node(&mut self, pattern: Symbol, at: Id) -> Result<NodeId> {
        ecma::parse(self.doc.name(pattern), &mut self.ir).map_err(|e| e.at(self.doc.place(at)))
    }
}
