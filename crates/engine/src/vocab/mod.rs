//! Vocabulary of a tokenizer: token bytes, special tokens, the byte trie and base masks.
//!
//! Everything the engine needs from a tokenizer is computed once here and shared through an
//! [`Arc`]: cloning a [`Vocabulary`] copies a pointer. Special tokens have no bytes, so no
//! constraint matches them as text (but see [`Vocabulary::with_markers`]). Ids between
//! [`Vocabulary::len`] and [`Vocabulary::logits_size`] (padded logits) have no bytes either and
//! stay masked.
//!
//! # Cost
//!
//! Loading the 128k-token vocabulary of Llama 3 takes a few hundred milliseconds, most of them in
//! the tokenizer's own parser.

mod byte_classes;
mod encode_cache;
mod from_tokens;
#[doc(hidden)]
pub mod gguf;
mod markers;
mod node_sets;
mod ranked;
mod sentencepiece;
mod slices;
mod string_tokens;
mod tekken;
mod texts;
mod token_bytes;
mod token_table;
mod trie;
#[doc(hidden)]
pub mod turn_marks;

use std::cmp::Reverse;
use std::io::Read;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use rustc_hash::FxHashSet;
use serde_json::Value;
use tokenizers::{Model, ModelWrapper, Tokenizer};

use crate::error::{Error, ErrorKind, Place, Result};
use crate::text::bytes_without_mark;
pub(crate) use byte_classes::{ClassSet, Classes, each as each_class, has_plain};
use encode_cache::EncodeCache;
pub(crate) use node_sets::{NodeSets, Siblings};
pub(crate) use slices::{Slice, SliceKind};
use string_tokens::{Separators, StringTokens};
pub use token_bytes::{TokenId, TokenSpelling};
use token_table::{TokenTable, TokenTableBuilder};
pub(crate) use trie::{ByteGroups, byte_group, byte_set};
pub use trie::{Trie, TrieNode};

/// A tokenizer's vocabulary, prepared for constraints. Cheap to clone.
///
/// ```
/// # fn main() -> ffwd_engine::Result<()> {
/// # let tokenizer = include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/../runtime/assets/extract-5m/tokenizer.json"));
/// use ffwd_engine::Vocabulary;
///
/// // Usually `Vocabulary::from_file("tokenizer.json")?`.
/// let vocab = Vocabulary::from_bytes(tokenizer)?;
/// let tokens = vocab.encode("a date")?;
/// assert_eq!(vocab.decode(&tokens), b"a date");
/// assert_eq!(vocab.bitmask_words(), vocab.logits_size().div_ceil(32));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Vocabulary {
    inner: Arc<VocabularyInner>,
    bos: Arc<[TokenId]>,
    eos: Arc<[TokenId]>,
    logits_size: usize,
}

struct VocabularyInner {
    tokenizer: Tokenizer,
    /// What encodes texts of an output.
    encoder: Encoder,
    spelling: TokenSpelling,
    /// The same tokenizer reading special tokens as text, created when a text first contains one.
    literal: OnceLock<Tokenizer>,
    /// Tokens of texts that were encoded for drafts.
    memo: EncodeCache,
    /// The bytes of all tokens.
    tokens: Arc<TokenTable>,
    special: FxHashSet<TokenId>,
    special_texts: Vec<String>,
    /// Special tokens of the tokenizer file that are treated as text.
    made_text: Vec<String>,
    /// The tokenizer that gives `made_text` no meaning, created when input text first contains one
    /// of them.
    outside: OnceLock<Tokenizer>,
    /// True if the tokenizer searches for special tokens in the normalised text, so that other
    /// characters than a token's own can produce it.
    normalises_special: bool,
    /// Bytes that are tokens by themselves.
    alphabet: [bool; 256],
    /// Number of tokens left out because they contain bytes outside the alphabet.
    unreachable: usize,
    trie: Trie,
    slices: Vec<Slice>,
    /// The rest is made at its first use.
    node_sets: OnceLock<NodeSets>,
    classes: OnceLock<Classes>,
    quoted: OnceLock<StringTokens>,
    max_token_len: usize,
    /// All tokens with their numbers of characters, longest first.
    by_length: OnceLock<Vec<(usize, TokenId)>>,
}

