//! Combinators of constraints: `then` and `or`; `and` and `not` for regular ones; `behind_marker`.
//!
//! # Cost
//! `then` and `or` copy both representations, in time linear in them. `and` and `not` use automata
//! over characters ([`regular`](super::regular)), in time of their product.
//!
//! # Alternatives considered
//! `and` of JSON values was rejected: `allOf` inside one schema expresses it exactly, and the
//! product of two machines with stacks is not a machine with one stack.

use super::ir::{Ir, Node, NodeId};
use super::regular::{complement, intersect};
use super::{Constraint, Policy};
use crate::error::{Error, ErrorKind, Result};

impl Constraint {
    /// Returns a constraint for a text of this one, followed by a text of `other`.
    ///
    /// ```
    /// # fn main() -> ffwd_engine::Result<()> {
    /// use ffwd_engine::Constraint;
    /// let answer = Constraint::regex("Answer: ")?.then(&Constraint::json_object())?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Returns an error if both contain JSON values and their policies differ.
    pub fn then(&self, other: &Constraint) -> Result<Constraint> {
        self.joined(other, |ir, parts| ir.concat(&parts[..]))
    }

    /// Returns a constraint for a text of this one or a text of `other`.
    ///
    /// # Errors
    /// Returns an error if both contain JSON values and their policies differ.
    pub fn or(&self, other: &Constraint) -> Result<Constraint> {
        self.joined(other, |ir, parts| ir.union(&parts[..]))
    }

    /// Returns a constraint for the texts that satisfy both constraints. Both must be regular, that
    /// is, without JSON values.
    ///
    /// ```
    /// # fn main() -> ffwd_engine::Result<()> {
    /// use ffwd_engine::Constraint;
    /// let word = Constraint::regex("[a-z]{3,8}")?;
    /// let other = word.and(&Constraint::choice(["foo", "bar"])?.not()?)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Returns `Unsupported` if one of them is not regular, `Unsatisfiable` if no text satisfies
    /// both, `TooComplex` beyond a limit.
    pub fn and(&self, other: &Constraint) -> Result<Constraint> {
        self.need_regular("and")?;
        other.need_regular("and")?;
        let mut ir = self.annotated();
        ir.warnings.extend(other.ir.warnings.iter().cloned());
        let root = intersect((&self.ir, self.ir.root()), (&other.ir, other.ir.root()), &mut ir)?;
        finished(ir, root, &self.policy, "no text satisfies both constraints")
    }

    /// Returns a constraint for all Unicode texts that do not satisfy this one, which must be
    /// regular, that is, without JSON values.
    ///
    /// # Errors
    /// Returns `Unsupported` if it is not regular, `Unsatisfiable` if every text satisfies it,
    /// `TooComplex` beyond a limit.
    pub fn not(&self) -> Result<Constraint> {
        self.need_regular("not")?;
        let mut ir = self.annotated();
        let root = complement((&self.ir, self.ir.root()), &mut ir)?;
        finished(ir, root, &self.policy, "every text satisfies the constraint, so its negation has none")
    }

    /// Returns a constraint for any text up to the first `marker`, the marker, and then this
    /// constraint. If this constraint is one over tokens, the marker ends a token.
    ///
    /// ```
    /// # fn main() -> ffwd_engine::Result<()> {
    /// use ffwd_engine::Constraint;
    /// let answer = Constraint::choice(["yes", "no"])?.behind_marker("Answer: ")?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Returns an error if the marker is empty, or if this constraint is over tokens and has a
    /// marker already.
    pub fn behind_marker(&self, marker: &str) -> Result<Constraint> {
        if marker.is_empty() {
            return Err(Error::new(ErrorKind::InvalidOption, "the marker is empty")
                .hint("name a text, such as </think>"));
        }
        let ends = Constraint::regex("(?s:.*)")?.then(&Constraint::choice([marker])?)?;
        // A marker may begin inside of another (`---`); the first complete one counts.
        let text = ends.and(&ends.then(&Constraint::regex("(?s:.+)")?)?.not()?)?;
        let mut marked = match &self.tokens {
            None => text.then(self),
            Some(_) if self.marker.is_some() => {
                let message = "there is a text with a marker in front of these tokens already";
                Err(Error::new(ErrorKind::Unsupported, message).hint("leave out one of the two"))
            }
            tokens => Ok(Constraint { tokens: tokens.clone(), marker: Some(marker.to_string()), ..text }),
        }?;
        marked.ir.marks.push(marker.to_string());
        Ok(marked)
    }

