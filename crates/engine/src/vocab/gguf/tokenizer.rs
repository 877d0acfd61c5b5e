//! The tokenizer in the metadata of a GGUF file.
//!
//! Two kinds are read. `gpt2` is byte-level BPE with a list of merges and the name of a
//! pre-tokenizer. `llama` is SentencePiece BPE with scores and bytes as fallback. They become the
//! same tokenizer, made of the same parts, as from a `tokenizer.json` of the same model, so both
//! give the same tokens. A tokenizer that cannot be represented exactly is refused, not
//! approximated: with other tokens than in its training a model gets worse without an error. Sizes
//! are bounded before memory is taken.
//!
//! # Cost
//!
//! About the cost of reading a `tokenizer.json`.
//!
//! # Alternatives considered
//!
//! Writing a `tokenizer.json` and parsing it again was rejected. It doubles the work, and errors
//! would name positions that no file has.

use serde_json::{Value, json};
use tokenizers::models::bpe::{BPE, Merges, Vocab};
use tokenizers::{AddedToken, NormalizerWrapper, PreTokenizerWrapper, Tokenizer};

use super::metadata::{Cursor, Metadata, TEMPLATE};
use crate::error::{Error, ErrorKind, Result};
use crate::vocab::sentencepiece::{ListNames, Piece, SPACE, merges};
use crate::vocab::turn_marks::{self, BEGINS};
use crate::vocab::{TokenSpelling, Vocabulary};

/// Maximum number of tokens.
const MAX_TOKENS: u64 = 1 << 20;
/// Maximum number of merges.
const MAX_MERGES: u64 = 1 << 21;
/// Maximum number of bytes of all tokens together, and of all merges.
const MAX_TEXT: u64 = 1 << 26;
/// Maximum number of tokens that are matched in texts before anything else; [`MAX_ADDED_TEXT`]
/// limits their bytes.
const MAX_ADDED: usize = 1 << 16;
const MAX_ADDED_TEXT: usize = 1 << 20;

const MODEL: &str = "tokenizer.ggml.model";
const PRE: &str = "tokenizer.ggml.pre";
const ADD_BOS: &str = "tokenizer.ggml.add_bos_token";
const BOS: &str = "tokenizer.ggml.bos_token_id";
const TOKENS: &str = "tokenizer.ggml.tokens";
const TYPES: &str = "tokenizer.ggml.token_type";
const MERGES: &str = "tokenizer.ggml.merges";
const SCORES: &str = "tokenizer.ggml.scores";
const ADD_SPACE: &str = "tokenizer.ggml.add_space_prefix";

/// The pattern by which GPT-2 cuts a text into words.
const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
/// Llama 3: a line break ends a word, and up to three digits are one.
const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
/// Qwen2: the same with single digits.
const QWEN2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
/// Qwen3.5: the same, and marks belong to words.
const QWEN35: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
/// GPT-4o: letters are cut where lower case ends and upper case begins, with a contraction at the end.
const GPT4O: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
/// A single digit, or another character that is a number.
const DIGIT: &str = r"\p{N}";

/// The pre-tokenizer of a name in [`PRE`].
struct PreTokenizer {
    /// Each pattern cuts the pieces of the one before it, at its matches and between them.
    patterns: &'static [&'static str],
    /// True if a word that is a token is encoded as that token, whatever the merges give.
    ignore_merges: bool,
    /// True if texts are brought into composed form (NFC).
    composed: bool,
}