/// A function of the caller that tokenises a text.
type EncodeText = dyn Fn(&str) -> Result<Vec<TokenId>> + Send + Sync;

/// What encodes texts.
enum Encoder {
    /// The tokenizer.
    Tokenizer,
    /// The tokens alone, the longest first: the tokenizer knows bytes only, and no merges.
    Longest,
    /// A function.
    Function(Box<EncodeText>),
}

impl std::fmt::Debug for Vocabulary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Vocabulary")
            .field("len", &self.len())
            .field("logits_size", &self.logits_size)
            .finish()
    }
}

impl Vocabulary {
    /// Loads a `tokenizer.json`, a `tekken.json`, a SentencePiece model (`tokenizer.model`) or the
    /// tokenizer of a GGUF file, of which no more is read. End tokens come from
    /// `generation_config.json` and `tokenizer_config.json` in the same folder, or else from the file;
    /// from a GGUF file alone.
    ///
    /// # Errors
    /// Fails if the file cannot be read, or is not a tokenizer whose tokens have known bytes.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let text = read_file(path).map_err(|e| Error::io(path, &e))?;
        let vocab = Self::from_bytes(&text).map_err(|e| e.at(Place::File(path.into())))?;
        if gguf::is_gguf(&text) {
            return Ok(vocab);
        }
        let eos = eos_beside(path, &vocab);
        Ok(if eos.is_empty() { vocab } else { vocab.with_eos(eos) })
    }

    /// Builds a vocabulary from the content of a `tokenizer.json`, of a `tekken.json`, of a
    /// SentencePiece model or of a GGUF file. For a `tokenizer.json` the end token is guessed from the usual names
    /// (`<|im_end|>`, `<|eot_id|>`, `</s>`, ...).
    ///
    /// # Errors
    /// Fails if the text is not a tokenizer, or is one whose token bytes cannot be known
    /// (WordPiece).
    pub fn from_bytes(content: &[u8]) -> Result<Self> {
        let fail = |m: String| Error::new(ErrorKind::Tokenizer, m);
        if gguf::is_gguf(content) {
            return Self::from_gguf(content);
        }
        let json = bytes_without_mark(content);
        // A SentencePiece model begins with the key of its first piece, which is a line feed.
        let first_black = content.iter().find(|byte| !byte.is_ascii_whitespace());
        if content.first() == Some(&b'\n') && first_black != Some(&b'{') {
            return Self::from_sentencepiece(content);
        }
        let file: Value = serde_json::from_slice(json).map_err(|e| {
            fail(format!("not a tokenizer file: {e}")).hint("a Hugging Face tokenizer.json is expected")
        })?;
        if tekken::is_tekken(&file) {
            return tekken::vocabulary(file);
        }
        let spelling = TokenSpelling::of(&file)
            .map_err(|e| fail(e).hint("use a byte-level BPE, SentencePiece or character tokenizer"))?;
        drop(file);
        Self::from_tokenizer(read(json).map_err(fail)?, spelling)
    }

    /// Builds a vocabulary from a tokenizer and the way its token texts encode bytes.
    ///
    /// # Errors
    /// Fails if the tokenizer has no tokens or too many.
    pub fn from_tokenizer(tokenizer: Tokenizer, spelling: TokenSpelling) -> Result<Self> {
        let inner = Self::inner(tokenizer, spelling)?;
        let eos = guess_eos(&inner.tokenizer, &inner.special);
        let bos = in_front(&inner.tokenizer, &inner.special);
        let logits_size = inner.tokens.len();
        Ok(Vocabulary { inner: Arc::new(inner), bos: bos.into(), eos: eos.into(), logits_size })
    }

    /// Builds a vocabulary whose tokens have other bytes than their texts in the tokenizer say.
    fn from_parts(
        tokenizer: Tokenizer,
        spelling: TokenSpelling,
        table: TokenTableBuilder,
        special: &[TokenId],
        eos: Vec<TokenId>,
    ) -> Self {
        let mut inner = Self::inner_of(tokenizer, spelling, table);
        inner.special = special.iter().copied().collect();
        let logits_size = inner.tokens.len();
        Vocabulary { inner: Arc::new(inner), bos: [].into(), eos: eos.into(), logits_size }
    }

    /// Returns true if texts are encoded as the tokenizer does. False if only the bytes of the
    /// tokens are known: then texts are encoded in the longest tokens.
    pub fn has_tokenizer(&self) -> bool {
        !matches!(self.inner.encoder, Encoder::Longest)
    }

    fn inner(tokenizer: Tokenizer, spelling: TokenSpelling) -> Result<VocabularyInner> {
        let table = texts::token_table(&tokenizer, spelling)?;
        Ok(Self::inner_of(tokenizer, spelling, table))
    }

    fn inner_of(
        tokenizer: Tokenizer,
        spelling: TokenSpelling,
        mut table: TokenTableBuilder,
    ) -> VocabularyInner {
        let mut special = FxHashSet::default();
        let mut special_texts = Vec::new();
        let mut normalises_special = false;
        for (&id, token) in tokenizer.get_added_tokens_decoder().iter().filter(|added| added.1.special) {
            special.insert(id);
            special_texts.push(token.content.clone());
            normalises_special |= token.normalized && tokenizer.get_normalizer().is_some();
        }
        let alphabet = table.alphabet();
        let unreachable = table.keep_only(&alphabet);
        if unreachable > 0 {
            tracing::warn!(unreachable, "tokens left out: some of their bytes are no tokens of their own");
        }
        let tokens = Arc::new(table.finish());
        let trie = tokens.trie();
        let slices = Slice::all(&tokens);
        let max_token_len = tokens.pairs().map(|(b, _)| b.len()).max().unwrap_or(0);
        VocabularyInner {
            tokenizer,
            encoder: Encoder::Tokenizer,
            spelling,
            literal: OnceLock::new(),
            memo: EncodeCache::default(),
            tokens,
            special,
            special_texts,
            made_text: Vec::new(),
            outside: OnceLock::new(),
            normalises_special,
            alphabet,
            unreachable,
            trie,
            slices,
            node_sets: OnceLock::new(),
            classes: OnceLock::new(),
            quoted: OnceLock::new(),
            max_token_len,
            by_length: OnceLock::new(),
        }
    }

    /// Sets the tokens in front of a plain prompt. The default is the tokens that the
    /// post-processor of a `tokenizer.json` adds there, or those that GGUF metadata require.
    pub fn with_bos(mut self, bos: Vec<TokenId>) -> Self {
        self.bos = bos.into_iter().filter(|&t| (t as usize) < self.logits_size).collect();
        self
    }

    /// Returns the tokens in front of a plain prompt, such as a beginning of sequence; usually one
    /// or none.
    pub fn bos(&self) -> &[TokenId] {
        &self.bos
    }

    /// Sets the tokens that end a generation.
    pub fn with_eos(mut self, eos: Vec<TokenId>) -> Self {
        self.eos = eos.into_iter().filter(|&t| (t as usize) < self.logits_size).collect();
        self
    }

    /// Sets the width of the model's logits, in tokens; models often pad their vocabulary.
    ///
    /// # Errors
    /// Fails if `n` is smaller than the vocabulary or unreasonably large.
    pub fn with_logits_size(mut self, n: usize) -> Result<Self> {
        if n < self.len() || n > MAX_TOKENS {
            let message = format!("logits of width {n} do not fit a vocabulary of {} tokens", self.len());
            return Err(Error::new(ErrorKind::Tokenizer, message)
                .hint("use the tokenizer the model was trained with"));
        }
        self.logits_size = n;
        Ok(self)
    }

    /// Returns true if both share one loaded tokenizer. End tokens and logits width may differ.
    pub(crate) fn is_same(&self, other: &Vocabulary) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// Returns the number of ids known to the tokenizer (highest id + 1).
    pub fn len(&self) -> usize {
        self.inner.tokens.len()
    }

    /// Returns true if there are no tokens. Never the case; exists because of `len`.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the width of the model's logits, in tokens.
    pub fn logits_size(&self) -> usize {
        self.logits_size
    }

    /// Returns the number of `u32` words in a bitmask row: `ceil(logits_size / 32)`.
    pub fn bitmask_words(&self) -> usize {
        self.logits_size.div_ceil(32)
    }

    /// Returns the bytes of a token; empty for special and unknown ids.
    #[inline]
    pub fn token_bytes(&self, id: TokenId) -> &[u8] {
        self.inner.tokens.token(id)
    }

    /// Returns true if the token is special, that is, never text.
    pub fn is_special(&self, id: TokenId) -> bool {
        self.inner.special.contains(&id)
    }

    /// Returns the tokens that end a generation; may be empty.
    pub fn eos(&self) -> &[TokenId] {
        &self.eos
    }

    /// Returns true if other characters than a special token's own can produce it.
    pub fn normalises_special_tokens(&self) -> bool {
        self.inner.normalises_special
    }

    /// Returns the id of a token by its text, special tokens included.
    pub fn token_id(&self, text: &str) -> Option<TokenId> {
        self.inner.tokenizer.token_to_id(text)
    }

    /// Returns the tokenizer's own text of an id, special tokens included.
    pub fn token_text(&self, id: TokenId) -> Option<String> {
        self.inner.tokenizer.id_to_token(id)
    }

    /// Encodes text in which special tokens have no meaning: text of an output, in which
    /// [markers](Self::with_markers) are tokens. For input text see
    /// [`encode_outside`](Self::encode_outside).
    ///
    /// # Errors
    /// Fails if the tokenizer rejects the text.
    pub fn encode(&self, text: &str) -> Result<Vec<TokenId>> {
        match &self.inner.encoder {
            Encoder::Tokenizer => {}
            Encoder::Longest => return self.encode_longest(text),
            Encoder::Function(encode) => return self.checked(encode(text)?),
        }
        let spelled = || self.inner.special_texts.iter().any(|s| text.contains(s.as_str()));
        let tokenizer = if self.inner.normalises_special || spelled() {
            self.inner.literal.get_or_init(|| literal(&self.inner.tokenizer, &self.inner.special_texts))
        } else {
            &self.inner.tokenizer
        };
        encode_with(tokenizer, text)
    }

    /// Refuses tokens that the vocabulary does not have.
    fn checked(&self, tokens: Vec<TokenId>) -> Result<Vec<TokenId>> {
        match tokens.iter().find(|id| **id as usize >= self.len()) {
            Some(id) => {
                let message = format!("a text became the token {id}; there are {} tokens", self.len());
                Err(Error::new(ErrorKind::Tokenizer, message))
            }
            None => Ok(tokens),
        }
    }

    fn encode_longest(&self, text: &str) -> Result<Vec<TokenId>> {
        let (tokens, covered) = self.trie().longest_split(text.as_bytes());
        match text.as_bytes().get(covered) {
            None => Ok(tokens),
            Some(byte) => {
                let message = format!("no token has the byte {byte} of the text");
                Err(Error::new(ErrorKind::Tokenizer, message))
            }
        }
    }

    /// Encodes like [`encode`](Self::encode), for a text that is likely to come again, such as a
    /// forced run. A bounded number of short texts is cached.
    ///
    /// # Errors
    /// Fails if the tokenizer rejects the text.
    pub fn encode_cached(&self, text: &str) -> Result<Arc<[TokenId]>> {
        self.inner.memo.get(text, || self.encode(text))
    }

    /// Encodes trusted text (a chat template) in which special tokens are recognised.
    ///
    /// # Errors
    /// Fails if the tokenizer rejects the text.
    pub fn encode_template(&self, text: &str) -> Result<Vec<TokenId>> {
        encode_with(&self.inner.tokenizer, text)
    }

    /// Returns the byte offsets in `text` at which tokens begin or end, without those inside a
    /// character. They serve spans of whole tokens, see
    /// [`Bounds::Offsets`](crate::constraint::substring::Bounds::Offsets).
    ///
    /// # Errors
    /// Fails if the tokenizer rejects the text or changes it.
    pub fn boundaries(&self, text: &str) -> Result<Vec<usize>> {
        let tokens = self.encode(text)?;
        if self.decode(&tokens) != text.as_bytes() {
            let message = "the tokens of the text do not spell the text itself";
            return Err(Error::new(ErrorKind::Tokenizer, message));
        }
        let ends = tokens.iter().scan(0, |at, &token| {
            *at += self.token_bytes(token).len();
            Some(*at)
        });
        Ok(std::iter::once(0).chain(ends).filter(|&at| text.is_char_boundary(at)).collect())
    }

    /// Returns the bytes of a sequence of tokens; special tokens add none.
    pub fn decode(&self, ids: &[TokenId]) -> Vec<u8> {
        ids.iter().flat_map(|&id| self.token_bytes(id)).copied().collect()
    }

    /// Returns the sets of bytes below the nodes of [`Vocabulary::trie`].
    pub(crate) fn node_sets(&self) -> &NodeSets {
        self.inner.node_sets.get_or_init(|| NodeSets::new(&self.inner.trie))
    }

    /// Builds the tables that are otherwise built when a constraint first needs them.
    pub(crate) fn prepare(&self) {
        self.inner.slices.iter().for_each(Slice::prepare);
        self.node_sets();
        self.classes();
        self.quoted();
    }

    fn quoted(&self) -> &StringTokens {
        self.inner.quoted.get_or_init(|| StringTokens::new(self.inner.tokens.pairs()))
    }

    /// Returns the byte trie of all tokens with bytes.
    pub fn trie(&self) -> &Trie {
        &self.inner.trie
    }

    /// Returns the vocabulary slices, widest first.
    pub(crate) fn slices(&self) -> &[Slice] {
        &self.inner.slices
    }

    /// Returns the bitmaps of tokens by the classes of their bytes.
    pub(crate) fn classes(&self) -> &Classes {
        self.inner.classes.get_or_init(|| Classes::new(self.inner.tokens.pairs(), self.len()))
    }

    /// Returns the JSON strings, escaped and with their quotation marks, that tokens may contain as
    /// a whole.
    pub(crate) fn quoted_strings(&self) -> &Arc<FxHashSet<Box<[u8]>>> {
        &self.quoted().strings
    }

    /// Iterates over the tokens that may contain the end of a property name, a comma, and the whole
    /// name again. With `items` also over those that may do so with an array item.
    pub(crate) fn repeating_tokens(&self, items: bool) -> impl Iterator<Item = TokenId> + '_ {
        let quoted = self.quoted();
        quoted.names.iter().chain(quoted.items.iter().filter(move |_| items)).copied()
    }

    /// Returns the tokens that can end an array item and begin another.
    pub(crate) fn separators(&self) -> &Separators {
        &self.quoted().separators
    }

    /// Returns true if `byte` is a token by itself. Constraints are restricted to such bytes, so a
    /// byte that can come next is always the start of a token that can come next.
    pub fn has_byte(&self, byte: u8) -> bool {
        self.inner.alphabet[byte as usize]
    }

    /// Returns the number of tokens that are never offered because some of their bytes are not
    /// tokens by themselves.
    pub fn unreachable_tokens(&self) -> usize {
        self.inner.unreachable
    }

    /// Returns the tokens of more than a number of characters, longest first. A part of a character
    /// counts as one where it begins it.
    pub(crate) fn longer_than(&self, chars: usize) -> impl Iterator<Item = TokenId> + '_ {
        let by_length = self.inner.by_length.get_or_init(|| {
            let count = |token| self.token_bytes(token).iter().filter(|&&b| begins_char(b)).count();
            let mut all: Vec<(usize, TokenId)> = (0..self.len() as TokenId).map(|t| (count(t), t)).collect();
            all.sort_unstable_by_key(|&(count, token)| (Reverse(count), token));
            all
        });
        by_length.iter().take_while(move |&&(count, _)| count > chars).map(|&(_, token)| token)
    }

    /// Returns the length of the longest token, in bytes.
    pub fn max_token_len(&self) -> usize {
        self.inner.max_token_len
    }
}

