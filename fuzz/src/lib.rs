//! Parts that the fuzz targets share: a small vocabulary, choices read from bytes, and a walk
//! through a compiled grammar. At every step the walk checks the properties of all constraints.

pub mod schema;
mod walk;

use std::sync::OnceLock;

use ffwd::{CompiledGrammar, Compiler, Constraint, Error};
use ffwd_testkit::vocab::TestVocab;

pub use walk::Walk;

/// The vocabulary of all targets: every byte, and 200 tokens that cross the boundaries of JSON.
pub fn vocabulary() -> &'static TestVocab {
    static VOCAB: OnceLock<TestVocab> = OnceLock::new();
    VOCAB.get_or_init(|| TestVocab::new(7, 200, &[]))
}

/// Bytes of a grammar's tables, few enough that long runs rebuild them now and then.
const TABLES: usize = 16 << 20;

/// One compiler for all inputs; its base grammar is made once.
pub fn compiler() -> &'static Compiler {
    static COMPILER: OnceLock<Compiler> = OnceLock::new();
    COMPILER.get_or_init(|| Compiler::new(vocabulary().vocab.clone()).with_table_limit(TABLES))
}

/// Compiles what parsed. An error must say something, and its text must be printable.
pub fn compile(constraint: Result<Constraint, Error>) -> Option<CompiledGrammar> {
    match constraint.and_then(|c| compiler().compile(&c)) {
        Ok(grammar) => Some(grammar),
        Err(error) => {
            assert!(!error.message().is_empty() && !error.to_string().is_empty());
            None
        }
    }
}

/// The text of an input and, after its first zero byte, the script of the walk.
pub fn text_and_script(data: &[u8]) -> (Option<&str>, &[u8]) {
    let end = data.iter().position(|&b| b == 0).unwrap_or(data.len());
    (std::str::from_utf8(&data[..end]).ok(), data.get(end + 1..).unwrap_or_default())
}

/// Parses, compiles and walks, as every target for texts does.
pub fn try_text(data: &[u8], parse: impl Fn(&str) -> Result<Constraint, Error>) {
    let (Some(text), script) = text_and_script(data) else { return };
    if let Some(grammar) = compile(parse(text)) {
        Walk::new(&grammar).follow(&mut Bytes::new(script), 64);
    }
}

/// As [`try_text`], for grammars that are not known to be slow: ambiguous ones cost a power of the
/// length and of the counts of their repetitions (see `ffwd::constraint::grammar`), so the counts
/// and the walk are kept small.
pub fn try_grammar(data: &[u8], parse: impl Fn(&str) -> Result<Constraint, Error>) {
    let (Some(text), script) = text_and_script(data) else { return };
    let counts = text.split(|c: char| !c.is_ascii_digit()).filter(|n| n.parse::<u64>().is_ok_and(|n| n > 9));
    let few = counts.count() == 0;
    if let Some(grammar) = compile(parse(text)).filter(|_| few) {
        Walk::new(&grammar).follow(&mut Bytes::new(script), 24);
    }
}

/// Choices read from a byte string; zeros after its end.
pub struct Bytes<'a> {
    data: &'a [u8],
}

impl<'a> Bytes<'a> {
    pub fn new(data: &'a [u8]) -> Self {
        Bytes { data }
    }

    pub fn is_empty(&self) -> bool {
        self.data.is_empty()
    }

    pub fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.data.split_first() else { return 0 };
        self.data = rest;
        first
    }

    /// A number below `n`, which is not 0; two bytes where one is not enough.
    pub fn below(&mut self, n: usize) -> usize {
        let high = if n > 256 { usize::from(self.byte()) << 8 } else { 0 };
        (high | usize::from(self.byte())) % n
    }

    pub fn pick<'b, T>(&mut self, list: &'b [T]) -> &'b T {
        &list[self.below(list.len())]
    }

    /// The bytes that are left.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.data)
    }
}
