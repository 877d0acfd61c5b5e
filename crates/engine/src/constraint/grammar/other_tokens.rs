//! Tokens other than a certain one, which GBNF writes `!<name>`.
//!
//! Tokens are named by their text and mean that text, and a constraint does not know where tokens
//! begin. So the number of tokens has no meaning here, but any number of them has: the texts of
//! `!<name>*` are those that do not contain `<name>`. `!<name>` anywhere else is refused.
//!
//! # Cost
//! One automaton for each, linear in the name.
//!
//! # Alternatives considered
//! One character instead of one token was rejected: a grammar that counts tokens would mean
//! something else in silence.

use super::rules::{Expr, ExprId, Grammar};
use crate::error::{ErrorKind, Result};

/// Replaces the repetitions of other tokens by the texts that they write.
///
/// # Errors
/// `Unsupported` with the span of the rule, where other tokens are counted or single.
pub(super) fn resolve(grammar: &mut Grammar) -> Result<()> {
    if !grammar.exprs.iter().any(|expr| matches!(expr, Expr::OtherThan(_))) {
        return Ok(());
    }
    for id in 0..grammar.exprs.len() as ExprId {
        let Expr::Repeat(part, min, max) = *grammar.expr(id) else { continue };
        let (Some(texts), 0..=1, None) = (other_than(grammar, part), min, max) else { continue };
        let mut body = grammar.push(Expr::Foreign(texts));
        if min == 0 {
            body = grammar.push(Expr::Repeat(body, 0, Some(1)));
        }
        // Parts precede what they are parts of, so the new parts need a rule.
        let rule = grammar.anonymous("(other tokens)", body, (0, 0));
        grammar.exprs[id as usize] = Expr::Rule(rule);
    }
    refuse_single(grammar)
}

/// Returns the texts of other tokens, if an expression is one other token.
fn other_than(grammar: &Grammar, mut id: ExprId) -> Option<usize> {
    // A chain of rules is no longer than their number.
    for _ in 0..=grammar.rules.len() {
        match *grammar.expr(id) {
            Expr::OtherThan(texts) => return Some(texts),
            Expr::Rule(rule) => id = grammar.rules[rule as usize].body?,
            _ => return None,
        }
    }
    None
}

/// Refuses other tokens that the output can still reach.
fn refuse_single(grammar: &Grammar) -> Result<()> {
    let (_, exprs) = grammar.reached(vec![grammar.start]);
    let Some((rule, _)) = exprs.into_iter().find(|e| matches!(grammar.expr(e.1), Expr::OtherThan(_))) else {
        return Ok(());
    };
    let rule = &grammar.rules[rule as usize];
    let message = format!("`{}` counts tokens, which a text does not show", rule.name);
    let hint = "write `!<name>*` or `!<name>+`: any text without that token";
    Err(grammar.fault(ErrorKind::Unsupported, message, rule.span, hint))
}
