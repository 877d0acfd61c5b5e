//! Small vocabularies built for the tests: byte-level, with tokens that cross every boundary of
//! JSON.

use std::collections::{BTreeSet, HashSet};

use ffwd_engine::{CompiledGrammar, Compiler, Matcher, TokenId, Vocabulary};
use serde_json::{Map, Value, json};

use super::random::Random;

/// A vocabulary and, independently of it, the bytes of its tokens by id (none: special).
pub struct TestVocab {
    pub vocab: Vocabulary,
    pub tokens: Vec<Vec<u8>>,
    pub eos: Vec<u32>,
    pub alphabet: [bool; 256],
}

const PIECES: &[&[u8]] = &[
    b"{\"",
    b"\"}",
    b"\":",
    b"\":\"",
    b"\",\"",
    b"\"},{\"",
    b"]}",
    b"[[",
    b"[",
    b"]",
    b"{",
    b"}",
    b"{}",
    b"[]",
    b",",
    b":",
    b"\"",
    b"\"",
    b"\"\"",
    b" ",
    b"\n",
    b"\t",
    b"  ",
    b"0",
    b"1",
    b"12",
    b"-",
    b"-1",
    b".5",
    b".",
    b"e+",
    b"E",
    b"null",
    b"tru",
    b"true",
    b"e",
    b"ull",
    b"false",
    b"\\n",
    b"\\u00",
    b"\\u",
    b"\\",
    b"\\\"",
    b"\\\\",
    b"1f",
    b"u0",
    b"0001",
    b"a",
    b"b",
    b"c",
    b"ab",
    b"abc",
    b"type",
    b"\xc3\xa9",
    b"\xc3",
    b"\xa9",
    b"\xe6\xbc",
    b"\xa2",
    b"\xe6\xbc\xa2",
    b"\xf0\x9f",
    b"\x98\x80",
    b"\xf0\x9f\x98\x80",
    b"\xed\xa0\x80",
    b"\xff",
    b"(",
    b")",
    b"x",
    b"xx",
    b"a\":",
    b"\":1",
    b"\x01",
    b"\x7f",
];

/// The character that represents a byte in byte-level tokenizer files.
fn symbol(byte: u8) -> char {
    let plain = |b: u8| (0x21..=0x7e).contains(&b) || (0xa1..=0xac).contains(&b) || b >= 0xae;
    if plain(byte) {
        return char::from(byte);
    }
    let rank = (0..byte).filter(|&b| !plain(b)).count() as u32;
    char::from_u32(0x100 + rank).expect("below the surrogates")
}