/// Returns true if a byte of UTF-8 begins a character.
pub(crate) fn begins_char(b: u8) -> bool {
    b & 0xc0 != 0x80
}

/// Largest accepted vocabulary or logits width.
#[doc(hidden)]
pub const MAX_TOKENS: usize = 1 << 22;

/// Reads a file, of a GGUF file as much as its metadata need.
fn read_file(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut file = std::fs::File::open(path)?;
    let mut content = Vec::new();
    file.by_ref().take(gguf::MAGIC.len() as u64).read_to_end(&mut content)?;
    match gguf::is_gguf(&content) {
        true => gguf::read_metadata(&mut file, &mut content)?,
        false => drop(file.read_to_end(&mut content)?),
    }
    Ok(content)
}

/// Reads a tokenizer. The tokenizers crate indexes some of its tables without checks, so a panic
/// caused by a hostile file is caught here.
fn read(json: &[u8]) -> std::result::Result<Tokenizer, String> {
    std::panic::catch_unwind(|| Tokenizer::from_bytes(json))
        .map_err(|_| "the tokenizer file is inconsistent".to_owned())?
        .map_err(|e| format!("not a tokenizer file: {e}"))
}

/// Returns the tokenizer that gives special tokens no meaning.
fn literal(tokenizer: &Tokenizer, special_texts: &[String]) -> Tokenizer {
    let mut literal = tokenizer.clone();
    literal.set_encode_special_tokens(true);
    // A model that has the special tokens itself would take a whole word for one of them.
    if let ModelWrapper::BPE(bpe) = tokenizer.get_model()
        && bpe.ignore_merges
        && special_texts.iter().any(|text| bpe.token_to_id(text).is_some())
    {
        let mut bpe = bpe.clone();
        bpe.ignore_merges = false;
        literal.with_model(bpe);
    }
    literal
}

