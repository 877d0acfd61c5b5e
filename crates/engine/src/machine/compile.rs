//! From a constraint to a program: lowering, liveness, and the checks of what was lowered.
//!
//! # Cost
//!
//! One pass over the representation and one over the states (liveness). The other checks cost time
//! only where their kind of node occurs.

use std::sync::Arc;

use crate::constraint::Policy;
use crate::constraint::ir::{Ir, Node, NodeId};
use crate::error::{Error, ErrorKind, Result};

use super::alphabet::Alphabet;
use super::intern::{Interner, Nodes};
use super::lazy_dfa::LazyDfa;
use super::left_recursion::refuse_left_recursion;
use super::liveness::StateRange;
use super::lower::{Lowered, lower};
use super::nfa::{Call, DEAD, Nfa, NfaId, State};
use super::program::{ANY, Program, STRING, UNSPACED};
use super::properties::name_trie::NameTrie;
use super::properties::table::PropertyTable;
use super::register::{Register, UniqueName};
use super::scalars;
use super::tool_check::ToolCheck;
use super::unique_items::feasible::check_feasible;

impl Program {
    /// Lowers the values that need no schema: strings, any JSON value, and the values of `common`.
    /// Others extend this program.
    pub(crate) fn base(policy: &Policy, alphabet: &[bool; 256], common: &Ir) -> Result<Program> {
        let mut program = Program {
            nfa: Nfa::default(),
            dfa: LazyDfa::default(),
            starts: vec![DEAD; 4],
            registers: vec![
                Register::None,
                Register::Chars { min: 0, max: u32::MAX - 1, lengths: None, raw: false },
                Register::Members(Arc::new(PropertyTable {
                    ordered: true,
                    covers: vec![(0, 0)],
                    ..PropertyTable::default()
                })),
                Register::Fresh(Arc::new(UniqueName { names: NameTrie::default(), open: true })),
            ],
            rule_ok: Vec::new(),
            root: (STRING, 0),
            flat: false,
            interner: Arc::default(),
            rule_of_node: Arc::default(),
            alphabet: Arc::new(Alphabet::new(alphabet)),
            policy: policy.clone(),
            lost_tools: Vec::new(),
        };
        program.starts[STRING.0 as usize] = scalars::plain_string(&mut program.nfa, &program.alphabet);
        program.starts[UNSPACED.0 as usize] = scalars::unspaced_string(&mut program.nfa, &program.alphabet);
        let mut interner = Interner::default();
        let root = interner.import(common)?;
        let string = interner.add(Node::JsonString { lang: None, min_chars: 0, max_chars: None });
        let any = interner.add(Node::JsonAny);
        let known = [(string, Some((STRING, 0))), (any, Some((ANY, 0)))];
        let lowered = lower(&mut program, Nodes::of(&interner.ir), root, known, true)?;
        let Lowered { of_node, blocks, .. } = lowered;
        let rules = (0..).map(NodeId).zip(of_node).filter_map(|(node, value)| Some((node, value?)));
        program.rule_of_node = Arc::new(rules.collect());
        program.interner = Arc::new(interner);
        // In a vocabulary without quotes or braces some of these cannot match; that is no error
        // yet.
        let blocks = [&[StateRange { first: 2, trimmed: false }], &blocks[..]].concat();
        program.finish(2, 0, Some(&blocks));
        Ok(program)
    }

    /// Lowers a constraint on top of a base.
    ///
    /// # Errors
    ///
    /// Returns `Unsatisfiable` if nothing can match, `TooComplex` beyond the limits, and
    /// `Unsupported` for left recursion.
    pub(crate) fn extend(base: &Program, ir: &Ir) -> Result<Program> {
        let mut program = Program {
            nfa: base.nfa.with_room(ir.weight()),
            dfa: base.dfa.clone(),
            starts: base.starts.clone(),
            registers: base.registers.clone(),
            rule_ok: base.rule_ok.clone(),
            interner: base.interner.clone(),
            rule_of_node: base.rule_of_node.clone(),
            policy: base.policy.clone(),
            alphabet: base.alphabet.clone(),
            lost_tools: Vec::new(),
            ..*base
        };
        let (first_state, first_rule) = (program.nfa.len() as NfaId, program.starts.len());
        let merged = base.interner.merge(ir)?;
        let rule = |&(node, here)| Some((node, *base.rule_of_node.get(&here)?));
        let known = merged.based.iter().filter_map(rule);
        let Lowered { root, blocks, of_node } =
            lower(&mut program, merged.nodes(ir), ir.root(), known, false)?;
        program.finish(first_state, first_rule, Some(&blocks));
        check_feasible(&mut program, first_state, first_rule)?;
        let tools = ToolCheck { nodes: merged.nodes(ir), values: &of_node, rule_ok: &program.rule_ok };
        program.lost_tools = tools.lost(&ir.tools);
        if let Some(tool) = program.lost_tools.iter().find(|tool| !tool.skipped) {
            return Err(tool.impossible());
        }
        match root {
            Some(root) if program.rule_ok[root.0.0 as usize] => program.root = root,
            _ => {
                if let Some(tool) = program.lost_tools.first() {
                    return Err(tool.impossible());
                }
                return Err(Error::new(ErrorKind::Unsatisfiable, "no output can satisfy the constraint")
                    .hint(
                        "look for contradictory bounds, required properties that cannot exist, recursion \
                     without an end, or characters that the tokenizer does not have",
                    ));
            }
        }
        refuse_left_recursion(&program.nfa, &program.starts, first_rule)?;
        let calls = |s| {
            let state = program.nfa.state(s);
            matches!(state, State::Call(call) if !matches!(call, Call::Guard(..)))
        };
        // The root itself may be a rule of the base, which accepts only where nothing can follow in
        // it.
        program.flat = !(first_state..program.nfa.len() as NfaId).any(calls);
        Ok(program)
    }
}
