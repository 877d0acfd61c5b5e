//! The engines that compute masks, and the walk along a text with one of them.

use std::time::{Duration, Instant};

use ffwd_runtime::{CompiledGrammar, Compiler, Constraint, Matcher, Policy, Result, TokenId, Vocabulary};

/// What an engine compiles.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Language {
    JsonSchema(String),
    Lark(String),
    Gbnf {
        text: String,
        /// The same language for engines that read Lark's notation only.
        lark: Option<String>,
    },
}

/// An engine under measurement. What depends on the vocabulary only is prepared.
pub(super) trait MaskEngine {
    fn name(&self) -> &str;
    /// Compiles a language, keeps it in place of the one before, and returns the time.
    ///
    /// # Errors
    /// Why the engine refuses it.
    fn compile(&mut self, language: &Language) -> Result<Duration, String>;
    /// Returns true if a part of compiling waits for the first mask.
    fn is_lazy(&self) -> bool;
    /// Follows a text of the compiled language: computes each mask, looks the token up in it, and
    /// accepts it. Without tokens one mask is computed.
    fn follow(&mut self, tokens: &[TokenId]) -> TextWalk;
    /// Bytes that the compiled language holds, if the engine reports them.
    fn bytes(&self) -> Option<usize>;
}

/// The times of one walk along a text.
#[derive(Debug, Default)]
pub(super) struct TextWalk {
    /// Making the matcher of the text.
    pub start: Duration,
    pub masks: Vec<Duration>,
    /// The tokens that were accepted.
    pub accepts: Vec<Duration>,
    /// Why the text is not of the language.
    pub fault: Option<WalkFault>,
}

/// What ends a walk at the token after the accepted ones.
#[derive(Debug)]
pub(super) enum WalkFault {
    /// The engine gives the mask up.
    NoMask(String),
    NotInMask,
    /// The token is in the mask.
    Refused,
    /// The text may not end where it does.
    Incomplete,
}

/// Walks along a text with a matcher that was made in `start`. `mask` computes the mask and looks the
/// token up in it.
pub(super) fn walk<M>(
    (start, matcher): (Duration, &mut M),
    tokens: &[TokenId],
    mask: impl Fn(&mut M, TokenId) -> Result<bool, String>,
    accept: impl Fn(&mut M, TokenId) -> bool,
    may_end: impl Fn(&mut M) -> bool,
) -> TextWalk {
    let mut walk = TextWalk { start, ..TextWalk::default() };
    if tokens.is_empty() {
        let started = Instant::now();
        let found = mask(matcher, 0);
        walk.masks.push(started.elapsed());
        walk.fault = found.err().map(WalkFault::NoMask);
        return walk;
    }
    for &token in tokens {
        let started = Instant::now();
        let found = mask(matcher, token);
        walk.masks.push(started.elapsed());
        walk.fault = match found {
            Err(fault) => Some(WalkFault::NoMask(fault)),
            Ok(false) => Some(WalkFault::NotInMask),
            Ok(true) => None,
        };
        if walk.fault.is_some() {
            return walk;
        }
        let started = Instant::now();
        if !accept(matcher, token) {
            walk.fault = Some(WalkFault::Refused);
            return walk;
        }
        walk.accepts.push(started.elapsed());
    }
    walk.fault = (!may_end(matcher)).then_some(WalkFault::Incomplete);
    walk
}

/// The engine of this program.
pub(super) struct Ffwd {
    compiler: Compiler,
    grammar: Option<CompiledGrammar>,
    row: Vec<u32>,
    /// Masks are looked at where the engine keeps them, and not copied into a row.
    borrowed: bool,
}

/// The policy of schemas: instances may have exponents.
fn schema_policy() -> Policy {
    Policy { exponent: true, ..Policy::default() }
}

impl Ffwd {
    pub(super) fn new(vocab: &Vocabulary, borrowed: bool) -> Result<Self> {
        let compiler = Compiler::new(vocab.clone());
        // The base of the policy belongs to the vocabulary, not to a schema.
        compiler.compile(&Constraint::json_object().with_policy(schema_policy()))?;
        compiler.warm_up();
        Ok(Ffwd { compiler, grammar: None, row: vec![0; vocab.bitmask_words()], borrowed })
    }
}

impl MaskEngine for Ffwd {
    fn name(&self) -> &str {
        if self.borrowed { "ffwd, borrowed" } else { "ffwd" }
    }

    fn compile(&mut self, language: &Language) -> Result<Duration, String> {
        let started = Instant::now();
        let builder = Constraint::builder();
        let constraint = match language {
            Language::JsonSchema(schema) => builder.policy(schema_policy()).json_schema(schema),
            Language::Lark(text) => builder.lark(text),
            Language::Gbnf { text, .. } => builder.gbnf(text),
        };
        let grammar = constraint.and_then(|constraint| self.compiler.compile(&constraint));
        // The grammar of before is dropped outside of the time.
        let elapsed = started.elapsed();
        self.grammar = Some(grammar.map_err(|error| error.to_string())?);
        Ok(elapsed)
    }

    fn is_lazy(&self) -> bool {
        false
    }

    fn follow(&mut self, tokens: &[TokenId]) -> TextWalk {
        let Some(grammar) = &self.grammar else { return TextWalk::default() };
        let started = Instant::now();
        let mut state = (grammar.matcher(), &mut self.row);
        let start = (started.elapsed(), &mut state);
        let accept = |(matcher, _): &mut (Matcher, _), token| matcher.accept_token(token).is_ok();
        let may_end = |(matcher, _): &mut (Matcher, _)| matcher.is_accepting();
        if self.borrowed {
            let has = |(matcher, _): &mut (Matcher, _), token| Ok(matcher.bitmask().contains(token));
            return walk(start, tokens, has, accept, may_end);
        }
        let has = |(matcher, row): &mut (Matcher, &mut Vec<u32>), token: TokenId| {
            matcher.fill_bitmask(row);
            Ok(row[token as usize / 32] >> (token % 32) & 1 == 1)
        };
        walk(start, tokens, has, accept, may_end)
    }

    fn bytes(&self) -> Option<usize> {
        self.grammar.as_ref().map(|grammar| grammar.memory().total())
    }
}