fn pre_tokenizer(name: &str) -> Option<PreTokenizer> {
    let plain = |patterns| PreTokenizer { patterns, ignore_merges: false, composed: false };
    Some(match name {
        "gpt-2" | "phi-2" => plain(&[GPT2]),
        // The name that a converter writes if it does not recognise the pre-tokenizer.
        "default" => plain(&[r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]"]),
        "smollm" | "starcoder" | "refact" => plain(&[DIGIT, GPT2]),
        "llama-bpe" | "llama3" | "llama-v3" | "lfm2" => {
            PreTokenizer { ignore_merges: true, ..plain(&[LLAMA3]) }
        }
        // OLMo 2 and Phi-4 have the pattern of Llama 3, but merges decide.
        "dbrx" => plain(&[LLAMA3]),
        "gpt-4o" | "llama4" => plain(&[GPT4O]),
        "qwen2" | "deepseek-r1-qwen" => PreTokenizer { composed: true, ..plain(&[QWEN2]) },
        "qwen35" => PreTokenizer { composed: true, ..plain(&[QWEN35]) },
        _ => return None,
    })
}

/// The control tokens of Phi-3 that leave the white space after them.
const KEEPING: [&str; 3] = ["<unk>", "<s>", "<|endoftext|>"];

/// The type of a token, as numbered in the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TokenKind {
    Normal,
    /// Unknown text or a control token: never text.
    Special,
    /// Text that is a token wherever it occurs.
    UserDefined,
    Unused,
    Byte,
}

/// The metadata and the file that has their lists.
struct Source<'a> {
    metadata: &'a Metadata,
    data: &'a [u8],
}

impl Vocabulary {
    /// Reads the tokenizer of the metadata of a GGUF file, with the end tokens of the metadata. `data`
    /// is the file, or its beginning with all of the metadata.
    ///
    /// # Errors
    /// Fails if the file has no tokenizer, one of another kind, or one that contradicts itself.
    #[doc(hidden)]
    pub fn from_gguf_metadata(metadata: &Metadata, data: &[u8]) -> Result<Self> {
        Source { metadata, data }.vocabulary()
    }

    /// Reads the tokenizer of a GGUF file in memory.
    pub(crate) fn from_gguf(content: &[u8]) -> Result<Self> {
        let (metadata, _) = Metadata::read(&mut Cursor::new(content))?;
        Self::from_gguf_metadata(&metadata, content)
    }
}

