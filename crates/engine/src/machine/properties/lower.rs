//! Lowering of objects and of arrays of unique scalars to states, guards and registers.
//!
//! Declared properties in a fixed order are a chain of forks, one for each optional property, and
//! need no memory. Undeclared names must be new, so the object remembers them. A bound on the
//! number of properties, and properties in any order, also need guards (see
//! [`PropertyTable`]). Guards are *before* the comma:
//! after a comma a property can always follow. An object in a markup is the same with other texts
//! around names and values.
//!
//! # Cost
//!
//! The automaton of an object is linear in the number of its properties, times the number of sets
//! of demands that can be met.

use std::sync::Arc;

use crate::constraint::Whitespace;
use crate::constraint::ir::{Extra, MAX_DEMANDS, Node, NodeId, Object, Property};
use crate::error::{Error, ErrorKind, Result};

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::machine::builder::ProgramBuilder;
use crate::machine::lazy_dfa::DfaId;
use crate::machine::lower_regular::{Calls, Value, too_complex};
use crate::machine::nfa::{ACCEPT, Call, DEAD, GuardKind, NfaId, RegisterIx, RuleIx, State};
use crate::machine::program::{FRESH, MEMBERS, STRING};
use crate::machine::properties::memory::is_counted;
use crate::machine::properties::name_trie::{NameTrie, Names};
use crate::machine::properties::table::{
    DeclaredProperty, PropertyTable, SyntaxCost, Undeclared, UndeclaredGroup,
};
use crate::machine::register::{Register, UniqueName};
use crate::machine::scalars;

/// Number of names from which on a required undeclared property counts as unbounded. With fewer,
/// other properties could use up its names.
const UNBOUNDED_NAMES: u32 = 10_000;
/// Number of possible items up to which an array of unique scalars counts its items.
const MAX_COUNTED_ITEMS: u32 = 1_000;

/// A state whose texts are being counted.
struct Texts {
    state: DfaId,
    /// Numbers of bytes, each with a target state that is still to be counted.
    ways: Vec<(u32, DfaId)>,
    count: u32,
}

/// An object under construction.
struct Draft<'o> {
    object: &'o Object,
    /// Escaped names that undeclared ones must not have.
    names: Arc<Names>,
    /// True if guards check the next property.
    guarded: bool,
    any_order: bool,
    /// True if the object has a register of its own.
    remembers: bool,
    /// The end of an object without properties, and of one with some.
    close: (NfaId, NfaId),
    /// The set of all demands.
    all: u32,
    slots: Vec<DeclaredProperty>,
    lists: Vec<UndeclaredGroup>,
}

