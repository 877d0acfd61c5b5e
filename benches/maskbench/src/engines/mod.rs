//! The engines, one in each file, and their common input.

mod ffwd;
#[cfg(feature = "llguidance")]
mod llguidance;

use std::time::Instant;

use ffwd_engine::{TokenId, Vocabulary};
use ffwd_testkit::data::{self, Entry};

use crate::options::Args;
use crate::report::Outcome;

/// Makes an engine.
pub type Make = fn(&Args, &Vocabulary) -> Result<Box<dyn MaskEngine>, String>;

/// The engines of this package, by the names of `--engine`.
pub const ENGINES: &[(&str, Make)] = &[
    ("ffwd", |_, vocab| Ok(Box::new(ffwd::Ffwd::new(vocab.clone())?))),
    #[cfg(feature = "llguidance")]
    ("llguidance", |options, vocab| Ok(Box::new(llguidance::LlGuidance::new(options, vocab)?))),
];

/// Milliseconds since then.
pub fn ms(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}

/// An engine under measurement.
pub trait MaskEngine {
    /// Its version and its options, in words.
    fn settings(&self) -> String;
    /// Compiles the schema, then follows every instance.
    fn run(&mut self, prepared: &Prepared) -> Outcome;
}

/// A schema with its instances in tokens.
pub struct Prepared<'a> {
    pub id: &'a str,
    pub schema: &'a str,
    pub instances: Vec<TokenizedInstance>,
    /// Instances left out: their text is no Unicode, so no vocabulary of text can spell it.
    pub unspellable: usize,
}

/// An instance in tokens.
pub struct TokenizedInstance {
    pub tokens: Vec<TokenId>,
    pub valid: bool,
    /// Whether one of its numbers has more digits than ffwd's policy allows.
    pub long_number: bool,
}

impl<'a> Prepared<'a> {
    pub(crate) fn new(entry: &'a Entry, vocab: &Vocabulary) -> Result<Self, String> {
        let cap = usize::from(ffwd::policy().max_integer_digits);
        let mut instances = Vec::new();
        for test in &entry.tests {
            if let Some(text) = data::canonical(&test.data) {
                let tokens = vocab.encode(&text).map_err(|e| e.to_string())?;
                let (integer, fraction) = data::longest_digits(&text);
                let long_number = integer > cap || fraction > cap;
                instances.push(TokenizedInstance { tokens, valid: test.valid, long_number });
            }
        }
        let unspellable = entry.tests.len() - instances.len();
        Ok(Prepared { id: &entry.id, schema: &entry.schema, instances, unspellable })
    }
}