    fn joined(
        &self,
        other: &Constraint,
        join: impl FnOnce(&mut Ir, [NodeId; 2]) -> NodeId,
    ) -> Result<Constraint> {
        self.need_bytes()?;
        other.need_bytes()?;
        // A regular constraint has no values, so its policy has no effect.
        let policy = match (is_regular(&self.ir), is_regular(&other.ir)) {
            _ if self.policy == other.policy => &self.policy,
            (true, _) => &other.policy,
            (_, true) => &self.policy,
            _ => {
                let message = "the two constraints have different policies";
                return Err(Error::new(ErrorKind::InvalidOption, message)
                    .hint("make both with the same policy, or change one by `with_policy`"));
            }
        };
        let mut ir = Ir::new();
        let parts = [ir.append(&self.ir), ir.append(&other.ir)];
        let root = join(&mut ir, parts);
        ir.set_root(root);
        Ok(Constraint::from_ir(ir, policy.clone()))
    }

    /// Refuses constraints over tokens: they have no representation to copy.
    fn need_bytes(&self) -> Result<()> {
        if !self.is_token_level() {
            return Ok(());
        }
        let message = "constraints over tokens cannot be combined with others";
        Err(Error::new(ErrorKind::Unsupported, message)
            .hint("for labels beside other text use `Constraint::choice`; behind thinking they may stand"))
    }

    fn need_regular(&self, operation: &str) -> Result<()> {
        self.need_bytes()?;
        if is_regular(&self.ir) {
            return Ok(());
        }
        let message = format!("`{operation}` needs constraints without JSON values and rules");
        Err(Error::new(ErrorKind::Unsupported, message)
            .hint("inside a JSON Schema, use `allOf` and `not`; regular are regex, pattern and choice"))
    }

    /// Returns an empty representation with the warnings of this one.
    fn annotated(&self) -> Ir {
        let mut ir = Ir::new();
        ir.warnings.clone_from(&self.ir.warnings);
        ir
    }
}

fn finished(mut ir: Ir, root: NodeId, policy: &Policy, never: &str) -> Result<Constraint> {
    if *ir.node(root) == Node::Never {
        return Err(Error::new(ErrorKind::Unsatisfiable, never));
    }
    ir.set_root(root);
    Ok(Constraint::from_ir(ir, policy.clone()))
}

/// Returns true if there are no JSON values and no rules below the root.
fn is_regular(ir: &Ir) -> bool {
    let mut seen = vec![false; ir.len()];
    let mut todo = vec![ir.root()];
    while let Some(id) = todo.pop() {
        if std::mem::replace(&mut seen[id.0 as usize], true) {
            continue;
        }
        match ir.node(id) {
            // Counted characters; other texts have a language of their own.
            Node::Text { lang, .. } if matches!(ir.node(*lang), Node::Repeat { min: 0, max: None, .. }) => {
                todo.push(*lang);
            }
            Node::Rule(_)
            | Node::Text { .. }
            | Node::JsonString { .. }
            | Node::JsonArray { .. }
            | Node::JsonSet { .. }
            | Node::JsonUnique { .. }
            | Node::JsonObject(_)
            | Node::JsonAny => return false,
            node => node.parts(|part| todo.push(part)),
        }
    }
    true
}