impl Source<'_> {
    /// Reads the tokenizer of the metadata.
    fn vocabulary(&self) -> Result<Vocabulary> {
        let kind = self.metadata.text(MODEL).map(str::to_owned);
        let (tokenizer, spelling) = match kind.as_deref() {
            Some("gpt2") => (self.byte_level()?, TokenSpelling::ByteLevel),
            Some("llama") => (self.sentence_piece()?, TokenSpelling::SentencePiece),
            Some(other) => return Err(unsupported(format!("`{MODEL}` is `{}`", other.escape_debug()))),
            None => return Err(lacks(MODEL)),
        };
        let vocabulary = Vocabulary::from_tokenizer(tokenizer, spelling)?;
        let bos = self.bos(spelling, &vocabulary)?;
        let (ends, unknown): (Vec<u32>, Vec<u32>) =
            self.metadata.ends()?.into_iter().partition(|&id| (id as usize) < vocabulary.len());
        for id in unknown {
            tracing::warn!("the file names the token {id} as an end, which it does not have");
        }
        let vocabulary = vocabulary.with_bos(bos);
        Ok(if ends.is_empty() { vocabulary } else { vocabulary.with_eos(ends) })
    }

    /// Returns the token before a prompt, if any. Where a file has no entry, the kind of tokenizer
    /// decides.
    fn bos(&self, spelling: TokenSpelling, vocabulary: &Vocabulary) -> Result<Vec<u32>> {
        let piece = matches!(spelling, TokenSpelling::SentencePiece);
        let llama3 = matches!(self.metadata.text(PRE), Some("llama-bpe" | "llama3" | "llama-v3" | "lfm2"));
        if !self.metadata.flag(ADD_BOS)?.unwrap_or(piece || llama3) {
            return Ok(Vec::new());
        }
        let named = self.metadata.optional(BOS)?.or(piece.then_some(1)).and_then(|id| u32::try_from(id).ok());
        let begin = || BEGINS.iter().find_map(|text| vocabulary.token_id(text));
        let id = named.filter(|&id| (id as usize) < vocabulary.len()).or_else(begin);
        if id != named || !id.is_some_and(|id| vocabulary.is_special(id)) {
            tracing::warn!(
                "`{BOS}` names no special token to begin a prompt, but {named:?}; {id:?} is taken"
            );
        }
        Ok(id.into_iter().collect())
    }

    /// Builds a byte-level BPE tokenizer.
    fn byte_level(&self) -> Result<Tokenizer> {
        let name = self.metadata.text(PRE).ok_or_else(|| lacks(PRE))?;
        let pre = pre_tokenizer(name)
            .ok_or_else(|| unsupported(format!("the pre-tokenizer `{}` of `{PRE}`", name.escape_debug())))?;
        let tokens = self.tokens()?;
        let vocab = tokens.vocab()?;
        let merges = self
            .metadata
            .string_list(self.data, MERGES, MAX_MERGES, MAX_TEXT)?
            .ok_or_else(|| lacks(MERGES))?;
        let pairs = pairs(&merges, tokens.longest())?;
        let bpe = BPE::builder().vocab_and_merges(vocab, pairs).ignore_merges(pre.ignore_merges).build();
        // The builder looks up every merge. Only if it fails, the faulty one is searched again.
        let bpe = bpe.map_err(|e| tokens.faulty_merge(&merges).unwrap_or_else(|| inconsistent(e)))?;
        let mut tokenizer = Tokenizer::new(bpe);
        if pre.composed {
            let normalizer: NormalizerWrapper = part(json!({ "type": "NFC" }))?;
            tokenizer.with_normalizer(Some(normalizer)).map_err(inconsistent)?;
        }
        let split = |p: &&str| json!({ "type": "Split", "pattern": { "Regex": p }, "behavior": "Isolated", "invert": false });
        let bytes = json!({ "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false });
        let parts: Vec<Value> = pre.patterns.iter().map(split).chain([bytes]).collect();
        let cut: PreTokenizerWrapper = part(json!({ "type": "Sequence", "pretokenizers": parts }))?;
        tokenizer.with_pre_tokenizer(Some(cut));
        tokens.add_to(&mut tokenizer)?;
        Ok(tokenizer)
    }

    /// Builds a SentencePiece BPE tokenizer.
    fn sentence_piece(&self) -> Result<Tokenizer> {
        let mut tokens = self.tokens()?;
        tokens.strips = self.metadata.text("general.architecture") == Some("phi3");
        let vocab = tokens.vocab()?;
        let scores =
            self.metadata.number_list(self.data, SCORES, MAX_TOKENS)?.ok_or_else(|| lacks(SCORES))?;
        same_length(SCORES, scores.len(), tokens.texts.len())?;
        if let Some(byte) = (0..=255u8).find(|b| {
            !vocab
                .get(&format!("<0x{b:02X}>"))
                .is_some_and(|&id| tokens.kinds[id as usize] == TokenKind::Byte)
        }) {
            return Err(fault(format!("`{TOKENS}` has no token for the byte 0x{byte:02X}")));
        }
        let all = tokens.texts.iter().zip(&tokens.kinds).zip(scores);
        let pieces: Vec<Piece> = all
            .filter(|((text, kind), _)| **kind == TokenKind::Normal && !text.is_empty())
            .map(|((text, _), score)| Piece { text, score })
            .collect();
        let names = ListNames { pieces: TOKENS, scores: SCORES };
        let merges = merges(&pieces, names).map_err(|e| e.hint(HINT))?;
        // Needs no token for unknown text: every byte has a token.
        let bpe = BPE::builder().vocab_and_merges(vocab, merges).byte_fallback(true).build();
        let mut tokenizer = Tokenizer::new(bpe.map_err(inconsistent)?);
        let spaces = json!({ "type": "Replace", "pattern": { "String": " " }, "content": SPACE });
        let mut steps = vec![spaces];
        if self.metadata.flag(ADD_SPACE)?.unwrap_or(true) {
            steps.insert(0, json!({ "type": "Prepend", "prepend": SPACE }));
        }
        let normalizer: NormalizerWrapper = part(json!({ "type": "Sequence", "normalizers": steps }))?;
        tokenizer.with_normalizer(Some(normalizer)).map_err(inconsistent)?;
        tokens.add_to(&mut tokenizer)?;
        Ok(tokenizer)
    }

    fn tokens(&self) -> Result<Tokens<'_>> {
        let texts = self
            .metadata
            .string_list(self.data, TOKENS, MAX_TOKENS, MAX_TEXT)?
            .ok_or_else(|| lacks(TOKENS))?;
        let kinds = self.metadata.number_list(self.data, TYPES, MAX_TOKENS)?.unwrap_or_else(|| {
            tracing::warn!("the GGUF metadata lack `{TYPES}`; the texts of tokens decide");
            let is_byte = |text: &&str| text.len() == 6 && text.starts_with("<0x");
            texts.iter().map(|text| if is_byte(text) { 6.0 } else { 1.0 }).collect()
        });
        same_length(TYPES, kinds.len(), texts.len())?;
        let kind = |(i, &n): (usize, &f64)| match n {
            1.0 => Ok(TokenKind::Normal),
            2.0 | 3.0 => Ok(TokenKind::Special),
            4.0 => Ok(TokenKind::UserDefined),
            5.0 => Ok(TokenKind::Unused),
            6.0 => Ok(TokenKind::Byte),
            _ => Err(fault(format!("entry {i} of `{TYPES}` is {n}; 1 to 6 are known"))),
        };
        let mut kinds: Vec<TokenKind> = kinds.iter().enumerate().map(kind).collect::<Result<_>>()?;
        // Some converters write the marks of turns as text, so that they would be cut into pieces.
        let templates: Vec<&str> = self.metadata.texts(TEMPLATE).map(|(_, source)| source).collect();
        let known: Vec<&str> = turn_marks::known().collect();
        let mut named = self.metadata.ends()?;
        named.extend(self.metadata.optional(BOS)?.and_then(|id| u32::try_from(id).ok()));
        for (id, (text, kind)) in texts.iter().zip(&mut kinds).enumerate() {
            let is_text = matches!(kind, TokenKind::Normal | TokenKind::Unused);
            let is_tag = || text.starts_with('<') && text.ends_with('>');
            let is_written = || turn_marks::is_mark(text) && templates.iter().any(|t| t.contains(text));
            if is_text && (named.contains(&(id as u32)) && is_tag() || is_written())
                || !matches!(kind, TokenKind::Special | TokenKind::Byte) && known.contains(text)
            {
                tracing::warn!("`{TYPES}` says that {text} is text; it is read as a special token");
                *kind = TokenKind::Special;
            }
        }
        Ok(Tokens { texts, kinds, strips: false })
    }
}

