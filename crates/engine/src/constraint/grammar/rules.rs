//! The grammar that both notations yield: named rules over expressions in one arena.
//!
//! Expressions are pushed children first, so every property of them is computed in one pass in the
//! order of the arena, and nesting costs no stack anywhere. Looking a name up is one hash look-up. A
//! tree of boxes was rejected: dropping one that is nested 100,000 deep overflows the stack.

use rustc_hash::FxHashMap;

use super::cursor::fault;
use crate::constraint::element_pattern::distance;
use crate::constraint::ir::{Ir, repeated};
use crate::error::{Error, ErrorKind, Result};
use crate::warning::{Warning, WarningKind};

/// Index of an expression.
pub(super) type ExprId = u32;
/// Index of a rule.
pub(super) type RuleIx = u32;
/// Bytes `start..end` of the grammar's text.
pub(super) type Span = (usize, usize);

/// One expression.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Expr {
    /// This text; may be empty.
    Literal(Vec<u8>),
    /// One of these characters; none: nothing matches.
    Class(Vec<(char, char)>),
    /// One after the other.
    Seq(Vec<ExprId>),
    /// Any one of these.
    Alt(Vec<ExprId>),
    /// Repeated, at least and at most (`None`: without a bound).
    Repeat(ExprId, u32, Option<u32>),
    /// A rule.
    Rule(RuleIx),
    /// A value described elsewhere, by its index in [`Grammar::foreign`]; never empty text.
    Foreign(usize),
    /// A terminal, after which ignored text may stand.
    Token(ExprId),
}

/// A rule; without a body until it is defined.
#[derive(Debug, Clone)]
pub(super) struct Rule {
    pub name: String,
    pub body: Option<ExprId>,
    /// Where it is defined, or first used.
    pub span: Span,
    /// Whether it came from a library or from the parser itself, so that nobody misses it.
    pub implied: bool,
}

/// Rules, and what belongs to them.
#[derive(Debug, Default)]
pub(super) struct Grammar {
    /// The text, for errors.
    pub text: String,
    pub exprs: Vec<Expr>,
    pub rules: Vec<Rule>,
    pub names: FxHashMap<String, RuleIx>,
    /// Representations of embedded values.
    pub foreign: Vec<Ir>,
    /// Rules whose text may stand after every terminal and before everything.
    pub ignored: Vec<RuleIx>,
    /// Where everything begins; known after [`finish`](Self::finish).
    pub start: RuleIx,
    pub warnings: Vec<Warning>,
}

impl Grammar {
    pub(super) fn new(text: &str) -> Self {
        Grammar { text: text.to_owned(), ..Grammar::default() }
    }

    pub(super) fn push(&mut self, expr: Expr) -> ExprId {
        self.exprs.push(expr);
        self.exprs.len() as ExprId - 1
    }

    /// A repetition.
    pub(super) fn repeat(&mut self, part: ExprId, min: u32, max: Option<u32>) -> ExprId {
        if let Expr::Repeat(inner, least, most) = *self.expr(part)
            && let Some((min, max)) = repeated((least, most), (min, max))
        {
            return self.push(Expr::Repeat(inner, min, max));
        }
        self.push(Expr::Repeat(part, min, max))
    }

    pub(super) fn expr(&self, id: ExprId) -> &Expr {
        &self.exprs[id as usize]
    }

    /// A sequence; a single part stays itself.
    pub(super) fn seq(&mut self, parts: Vec<ExprId>) -> ExprId {
        match parts[..] {
            [] => self.push(Expr::Literal(Vec::new())),
            [one] => one,
            _ => self.push(Expr::Seq(parts)),
        }
    }

    /// Alternatives; a single one stays itself.
    pub(super) fn alt(&mut self, parts: Vec<ExprId>) -> ExprId {
        match parts[..] {
            [one] => one,
            _ => self.push(Expr::Alt(parts)),
        }
    }

    /// The rule of a name, which may be defined later.
    pub(super) fn rule(&mut self, name: &str, span: Span) -> RuleIx {
        if let Some(&known) = self.names.get(name) {
            return known;
        }
        let ix = self.rules.len() as RuleIx;
        self.rules.push(Rule { name: name.to_owned(), body: None, span, implied: false });
        self.names.insert(name.to_owned(), ix);
        ix
    }