fn encode_with(tokenizer: &Tokenizer, text: &str) -> Result<Vec<TokenId>> {
    let encoding = tokenizer
        .encode_fast(text, false)
        .map_err(|e| Error::new(ErrorKind::Tokenizer, format!("cannot encode the text: {e}")))?;
    Ok(encoding.get_ids().to_vec())
}

/// Returns the special tokens that the tokenizer puts in front of a text when it adds any.
fn in_front(tokenizer: &Tokenizer, special: &FxHashSet<TokenId>) -> Vec<TokenId> {
    if tokenizer.get_post_processor().is_none() {
        return Vec::new();
    }
    // A file may name tokens here that it does not have; its vocabulary is usable all the same.
    let encode = |add| {
        let encoded =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| tokenizer.encode_fast("a", add)));
        encoded.ok().and_then(Result::ok).map(|e| e.get_ids().to_vec()).unwrap_or_default()
    };
    let (plain, all) = (encode(false), encode(true));
    match all.windows(plain.len().max(1)).position(|w| w == plain) {
        Some(at) if all[..at].iter().all(|id| special.contains(id)) => all[..at].to_vec(),
        _ => Vec::new(),
    }
}

/// Returns the first of the usual end tokens that exists and is special.
fn guess_eos(tokenizer: &Tokenizer, special: &FxHashSet<TokenId>) -> Vec<TokenId> {
    ["<|im_end|>", "<|eot_id|>", "<|end_of_text|>", "</s>", "<|endoftext|>", "<eos>", "<|end|>"]
        .iter()
        .filter_map(|name| tokenizer.token_to_id(name))
        .find(|id| special.contains(id))
        .into_iter()
        .collect()
}

/// Returns the end tokens named by the configuration files next to a tokenizer.
fn eos_beside(path: &Path, vocab: &Vocabulary) -> Vec<TokenId> {
    let read = |name: &str| -> Option<Value> {
        serde_json::from_slice(bytes_without_mark(&std::fs::read(path.with_file_name(name)).ok()?)).ok()
    };
    let mut eos = Vec::new();
    if let Some(config) = read("generation_config.json") {
        match &config["eos_token_id"] {
            Value::Number(n) => eos.extend(n.as_u64()),
            Value::Array(list) => eos.extend(list.iter().filter_map(Value::as_u64)),
            _ => {}
        }
    }
    // The two files often disagree.
    if let Some(config) = read("tokenizer_config.json") {
        let name = config["eos_token"].as_str().or(config["eos_token"]["content"].as_str());
        let id = name.and_then(|n| vocab.token_id(n)).map(u64::from);
        eos.extend(id.filter(|id| !eos.contains(id)));
    }
    let known = |id: u64| u32::try_from(id).ok().filter(|&id| (id as usize) < vocab.len());
    eos.into_iter().filter_map(known).collect()
}