impl TestVocab {
    /// All bytes but those in `without`, and about `extra` longer tokens.
    pub fn new(seed: u64, extra: usize, without: &[u8]) -> Self {
        let mut random = Random::new(seed);
        let mut tokens: Vec<Vec<u8>> = Vec::new();
        let mut alphabet = [false; 256];
        for b in (0..=255u8).filter(|b| !without.contains(b)) {
            alphabet[b as usize] = true;
            tokens.push(vec![b]);
        }
        let mut known: HashSet<Vec<u8>> = tokens.iter().cloned().collect();
        for round in 0..extra * 3 {
            let count = if round < PIECES.len() { 1 } else { 1 + random.below(4) };
            let mut token = Vec::new();
            for at in 0..count {
                let piece =
                    if count == 1 { PIECES[(round + at) % PIECES.len()] } else { random.pick(PIECES) };
                token.extend_from_slice(piece);
            }
            if tokens.len() < 256 + extra
                && token.iter().all(|&b| alphabet[b as usize])
                && known.insert(token.clone())
            {
                tokens.push(token);
            }
        }
        let mut entries = Map::new();
        for (id, token) in tokens.iter().enumerate() {
            entries.insert(token.iter().map(|&b| symbol(b)).collect(), json!(id));
        }
        // Added tokens are written as they are, not byte by byte, so these repeat bytes known
        // above.
        let mut added = Vec::new();
        let mut add = |text: &str, special: bool, tokens: &mut Vec<Vec<u8>>| {
            added.push(json!({
                "id": tokens.len(), "content": text, "special": special, "single_word": false,
                "lstrip": false, "rstrip": false, "normalized": false,
            }));
            tokens.push(if special { vec![] } else { text.as_bytes().to_vec() });
        };
        if without.is_empty() {
            add(" ", false, &mut tokens);
            add("\n", false, &mut tokens);
            add("\": ", false, &mut tokens);
        }
        for special in ["<|end|>", "<|stop|>", "{}<|pad|>"] {
            add(special, true, &mut tokens);
        }
        let level =
            json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true});
        let file: Value = json!({
            "version": "1.0", "truncation": null, "padding": null, "added_tokens": added,
            "normalizer": null, "pre_tokenizer": level, "post_processor": null, "decoder": level,
            "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": "",
                "end_of_word_suffix": "", "fuse_unk": false, "vocab": entries, "merges": []},
        });
        let eos = vec![tokens.len() as u32 - 3, tokens.len() as u32 - 2];
        let vocab = Vocabulary::from_bytes(file.to_string().as_bytes())
            .expect("a well-formed tokenizer")
            .with_eos(eos.clone())
            .with_logits_size(tokens.len() + 37)
            .expect("larger than the vocabulary");
        for (id, token) in tokens.iter().enumerate() {
            assert_eq!(vocab.token_bytes(id as u32), &token[..], "bytes of token {id}");
        }
        tokens.resize(vocab.logits_size(), vec![]);
        TestVocab { vocab, tokens, eos, alphabet }
    }
}

/// A test vocabulary with its compiler.
pub struct Setting {
    pub words: TestVocab,
    pub compiler: Compiler,
}

impl Setting {
    /// As [`TestVocab::new`].
    pub fn new(seed: u64, extra: usize, without: &[u8]) -> Self {
        let words = TestVocab::new(seed, extra, without);
        let compiler = Compiler::new(words.vocab.clone());
        Setting { words, compiler }
    }
}

/// Texts byte by byte.
impl TestVocab {
    /// The matcher after a text, if it can be the beginning of an output.
    pub fn after(&self, grammar: &CompiledGrammar, text: &[u8]) -> Option<Matcher> {
        let mut matcher = grammar.matcher();
        text.iter().all(|&b| matcher.accept_token(self.byte(b)).is_ok()).then_some(matcher)
    }

    /// Whether a text is an output.
    pub fn accepts(&self, grammar: &CompiledGrammar, text: &str) -> bool {
        self.after(grammar, text.as_bytes()).is_some_and(|matcher| matcher.is_accepting())
    }

    /// The token of a byte.
    pub fn byte(&self, byte: u8) -> TokenId {
        self.tokens.iter().position(|t| t[..] == [byte]).expect("all bytes are tokens") as TokenId
    }
}

/// Whether a text is an output of a grammar, byte by byte; the first 256 tokens must be the bytes.
pub fn accepts(grammar: &CompiledGrammar, text: &str) -> bool {
    let mut matcher = grammar.matcher();
    text.bytes().all(|b| matcher.accept_token(b.into()).is_ok()) && matcher.is_accepting()
}

/// Whether the bit of a token is set in a packed row.
pub fn is_set(row: &[u32], token: TokenId) -> bool {
    row[token as usize / 32] >> (token % 32) & 1 == 1
}

/// The legal tokens as the packed row says, and the row that is lent.
pub fn row(matcher: &mut Matcher) -> BTreeSet<TokenId> {
    let mut row = vec![0xdead_beef; matcher.vocabulary().bitmask_words()];
    matcher.fill_bitmask(&mut row);
    let bits: BTreeSet<TokenId> = (0..row.len() as u32 * 32).filter(|&t| is_set(&row, t)).collect();
    let lent = matcher.bitmask();
    assert_eq!(lent.count(), bits.len());
    assert!(bits.iter().all(|&t| lent.contains(t)));
    bits
}