impl ProgramBuilder<'_> {
    /// Returns the start of an object's rule and fills in its register.
    pub(crate) fn object(&mut self, object: &Object, own: (RuleIx, RegisterIx)) -> Result<NfaId> {
        let all = object.demand.iter().fold(0, |all, d| all | d.meets);
        if all >= 1 << MAX_DEMANDS {
            return Err(too_complex("conditions on undeclared properties", MAX_DEMANDS as usize));
        }
        let (counted, any_order) = (is_counted(object), self.rules.any_order || object.any_order);
        let remembers = own.1 != 0 && own.1 != MEMBERS;
        let names = object.properties.iter().map(|p| &*p.name);
        let (close, names) = match &object.markup {
            None => {
                let close = self.byte(b'}', ACCEPT);
                ((close, close), Names::escaped(names))
            }
            Some(markup) => ((ACCEPT, self.line(markup.last, ACCEPT)), Names::plain(names, &markup.named)),
        };
        let mut draft = Draft {
            object,
            names: Arc::new(names),
            guarded: remembers && (counted || any_order),
            any_order: remembers && any_order,
            remembers,
            close,
            all,
            slots: Vec::new(),
            lists: Vec::new(),
        };
        let inside = self.members(&mut draft)?;
        if remembers {
            let mut members = PropertyTable {
                rule: Some(own.0),
                set: false,
                ordered: !draft.any_order,
                properties: draft.slots,
                lists: draft.lists,
                covers: vec![(0, 0); all as usize + 1],
                min: object.min,
                max: object.max.unwrap_or(u32::MAX),
                counted,
                around: match &object.markup {
                    None => SyntaxCost::json(self.policy.whitespace.min_separator_bytes()),
                    Some(markup) => {
                        let flexible = matches!(self.policy.whitespace, Whitespace::Flexible { .. });
                        SyntaxCost::markup(markup, flexible)
                    }
                },
            };
            members.find_covers();
            self.rules.registers[own.1 as usize] = Register::Members(Arc::new(members));
        }
        if let Some(markup) = &object.markup {
            return Ok(self.line(markup.first, inside));
        }
        let inside = self.space(inside);
        Ok(self.byte(b'{', inside))
    }

    /// Returns the start of an object with any properties, whose values are `any`.
    pub(crate) fn any_object(&mut self, any: Value) -> NfaId {
        let close = self.byte(b'}', ACCEPT);
        let after = self.nfa.push(State::Dead, 0);
        let member = self.undeclared_member(None, Some((STRING, FRESH)), any, after);
        let comma = self.separated(None, member);
        self.entries(b'{', (member, comma, close), after)
    }

    /// Returns the start of an array of unique scalars. Its register treats them as names without
    /// values.
    pub(crate) fn set(
        &mut self,
        item: NodeId,
        (min, max): (u32, Option<u32>),
        (rule, register): (RuleIx, RegisterIx),
    ) -> Result<NfaId> {
        let key = match self.rules.ir.node(item) {
            Node::JsonString { lang: None, min_chars: 0, max_chars: None } => (STRING, FRESH),
            _ => {
                let own = self.rules.new_rule()?;
                let start = scalars::scalar(self.nfa, self.alphabet, self.rules.ir, item)?;
                self.rules.starts[own.0 as usize] = start;
                let fresh = UniqueName { names: NameTrie::default(), open: false };
                (own, self.rules.new_register(Register::Fresh(Arc::new(fresh))))
            }
        };
        let possible = self.rules.starts[key.0.0 as usize] != DEAD;
        let names = if possible { self.different(key, min.max(MAX_COUNTED_ITEMS)) } else { 0 };
        // Masks try items without remembering them, so that no more of them come must follow from
        // their number.
        let max = max.into_iter().chain((names < u32::MAX).then_some(names)).min();
        let entries = possible.then_some(Undeclared { key, value: key, names }).into_iter().collect();
        let members = PropertyTable {
            rule: Some(rule),
            set: true,
            ordered: true,
            properties: Vec::new(),
            lists: vec![UndeclaredGroup { from: 0, to: 0, entries }],
            covers: vec![(0, 0)],
            min,
            max: max.unwrap_or(u32::MAX),
            counted: min > 0 || max.is_some(),
            around: SyntaxCost::items(self.policy.whitespace.min_separator_bytes()),
        };
        self.rules.registers[register as usize] = Register::Members(Arc::new(members));
        let after = self.nfa.push(State::Dead, 0);
        let close = self.byte(b']', ACCEPT);
        let close = self.guarded(GuardKind::ObjectEnd, close);
        let next = match possible {
            true => self.nfa.push(State::Call(Call::Fresh(key.0, key.1, after)), 0),
            false => DEAD,
        };
        let comma = self.separated(None, next);
        let (first, again) = (
            self.guarded(GuardKind::UndeclaredProperty(0), next),
            self.guarded(GuardKind::UndeclaredProperty(0), comma),
        );
        Ok(self.entries(b'[', (first, again, close), after))
    }

    /// Returns the entry of what may follow the opening brace.
    fn members(&mut self, draft: &mut Draft) -> Result<NfaId> {
        if draft.object.extra.is_empty() && draft.object.demand.is_empty() && !draft.any_order {
            let close = self.closed(draft);
            return self.chain(draft, close.0, close.1);
        }
        // The state after a property, by the demands that are met: set when the loops are made.
        let after: SmallVec<[NfaId; 4]> = (0..=draft.all).map(|_| self.nfa.push(State::Dead, 0)).collect();
        let mut first = DEAD;
        let mut again = DEAD;
        // Sets of demands that cannot occur together take a few states that nothing leads to.
        let all = draft.all;
        for met in (0..=all).rev().filter(|met| met & !all == 0) {
            let close = if met == all { self.closed(draft) } else { (DEAD, DEAD) };
            let (mut firsts, mut others) = (SmallVec::<[NfaId; 4]>::new(), SmallVec::<[NfaId; 4]>::new());
            for then in (met..=all).filter(|then| then & met == met && then & !all == 0) {
                let extras = self.extras(draft, (met, then), after[then as usize])?;
                let list = draft.lists.last().filter(|l| (l.from, l.to) == (met, then) && draft.remembers);
                let room = list.map(|_| GuardKind::UndeclaredProperty(draft.lists.len() as u32 - 1));
                let comma = self.separated(Some(draft.object), extras);
                let guard = |build: &mut Self, to| room.map_or(to, |room| build.guarded(room, to));
                firsts.push(guard(self, extras));
                others.push(guard(self, comma));
            }
            if draft.any_order {
                for (i, member) in self.declared(draft, after[met as usize])?.into_iter().enumerate() {
                    let comma = self.separated(Some(draft.object), member);
                    firsts.push(self.guarded(GuardKind::DeclaredProperty(i as u32, met), member));
                    others.push(self.guarded(GuardKind::DeclaredProperty(i as u32, met), comma));
                }
            }
            firsts.push(close.0);
            others.push(close.1);
            (first, again) = (self.union(&firsts), self.union(&others));
            let more = self.behind_value(draft.object, again);
            self.nfa.set(after[met as usize], State::Union(&[more]));
        }
        match draft.any_order {
            true => Ok(first),
            false => self.chain(draft, first, again),
        }
    }

    /// Returns the entry of the declared properties in their order, before all others. `first` is
    /// the continuation if none of them is present, `again` if some is.
    fn chain(&mut self, draft: &mut Draft, mut first: NfaId, mut again: NfaId) -> Result<NfaId> {
        // Only an object with a register uses these.
        let mut slots = Vec::with_capacity(if draft.remembers { draft.object.properties.len() } else { 0 });
        for (i, property) in draft.object.properties.iter().enumerate().rev() {
            let after = self.behind_value(draft.object, again);
            let (member, slot) = self.declared_member(draft.object, property, draft.names.get(i), after)?;
            if draft.remembers {
                slots.push(slot);
            }
            let comma = self.separated(Some(draft.object), member);
            let take = GuardKind::DeclaredProperty(i as u32, 0);
            let (member, comma) = (self.guard(draft, take, member), self.guard(draft, take, comma));
            (first, again) = match property.required {
                true => (member, comma),
                false => (self.union(&[member, first]), self.union(&[comma, again])),
            };
        }
        slots.reverse();
        draft.slots = slots;
        Ok(first)
    }

    /// Returns the entries of all declared properties, each followed by `after`.
    fn declared(&mut self, draft: &mut Draft, after: NfaId) -> Result<Vec<NfaId>> {
        draft.slots.clear();
        let mut members = Vec::with_capacity(draft.object.properties.len());
        for (i, property) in draft.object.properties.iter().enumerate() {
            let (member, slot) = self.declared_member(draft.object, property, draft.names.get(i), after)?;
            members.push(member);
            draft.slots.push(slot);
        }
        Ok(members)
    }

    /// Returns the entry of `"name":value` followed by `to`; the name is given with its escapes.
    fn declared_member(
        &mut self,
        object: &Object,
        property: &Property,
        name: &[u8],
        to: NfaId,
    ) -> Result<(NfaId, DeclaredProperty)> {
        let of = self.rules.value(property.value)?;
        let value = self.call(of, to);
        let member = match &object.markup {
            None => {
                let value = self.gap(value);
                let colon = self.byte(b':', value);
                let colon = self.space(colon);
                let close = self.byte(b'"', colon);
                let text = self.lowering().bytes(name, close);
                self.byte(b'"', text)
            }
            Some(markup) => {
                let text = self.lowering().bytes(name, value);
                self.lowering().bytes(markup.open.as_bytes(), text)
            }
        };
        let value = if member == DEAD { None } else { of };
        Ok((member, DeclaredProperty { required: property.required, value, name: name.len() as u32 }))
    }

    /// Returns the entry of the undeclared properties that lead from one set of met demands to
    /// another, followed by `after`.
    fn extras(&mut self, draft: &mut Draft, (from, to): (u32, u32), after: NfaId) -> Result<NfaId> {
        let object = draft.object;
        let same = object.extra.iter().filter(|_| from == to).map(|extra| (extra, true));
        let new = object.demand.iter().filter(|d| d.meets & !from != 0 && from | d.meets == to);
        let mut starts: SmallVec<[NfaId; 4]> = SmallVec::new();
        let mut entries = Vec::new();
        for (entry, by_name) in same.chain(new.map(|d| (&d.entry, d.by_name))) {
            let value = self.rules.value(entry.value)?;
            let key = self.key(draft, entry)?;
            let start = self.undeclared_member(Some(object), key, value, after);
            starts.push(start);
            let (Some(key), Some(value)) = (key, value) else { continue };
            if start == DEAD {
                continue;
            }
            // Others could use up the names. If the name alone meets the demand, a second path
            // reads the property as one of the others. It runs in parallel and allows no more.
            if !by_name && self.different(key, UNBOUNDED_NAMES) != u32::MAX {
                let message = "an undeclared property that must be there has a bounded number of names";
                return Err(Error::new(ErrorKind::Unsupported, message)
                    .hint("declare these names as properties, or state what is allowed instead"));
            }
            if !draft.remembers && draft.all == 0 {
                continue;
            }
            let names = self.different(key, object.min);
            if from == to && draft.all != 0 && object.min > 0 && names != u32::MAX {
                let message =
                    "`minProperties` beside properties that must be there and a bounded number of others";
                return Err(Error::new(ErrorKind::Unsupported, message).hint("state what is allowed instead"));
            }
            entries.push(Undeclared { key, value, names });
        }
        if !entries.is_empty() {
            draft.lists.push(UndeclaredGroup { from, to, entries });
        }
        Ok(self.union(&starts))
    }

    /// Returns the rule of an undeclared name.
    fn key(&mut self, draft: &Draft, entry: &Extra) -> Result<Value> {
        let names = || NameTrie::new(draft.names.clone());
        match entry.keys {
            None if draft.object.properties.is_empty() => Ok(Some((STRING, FRESH))),
            None => {
                let fresh = UniqueName { names: names(), open: true };
                Ok(Some((STRING, self.rules.new_register(Register::Fresh(Arc::new(fresh))))))
            }
            Some(lang) => {
                // A name that may end after each of its bytes would be an exit there for all longer
                // tokens.
                let named = draft.object.markup.as_ref().map(|markup| &*markup.named);
                let mut start = match named {
                    Some(named) => scalars::text_of(self.nfa, self.alphabet, self.rules.ir, lang, named)?,
                    None => scalars::string_of(self.nfa, self.alphabet, self.rules.ir, lang)?,
                };
                if !draft.object.properties.is_empty() && start != DEAD {
                    start = scalars::without_names(self.nfa, self.dfa, start, &names(), named.is_some())?;
                }
                if start == DEAD {
                    return Ok(None);
                }
                let rule = self.rules.new_rule()?;
                self.rules.starts[rule.0 as usize] = start;
                let fresh = UniqueName { names: NameTrie::default(), open: false };
                Ok(Some((rule, self.rules.new_register(Register::Fresh(Arc::new(fresh))))))
            }
        }
    }

    /// Returns the number of texts of a rule, or [`u32::MAX`] from `limit` on.
    fn different(&mut self, (rule, register): (RuleIx, RegisterIx), limit: u32) -> u32 {
        if matches!(&self.rules.registers[register as usize], Register::Fresh(fresh) if fresh.open) {
            return u32::MAX;
        }
        let start = self.dfa.start(self.nfa, self.rules.starts[rule.0 as usize]);
        // Every state leads to a text. A state that leads to itself leads to any number of texts,
        // and no other leads to more than the sum over its targets.
        let mut counts: FxHashMap<DfaId, Option<u32>> = FxHashMap::default();
        let mut path = vec![self.texts_from(start)];
        counts.insert(start, None);
        while let Some(Texts { state, ways, count }) = path.last_mut() {
            if *count >= limit {
                return u32::MAX;
            }
            let Some(&(width, to)) = ways.last() else {
                counts.insert(*state, Some(*count));
                path.pop();
                continue;
            };
            match counts.get(&to) {
                Some(None) => return u32::MAX,
                Some(Some(known)) => {
                    *count = count.saturating_add(known.saturating_mul(width));
                    ways.pop();
                }
                None => {
                    counts.insert(to, None);
                    let below = self.texts_from(to);
                    path.push(below);
                }
            }
        }
        counts.get(&start).copied().flatten().unwrap_or(u32::MAX)
    }

    fn texts_from(&mut self, state: DfaId) -> Texts {
        let ranges = self.dfa.ranges(self.nfa, state);
        let ways = ranges.into_iter().map(|(lo, hi, to)| (u32::from(hi - lo) + 1, to)).collect();
        Texts { state, ways, count: u32::from(self.dfa.state(state).accept) }
    }

    /// Returns the entry of an undeclared property of an object followed by `to`; `None` for an
    /// object with any properties.
    fn undeclared_member(&mut self, object: Option<&Object>, key: Value, value: Value, to: NfaId) -> NfaId {
        let value = self.call(value, to);
        let markup = object.and_then(|object| object.markup.as_deref());
        let named = match markup {
            None => {
                let value = self.gap(value);
                let colon = self.byte(b':', value);
                self.space(colon)
            }
            // The rule of the name includes what follows it.
            Some(_) => value,
        };
        let name = match key {
            Some((rule, register)) if named != DEAD => {
                self.nfa.push(State::Call(Call::Fresh(rule, register, named)), 0)
            }
            _ => DEAD,
        };
        markup.map_or(name, |markup| self.lowering().bytes(markup.open.as_bytes(), name))
    }

    /// Returns the entry of a comma and then a property of an object; `None` for any object, or an
    /// item.
    fn separated(&mut self, object: Option<&Object>, property: NfaId) -> NfaId {
        if let Some(markup) = object.and_then(|object| object.markup.as_deref()) {
            return if property == DEAD { DEAD } else { self.line(markup.between, property) };
        }
        let spaced = self.gap(property);
        self.byte(b',', spaced)
    }

    /// Returns the entry of what follows a value, and then what follows the property.
    fn behind_value(&mut self, object: &Object, to: NfaId) -> NfaId {
        match &object.markup {
            None => self.space(to),
            Some(_) => to,
        }
    }

    /// Returns the ends, with a guard where this object uses its register: without properties, and
    /// with some.
    fn closed(&mut self, draft: &Draft) -> (NfaId, NfaId) {
        let (empty, full) = draft.close;
        let first = self.guard(draft, GuardKind::ObjectEnd, empty);
        (first, if full == empty { first } else { self.guard(draft, GuardKind::ObjectEnd, full) })
    }

    /// Returns a guard, where this object uses its register.
    fn guard(&mut self, draft: &Draft, test: GuardKind, to: NfaId) -> NfaId {
        if draft.guarded { self.guarded(test, to) } else { to }
    }

    fn guarded(&mut self, test: GuardKind, to: NfaId) -> NfaId {
        if to == DEAD { DEAD } else { self.nfa.push(State::Call(Call::Guard(test, to)), 0) }
    }
}