/// The tokens of a file with their types.
struct Tokens<'a> {
    texts: Vec<&'a str>,
    kinds: Vec<TokenKind>,
    /// True if control tokens take the white space after them, except those of [`KEEPING`]. The
    /// tokenizers of Phi-3 do, and their GGUF files do not say so.
    strips: bool,
}

impl Tokens<'_> {
    /// Returns ids by text. Unused and empty entries are no tokens.
    fn vocab(&self) -> Result<Vocab> {
        let mut vocab = Vocab::with_capacity(self.texts.len());
        for (id, (text, kind)) in self.texts.iter().zip(&self.kinds).enumerate() {
            if *kind != TokenKind::Unused
                && !text.is_empty()
                && let Some(first) = vocab.insert((*text).to_owned(), id as u32)
            {
                let text = text.escape_debug();
                return Err(fault(format!("the tokens {first} and {id} of `{TOKENS}` are both `{text}`")));
            }
        }
        Ok(vocab)
    }

    /// Returns the length of the longest token in bytes.
    fn longest(&self) -> usize {
        let used = self.texts.iter().zip(&self.kinds).filter(|t| *t.1 != TokenKind::Unused);
        used.map(|(text, _)| text.len()).max().unwrap_or(0)
    }

    /// Returns the error of the first merge that needs a token which does not exist.
    fn faulty_merge(&self, merges: &[&str]) -> Option<Error> {
        let vocab = self.vocab().ok()?;
        merges.iter().enumerate().find_map(|(i, merge)| {
            let (left, right) = sides(merge)?;
            let whole = [left, right].concat();
            let missing = [left, right, &whole].into_iter().find(|t| !vocab.contains_key(*t))?;
            Some(missing_token(i, missing))
        })
    }

    /// Makes the tokenizer match control tokens and user-defined tokens.
    fn add_to(&self, tokenizer: &mut Tokenizer) -> Result<()> {
        let mut added = Vec::new();
        let mut bytes = 0;
        for (text, kind) in self.texts.iter().zip(&self.kinds) {
            if matches!(kind, TokenKind::Special | TokenKind::UserDefined) && !text.is_empty() {
                bytes += text.len();
                let special = *kind == TokenKind::Special;
                let strips = self.strips && special && !KEEPING.contains(text);
                added.push(AddedToken::from(*text, special).normalized(false).rstrip(strips));
            }
        }
        if added.len() > MAX_ADDED || bytes > MAX_ADDED_TEXT {
            let message = format!(
                "`{TYPES}` has {} control and user-defined tokens of {bytes} bytes; the limits are {MAX_ADDED} and \
                 {MAX_ADDED_TEXT}",
                added.len()
            );
            return Err(Error::new(ErrorKind::TooComplex, message));
        }
        tokenizer.add_tokens(added).map_err(inconsistent)?;
        Ok(())
    }
}

