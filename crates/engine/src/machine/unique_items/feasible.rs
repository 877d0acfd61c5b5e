//! Compile-time check that arrays with unique items can have as many items as they must.
//!
//! The values of an item are found by writing them: depth first, the shortest path to an end first,
//! up to the number that could matter. An array is feasible if every position has enough values of
//! its own, or if values can be matched to positions (Hall's theorem). Then a value is left at run
//! time, too, whatever was used. Only positions with few values are passed to the machine, which
//! keeps their values free.
//!
//! # Cost
//!
//! About its length for each value. Arrays that may be short cost nothing.
//!
//! # Alternatives considered
//!
//! Computing with cardinalities of the representation: texts that the vocabulary cannot write must
//! not be counted.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::error::{Error, ErrorKind, Result};

use crate::machine::closure::{StackMachine, StepResult};
use crate::machine::nfa::{NfaId, RegisterIx, RuleIx, State};
use crate::machine::program::Program;
use crate::machine::properties::seen_names::{NO_TEXT, TextId};
use crate::machine::register::{Register, UniqueItems};
use crate::machine::shortest::lower_bound::{LowerBounds, StackBounds};
use crate::machine::thread::{Thread, UNKNOWN_STACK};
use crate::machine::unique_items::matching::all_differ;
use crate::machine::unique_items::value::ValueId;
use crate::machine::unique_items::{ItemTables, distinguishing_bytes, scan};

/// Maximum number of unique items that an array may be required to have.
const MAX_ENOUGH: u32 = 10_000;
/// Maximum number of bytes tried to find the values of one kind of items. Each counts once more for
/// each array that it is in.
const MAX_STEPS: usize = 1_000_000;
type Rule = (RuleIx, RegisterIx);
/// Some values, each as one text.
type Texts = Vec<Box<[u8]>>;

/// Removes the arrays that cannot have enough different items, and what then becomes impossible,
/// until nothing changes. Notes the positions with few values in the other arrays.
///
/// # Errors
///
/// Returns an error beyond the limits above.
pub(crate) fn check_feasible(program: &mut Program, first_state: NfaId, first_rule: usize) -> Result<()> {
    loop {
        let asking: Vec<(usize, Arc<UniqueItems>)> = program
            .registers
            .iter()
            .enumerate()
            .filter_map(|(ix, register)| match register {
                Register::Distinct(d) if asks(d, &program.registers) => Some((ix, d.clone())),
                _ => None,
            })
            .collect();
        if asking.is_empty() {
            return Ok(());
        }
        let mut lists = Lists::new(program);
        let mut removed = false;
        for (ix, distinct) in asking {
            let start = program.starts[distinct.rule.0 as usize];
            if matches!(program.nfa.state(start), State::Dead) {
                continue;
            }
            match lists.few(&distinct, &program.registers)? {
                Some(few) => {
                    program.registers[ix] =
                        Register::Distinct(Arc::new(UniqueItems { few, ..(*distinct).clone() }));
                }
                None => {
                    program.nfa.set(start, State::Dead);
                    removed = true;
                }
            }
        }
        if !removed {
            return Ok(());
        }
        program.recompute_liveness(first_state, first_rule);
    }
}

/// Returns the positions of an array that must be filled. Usually it is a number of positions of
/// one kind; the flag is true if they are listed one by one.
fn places(distinct: &UniqueItems, registers: &[Register]) -> (Vec<(Option<Rule>, u32)>, bool) {
    let Some((_, register)) = distinct.array else { return (Vec::new(), false) };
    let mut all = distinct.enough.clone();
    let Register::Items(items) = &registers[register as usize] else { return (all, false) };
    if items.prefix.is_empty() {
        all.push((items.rest, items.min));
        return (all, false);
    }
    let first = items.prefix.iter().take(items.min as usize).map(|&p| (p, 1));
    let others = items.min.saturating_sub(items.prefix.len() as u32);
    all.extend(first);
    all.push((items.rest, others));
    (all, true)
}

/// Returns true if an array must have at least two items, so that a check is needed.
fn asks(distinct: &UniqueItems, registers: &[Register]) -> bool {
    let (places, _) = places(distinct, registers);
    places.iter().fold(0u32, |n, p| n.saturating_add(p.1)) > 1
}

/// The values of kinds of items.
struct Lists {
    machine: StackMachine,
    items: ItemTables,
    least: LowerBounds,
    below: StackBounds,
    known: FxHashMap<(Rule, u32), Arc<Texts>>,
}

/// Threads, the text that led to them, and whether it ends inside a string.
struct ChoiceNode {
    threads: Vec<Thread>,
    text: TextId,
    exits: bool,
    in_text: u8,
}

