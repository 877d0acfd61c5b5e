//! The parsed grammar of both notations: named rules over expressions in one arena.
//!
//! Expressions are pushed children first. So each property of all expressions is computed in one
//! pass in arena order, and nesting never uses the call stack.
//!
//! # Cost
//! Finding a name is one hash lookup.
//!
//! # Alternatives considered
//! A tree of boxes was rejected: dropping a deeply nested one overflows the stack.

use rustc_hash::FxHashMap;

use super::cursor::{Span, fault};
use crate::constraint::ir::{Ir, repeated};
use crate::edit_distance::closest;
use crate::error::{Error, ErrorKind, Result};
use crate::warning::{Warning, WarningKind};

/// Index of an expression.
pub(super) type ExprId = u32;
/// Index of a rule.
pub(super) type RuleIx = u32;

/// Minimum and maximum of a repetition; `None`: unbounded.
pub(super) type Counts = (u32, Option<u32>);

/// One expression.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Expr {
    /// This text; may be empty.
    Literal(Vec<u8>),
    /// One of these characters; an empty list matches nothing.
    Class(Vec<(char, char)>),
    /// These parts in order.
    Seq(Vec<ExprId>),
    /// Any one of these.
    Alt(Vec<ExprId>),
    /// A repetition: the part, the minimum and the maximum (`None`: unbounded).
    Repeat(ExprId, u32, Option<u32>),
    /// A call of a rule.
    Rule(RuleIx),
    /// An embedded value, by its index in [`Grammar::foreign`]; never the empty text.
    Foreign(usize),
    /// A terminal, after which ignored text may follow.
    Token(ExprId),
    /// One token that is not a certain one (see [`other_tokens`](super::other_tokens)), by the index
    /// in [`Grammar::foreign`] of the texts that such tokens can write.
    OtherThan(usize),
}

/// A rule; without a body until it is defined.
#[derive(Debug, Clone)]
pub(super) struct Rule {
    pub name: String,
    pub body: Option<ExprId>,
    /// The span of the definition, or of the first use.
    pub span: Span,
    /// True if the rule comes from a library or from the parser itself; then it may be unused
    /// without a warning.
    pub implied: bool,
    /// True if its calls take text, although its body may match the empty text.
    pub takes_text: bool,
}

/// A grammar: its rules, expressions and warnings.
#[derive(Debug, Default)]
pub(super) struct Grammar {
    /// The text, for errors.
    pub text: String,
    pub exprs: Vec<Expr>,
    pub rules: Vec<Rule>,
    pub names: FxHashMap<String, RuleIx>,
    /// Representations of embedded values.
    pub foreign: Vec<Ir>,
    /// Rules whose text may follow every terminal and precede the whole output.
    pub ignored: Vec<RuleIx>,
    /// The start rule; known after [`finish`](Self::finish).
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

    /// Adds a repetition; merges it with an inner repetition where possible.
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

    /// Adds a sequence; a single part stays itself.
    pub(super) fn seq(&mut self, parts: Vec<ExprId>) -> ExprId {
        match parts[..] {
            [] => self.push(Expr::Literal(Vec::new())),
            [one] => one,
            _ => self.push(Expr::Seq(parts)),
        }
    }

    /// Adds alternatives; a single one stays itself.
    pub(super) fn alt(&mut self, parts: Vec<ExprId>) -> ExprId {
        match parts[..] {
            [one] => one,
            _ => self.push(Expr::Alt(parts)),
        }
    }

    /// Returns the rule of a name, which may be defined later.
    pub(super) fn rule(&mut self, name: &str, span: Span) -> RuleIx {
        if let Some(&known) = self.names.get(name) {
            return known;
        }
        let ix = self.rules.len() as RuleIx;
        self.rules.push(Rule { name: name.to_owned(), body: None, span, implied: false, takes_text: false });
        self.names.insert(name.to_owned(), ix);
        ix
    }

    /// Defines the body of a named rule.
    ///
    /// # Errors
    /// Returns [`ErrorKind::InvalidPattern`] if the rule has a body already.
    pub(super) fn define(&mut self, name: &str, body: ExprId, span: Span) -> Result<()> {
        let ix = self.rule(name, span);
        let rule = &mut self.rules[ix as usize];
        if rule.body.is_some() {
            let message = format!("`{name}` is defined twice");
            let hint = "join the two definitions with `|`";
            return Err(self.invalid(message, span, hint));
        }
        rule.body = Some(body);
        rule.span = span;
        Ok(())
    }