/// Returns the two sides of each merge. Together they have at most `longest` bytes, which the
/// tokenizers crate does not check.
fn pairs(merges: &[&str], longest: usize) -> Result<Merges> {
    let pair = |(i, merge): (usize, &&str)| {
        let (left, right) = sides(merge).ok_or_else(|| {
            fault(format!("entry {i} of `{MERGES}` is `{}`, not two tokens", merge.escape_debug()))
        })?;
        match left.len() + right.len() > longest {
            true => Err(missing_token(i, &[left, right].concat())),
            false => Ok((left.to_owned(), right.to_owned())),
        }
    };
    merges.iter().enumerate().map(pair).collect()
}

/// Returns the two sides of a merge. Tokens contain no spaces; the first character belongs to the
/// left side in any case.
fn sides(merge: &str) -> Option<(&str, &str)> {
    let first = merge.chars().next()?.len_utf8();
    let at = first + merge[first..].find(' ')?;
    Some((&merge[..at], &merge[at + 1..]))
}

fn missing_token(i: usize, token: &str) -> Error {
    let token = token.escape_debug();
    fault(format!("entry {i} of `{MERGES}` needs the token `{token}`, which `{TOKENS}` lacks"))
}

fn same_length(key: &str, got: usize, want: usize) -> Result<()> {
    if got == want {
        return Ok(());
    }
    Err(fault(format!("`{key}` has {got} entries, `{TOKENS}` has {want}")))
}

/// Returns a part of a tokenizer from its JSON description.
fn part<T: serde::de::DeserializeOwned>(description: Value) -> Result<T> {
    serde_json::from_value(description).map_err(|e| fault(e.to_string()))
}

fn inconsistent(error: tokenizers::Error) -> Error {
    fault(format!("the tokenizer of the GGUF file: {error}"))
}

const HINT: &str = "put the model's tokenizer.json beside the file; it is used instead";

fn lacks(key: &str) -> Error {
    fault(format!("the GGUF metadata lack `{key}`"))
}

fn fault(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Tokenizer, message).hint(HINT)
}

fn unsupported(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Unsupported, message).hint(HINT)
}