    /// Gives a name its body.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidPattern`] if it has one.
    pub(super) fn define(&mut self, name: &str, body: ExprId, span: Span) -> Result<()> {
        let ix = self.rule(name, span);
        let rule = &mut self.rules[ix as usize];
        if rule.body.is_some() {
            let message = format!("`{name}` is defined twice");
            return Err(self
                .fault(ErrorKind::InvalidPattern, message, span)
                .hint("join the two definitions with `|`"));
        }
        rule.body = Some(body);
        rule.span = span;
        Ok(())
    }

    /// A rule without a name of its own.
    pub(super) fn anonymous(&mut self, body: ExprId, span: Span) -> RuleIx {
        self.rules.push(Rule { name: "(ignored text)".to_owned(), body: Some(body), span, implied: true });
        self.rules.len() as RuleIx - 1
    }

    pub(super) fn fault(&self, kind: ErrorKind, message: impl Into<String>, span: Span) -> Error {
        fault(kind, message, &self.text, span)
    }

    /// The texts that stand in the rules.
    pub fn literals(&self) -> impl Iterator<Item = &[u8]> {
        self.exprs.iter().filter_map(|expr| match expr {
            Expr::Literal(text) => Some(&text[..]),
            _ => None,
        })
    }

    /// Checks that every name is defined and finds the start rule; warns of rules that nothing uses.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidPattern`] with the span of the first undefined name, or if there is no start.
    pub(super) fn finish(&mut self, start: &str) -> Result<()> {
        if let Some(rule) = self.rules.iter().filter(|r| r.body.is_none()).min_by_key(|r| r.span.0) {
            let error =
                self.fault(ErrorKind::InvalidPattern, format!("`{}` is not defined", rule.name), rule.span);
            return Err(match self.suggestion(&rule.name) {
                Some(known) => error.hint(format!("did you mean `{known}`?")),
                None => error.hint("define it, or put literal text in quotes"),
            });
        }
        let Some(&ix) = self.names.get(start) else {
            let span = (0, self.text.len().min(1));
            let message = format!("there is no rule `{start}` to begin with");
            let error = self.fault(ErrorKind::InvalidPattern, message, span);
            return Err(error.hint(format!("name the rule for the whole output `{start}`")));
        };
        self.start = ix;
        self.warn_of_unused();
        Ok(())
    }

    fn warn_of_unused(&mut self) {
        let mut used = vec![false; self.rules.len()];
        let mut todo: Vec<ExprId> = Vec::new();
        for ix in self.ignored.iter().copied().chain([self.start]) {
            used[ix as usize] = true;
            todo.extend(self.rules[ix as usize].body);
        }
        while let Some(id) = todo.pop() {
            match self.expr(id) {
                Expr::Seq(parts) | Expr::Alt(parts) => todo.extend_from_slice(parts),
                Expr::Repeat(part, ..) | Expr::Token(part) => todo.push(*part),
                Expr::Rule(ix) if !std::mem::replace(&mut used[*ix as usize], true) => {
                    todo.extend(self.rules[*ix as usize].body);
                }
                _ => {}
            }
        }
        let unused: Vec<&str> = self
            .rules
            .iter()
            .zip(&used)
            .filter(|(r, u)| !**u && !r.implied)
            .map(|(r, _)| &r.name[..])
            .collect();
        if unused.is_empty() {
            return;
        }
        let shown = unused[..unused.len().min(5)].join("`, `");
        let more = if unused.len() > 5 { format!(" and {} more", unused.len() - 5) } else { String::new() };
        let message = format!("nothing uses `{shown}`{more}");
        self.warnings.push(Warning::new(WarningKind::UnusedRule, message));
    }

    /// The defined name closest to `name`, if it is close.
    fn suggestion(&self, name: &str) -> Option<&str> {
        let defined = self.rules.iter().filter(|r| r.body.is_some() && self.names.contains_key(&r.name));
        let (known, distance) = defined
            .take(5_000)
            .map(|rule| (&rule.name[..], distance(&rule.name, name)))
            .min_by_key(|&(_, distance)| distance)?;
        (distance <= 2 && distance < name.chars().count()).then_some(known)
    }
}