impl Lists {
    fn new(program: &Program) -> Self {
        let machine = StackMachine::new(program.clone(), Arc::default());
        let items = ItemTables::new(&machine.local.automaton);
        let least = LowerBounds::of(&machine.local.automaton);
        Lists { machine, items, least, below: StackBounds::default(), known: FxHashMap::default() }
    }

    /// Returns the positions with few values, in order, or `None` if different values cannot fill
    /// them.
    fn few(&mut self, distinct: &UniqueItems, registers: &[Register]) -> Result<Option<Vec<(u32, Texts)>>> {
        let (places, one_by_one) = places(distinct, registers);
        let all = places.iter().fold(0u32, |n, p| n.saturating_add(p.1));
        if all > MAX_ENOUGH {
            let message = format!("an array must have more than {MAX_ENOUGH} different items");
            return Err(Error::new(ErrorKind::TooComplex, message).hint("lower `minItems`"));
        }
        let mut few: Vec<(u32, Texts)> = Vec::new();
        let mut place = 0;
        for (rule, count) in places {
            if count == 0 {
                continue;
            }
            let wanted = if one_by_one { all } else { count };
            let Some(rule) = rule else { return Ok(None) };
            let values = self.values(rule, wanted)?;
            if (values.len() as u32) < count {
                return Ok(None);
            }
            if one_by_one && (values.len() as u32) < all {
                few.extend((place..place + count).map(|p| (p, values.to_vec())));
            }
            place += count;
        }
        let ids: Vec<Vec<ValueId>> =
            few.iter().map(|(_, texts)| texts.iter().map(|t| self.items.values.read(t)).collect()).collect();
        Ok(all_differ(&ids.iter().collect::<Vec<_>>(), |_| false).then_some(few))
    }

    /// Returns different values of a rule, a text of each: all of them, or `limit`.
    fn values(&mut self, rule: Rule, limit: u32) -> Result<Arc<Texts>> {
        if let Some(known) = self.known.get(&(rule, limit)) {
            return Ok(known.clone());
        }
        let (mut texts, mut seen) = (Vec::new(), FxHashSet::default());
        let start = self.machine.at_start(rule, UNKNOWN_STACK);
        let first = ChoiceNode { threads: start.threads, text: NO_TEXT, exits: false, in_text: 0 };
        let mut todo = vec![first];
        let mut budget = MAX_STEPS;
        while let Some(node) = todo.pop() {
            if node.exits {
                let text = self.machine.local.names.between(NO_TEXT, node.text);
                if seen.insert(self.items.values.read(&text)) {
                    texts.push(text.into());
                }
            }
            if texts.len() as u32 >= limit {
                break;
            }
            let Some(left) = self.expand(node, limit, budget, &mut todo) else {
                let message = "how many different items an array can have is not known";
                return Err(Error::new(ErrorKind::TooComplex, message)
                    .hint("lower `minItems`, or say less about the items beside `uniqueItems`"));
            };
            budget = left;
        }
        let texts = Arc::new(texts);
        self.known.insert((rule, limit), texts.clone());
        Ok(texts)
    }

    /// Adds the successors of a node, the nearest to an end last. Returns the budget left, or
    /// `None` if there is none.
    fn expand(
        &mut self,
        node: ChoiceNode,
        limit: u32,
        mut budget: usize,
        todo: &mut Vec<ChoiceNode>,
    ) -> Option<usize> {
        let mut next: Vec<(u32, ChoiceNode)> = Vec::new();
        let each = 1 + self.machine.stacks.scopes(&node.threads).len();
        let automaton = &mut self.machine.local.automaton;
        // More bytes with one target than this could not matter.
        let most = limit as usize + 1;
        for b in distinguishing_bytes(automaton, &node.threads, node.in_text > 0, most) {
            budget = budget.checked_sub(each)?;
            let mut reached = StepResult::default();
            // Arrays that begin here remember from here on; the text determines the state of all
            // others.
            let text = self.machine.local.names.with_byte(node.text, b, true);
            self.items.advance_to(&mut self.machine, (&node.threads, text), b, &mut reached);
            let mut extends = || self.items.can_extend(&mut self.machine, &reached.threads, text);
            if reached.is_dead() || reached.exit.is_none() && !extends() {
                continue;
            }
            let mut in_text = node.in_text;
            scan(b, &mut 0, &mut in_text);
            let far = match reached.exit {
                Some(_) => 0,
                None => self.below.of_threads(&self.least, &self.machine, &reached.threads),
            };
            let exits = reached.exit.is_some();
            next.push((far, ChoiceNode { threads: reached.threads, text, exits, in_text }));
        }
        next.sort_by_key(|n| std::cmp::Reverse(n.0));
        todo.extend(next.into_iter().map(|n| n.1));
        Some(budget)
    }
}