    /// Adds a rule without a name of its own.
    pub(super) fn anonymous(&mut self, name: &str, body: ExprId, span: Span) -> RuleIx {
        self.rules.push(Rule {
            name: name.to_owned(),
            body: Some(body),
            span,
            implied: true,
            takes_text: false,
        });
        self.rules.len() as RuleIx - 1
    }

    pub(super) fn invalid(&self, message: impl Into<String>, span: Span, hint: impl Into<String>) -> Error {
        self.fault(ErrorKind::InvalidPattern, message, span, hint)
    }

    pub(super) fn fault(
        &self,
        kind: ErrorKind,
        message: impl Into<String>,
        span: Span,
        hint: impl Into<String>,
    ) -> Error {
        fault(kind, message, &self.text, span).hint(hint)
    }

    /// Returns the literals of all rules.
    pub(super) fn literals(&self) -> impl Iterator<Item = &[u8]> {
        self.exprs.iter().filter_map(|expr| match expr {
            Expr::Literal(text) => Some(&text[..]),
            _ => None,
        })
    }

    /// Checks that every name is defined, finds the start rule, and warns about unused rules.
    ///
    /// # Errors
    /// Returns [`ErrorKind::InvalidPattern`] with the span of the first undefined name, or if there
    /// is no start rule.
    pub(super) fn finish(&mut self, start: &str) -> Result<()> {
        if let Some(rule) = self.rules.iter().filter(|r| r.body.is_none()).min_by_key(|r| r.span.0) {
            let defined = self
                .rules
                .iter()
                .filter(|r| r.body.is_some() && self.names.contains_key(&r.name))
                .take(5_000);
            let hint = match closest(&rule.name, defined.map(|r| &*r.name)) {
                Some(known) => format!("did you mean `{known}`?"),
                None => "define it, or put literal text in quotes".to_owned(),
            };
            let message = format!("`{}` is not defined", rule.name);
            return Err(self.invalid(message, rule.span, hint));
        }
        let Some(&ix) = self.names.get(start) else {
            let span = (0, self.text.len().min(1));
            let message = format!("there is no rule `{start}` to begin with");
            let hint = format!("name the rule for the whole output `{start}`");
            return Err(self.invalid(message, span, hint));
        };
        self.start = ix;
        self.warn_of_unused();
        Ok(())
    }

    /// Returns which rules some rules need, themselves included, and the expressions in these, each
    /// with its rule.
    pub(super) fn reached(&self, mut todo: Vec<RuleIx>) -> (Vec<bool>, Vec<(RuleIx, ExprId)>) {
        let (mut reached, mut found) = (vec![false; self.rules.len()], Vec::new());
        while let Some(ix) = todo.pop() {
            if std::mem::replace(&mut reached[ix as usize], true) {
                continue;
            }
            let mut exprs: Vec<ExprId> = self.rules[ix as usize].body.into_iter().collect();
            while let Some(id) = exprs.pop() {
                found.push((ix, id));
                match self.expr(id) {
                    Expr::Seq(parts) | Expr::Alt(parts) => exprs.extend_from_slice(parts),
                    Expr::Repeat(part, ..) | Expr::Token(part) => exprs.push(*part),
                    Expr::Rule(next) => todo.push(*next),
                    _ => {}
                }
            }
        }
        (reached, found)
    }

    fn warn_of_unused(&mut self) {
        let (used, _) = self.reached(self.ignored.iter().copied().chain([self.start]).collect());
        let unused = self.rules.iter().zip(&used).filter(|(rule, used)| !**used && !rule.implied);
        let unused: Vec<&str> = unused.map(|(rule, _)| &*rule.name).collect();
        if unused.is_empty() {
            return;
        }
        let shown = unused[..unused.len().min(5)].join("`, `");
        let more = if unused.len() > 5 { format!(" and {} more", unused.len() - 5) } else { String::new() };
        let message = format!("nothing uses `{shown}`{more}");
        self.warnings.push(Warning::new(WarningKind::UnusedRule, message));
    }
}
