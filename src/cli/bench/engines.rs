//! The engines that compute masks, and the walk along a text with one of them.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::super::inspect::vocabulary_or_embedded;
use crate::constraint::{Constraint, Policy};
use crate::error::Result;
use crate::matcher::{CompiledGrammar, Compiler, Matcher};
use crate::vocab::{TokenId, Vocabulary};

/// Options of the vocabulary, which also decides which engines run.
#[derive(Debug, clap::Args)]
pub(super) struct EngineArgs {
    /// Read the tokenizer from a tokenizer.json, a GGUF file or the folder of a model [default:
    /// that of the embedded models]
    #[arg(long, value_name = "PATH")]
    tokenizer: Option<PathBuf>,
}

impl EngineArgs {
    pub(super) fn vocabulary(&self) -> Result<Vocabulary> {
        vocabulary_or_embedded(self.tokenizer.as_deref())
    }

    /// Returns this engine, and then the other one if the program has it.
    pub(super) fn engines(&self, vocab: &Vocabulary) -> Result<Vec<Box<dyn MaskEngine>>> {
        let own: Box<dyn MaskEngine> = Box::new(OwnEngine::new(vocab)?);
        Ok(std::iter::once(own).chain(self.other(vocab)?).collect())
    }

    #[cfg(not(feature = "llguidance"))]
    fn other(&self, _: &Vocabulary) -> Result<Option<Box<dyn MaskEngine>>> {
        Ok(None)
    }

    #[cfg(feature = "llguidance")]
    fn other(&self, vocab: &Vocabulary) -> Result<Option<Box<dyn MaskEngine>>> {
        let Some(file) = self.tokenizer.as_ref().filter(|file| file.extension().is_some_and(|e| e == "json"))
        else {
            eprintln!("note: llguidance needs --tokenizer with a tokenizer.json");
            return Ok(None);
        };
        Ok(Some(Box::new(super::llguidance::LlGuidance::new(file, vocab)?)))
    }
}

/// What an engine compiles.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Language {
    JsonSchema(String),
    Lark(String),
    Gbnf {
        text: String,
        /// The same language for engines that read Lark's notation only.
        #[cfg_attr(not(feature = "llguidance"), allow(dead_code))]
        lark: Option<String>,
    },
}

/// An engine under measurement. What depends on the vocabulary only is prepared.
pub(super) trait MaskEngine {
    fn name(&self) -> &'static str;
    /// Compiles a language anew.
    ///
    /// # Errors
    /// Why the engine refuses it.
    fn compile(&mut self, language: &Language) -> Result<Box<dyn Compiled>, String>;
    /// Returns true if a part of compiling waits for the first mask.
    fn is_lazy(&self) -> bool;
}

/// A compiled language, with all that it keeps from one text to the next.
pub(super) trait Compiled {
    /// Starts a text.
    fn start(&self) -> Box<dyn Follower + '_>;
    /// Computes the mask before any text.
    ///
    /// # Errors
    /// Why the engine refuses the language after all.
    fn first_mask(&mut self) -> Result<(), String> {
        self.start().mask()
    }
    /// Bytes held, if the engine reports them.
    fn bytes(&self) -> Option<usize>;
}

/// A text in progress.
pub(super) trait Follower {
    /// Computes the mask.
    ///
    /// # Errors
    /// Why the engine gives it up.
    fn mask(&mut self) -> Result<(), String>;
    /// Looks a token up in the last mask.
    fn has(&self, token: TokenId) -> bool;
    /// Returns false if the token is refused.
    fn accept(&mut self, token: TokenId) -> bool;
    fn may_end(&mut self) -> bool;
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

impl TextWalk {
    pub(super) fn masks_ms(&self) -> f64 {
        self.masks.iter().sum::<Duration>().as_secs_f64() * 1e3
    }
}

/// Walks along a text: computes each mask, looks the token up in it, and accepts it.
pub(super) fn walk(grammar: &dyn Compiled, tokens: &[TokenId]) -> TextWalk {
    let started = Instant::now();
    let mut follower = grammar.start();
    let mut walk = TextWalk { start: started.elapsed(), ..TextWalk::default() };
    for &token in tokens {
        let start = Instant::now();
        let mask = follower.mask();
        walk.masks.push(start.elapsed());
        if let Err(fault) = mask {
            walk.fault = Some(WalkFault::NoMask(fault));
            return walk;
        }
        if !follower.has(token) {
            walk.fault = Some(WalkFault::NotInMask);
            return walk;
        }
        let start = Instant::now();
        if !follower.accept(token) {
            walk.fault = Some(WalkFault::Refused);
            return walk;
        }
        walk.accepts.push(start.elapsed());
    }
    walk.fault = (!follower.may_end()).then_some(WalkFault::Incomplete);
    walk
}

/// This engine.
struct OwnEngine(Compiler);

/// The policy of schemas: instances may have exponents.
fn schema_policy() -> Policy {
    Policy { exponent: true, ..Policy::default() }
}

impl OwnEngine {
    fn new(vocab: &Vocabulary) -> Result<Self> {
        let compiler = Compiler::new(vocab.clone());
        compiler.compile(&Constraint::json_object().with_policy(schema_policy()))?;
        compiler.warm_up();
        Ok(OwnEngine(compiler))
    }
}

impl MaskEngine for OwnEngine {
    fn name(&self) -> &'static str {
        "ffwd"
    }

    fn compile(&mut self, language: &Language) -> Result<Box<dyn Compiled>, String> {
        let builder = Constraint::builder();
        let constraint = match language {
            Language::JsonSchema(schema) => builder.policy(schema_policy()).json_schema(schema),
            Language::Lark(text) => builder.lark(text),
            Language::Gbnf { text, .. } => builder.gbnf(text),
        };
        let grammar = constraint.and_then(|constraint| self.0.compile(&constraint));
        Ok(Box::new(grammar.map_err(|error| error.to_string())?))
    }

    fn is_lazy(&self) -> bool {
        false
    }
}

impl Compiled for CompiledGrammar {
    fn start(&self) -> Box<dyn Follower + '_> {
        Box::new(OwnFollower { matcher: self.matcher(), row: vec![0; self.vocabulary().bitmask_words()] })
    }

    fn bytes(&self) -> Option<usize> {
        Some(self.memory().total())
    }
}

struct OwnFollower {
    matcher: Matcher,
    row: Vec<u32>,
}

impl Follower for OwnFollower {
    fn mask(&mut self) -> Result<(), String> {
        self.matcher.fill_bitmask(&mut self.row);
        Ok(())
    }

    fn has(&self, token: TokenId) -> bool {
        self.row[token as usize / 32] >> (token % 32) & 1 == 1
    }

    fn accept(&mut self, token: TokenId) -> bool {
        self.matcher.accept_token(token).is_ok()
    }

    fn may_end(&mut self) -> bool {
        self.matcher.is_accepting()
    }
}
