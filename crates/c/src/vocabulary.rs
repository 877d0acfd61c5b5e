//! `ffwd_vocabulary`.

use std::ffi::c_char;
use std::mem::MaybeUninit;
use std::sync::{Arc, OnceLock};

use ffwd_engine::{Compiler, TokenId};

use crate::callbacks::{self, Tokens};
use crate::error::{CallFailure, Error, Result, Status};
use crate::guard::{free, make, run, value};
use crate::memory::{copy, given, name, slice, slice_mut, text};

/// The tokens of a model's tokenizer, prepared for constraints. Immutable.
///
/// Make one for a model and keep it: what is compiled for it shares tables.
pub struct Vocabulary {
    pub(crate) inner: ffwd_engine::Vocabulary,
    compiler: Arc<OnceLock<Compiler>>,
}

impl Vocabulary {
    fn new(inner: ffwd_engine::Vocabulary) -> Self {
        Vocabulary { inner, compiler: Arc::default() }
    }

    /// Returns the compiler, which is made at its first use.
    pub(crate) fn compiler(&self) -> &Compiler {
        self.compiler.get_or_init(|| Compiler::new(self.inner.clone()))
    }
}

/// Reads a tokenizer: a `tokenizer.json`, a `tekken.json`, a SentencePiece model (`tokenizer.model`),
/// or the metadata of a GGUF file. The content decides, not the name.
///
/// End tokens are those of the GGUF file; otherwise those of `generation_config.json` or
/// `tokenizer_config.json` in the same folder; otherwise found by the usual names.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ffwd_vocabulary_from_file(
    path: *const c_char,
    out: Option<&mut MaybeUninit<*mut Vocabulary>>,
    error: Option<&mut MaybeUninit<*mut Error>>,
) -> Status {
    make(out, error, || {
        // SAFETY: the header's rules.
        let path = given(unsafe { name(path, "path")? }, "path")?;
        Ok(Vocabulary::new(ffwd_engine::Vocabulary::from_file(path)?))
    })
}

/// Reads the content of such a file. The bytes are not needed afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ffwd_vocabulary_from_bytes(
    bytes: *const u8,
    length: usize,
    out: Option<&mut MaybeUninit<*mut Vocabulary>>,
    error: Option<&mut MaybeUninit<*mut Error>>,
) -> Status {
    make(out, error, || {
        // SAFETY: the header's rules.
        let bytes = unsafe { slice(bytes, length, "bytes")? };
        Ok(Vocabulary::new(ffwd_engine::Vocabulary::from_bytes(bytes)?))
    })
}

/// Makes a vocabulary that the caller describes. The arrays are not needed afterwards; the functions
/// `encode` and `release` are, until everything that was made from the vocabulary is freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ffwd_vocabulary_from_tokens(
    tokens: Option<&Tokens>,
    out: Option<&mut MaybeUninit<*mut Vocabulary>>,
    error: Option<&mut MaybeUninit<*mut Error>>,
) -> Status {
    make(out, error, || {
        // SAFETY: the header's rules.
        Ok(Vocabulary::new(unsafe { callbacks::vocabulary(given(tokens, "tokens")?)? }))
    })
}

/// Makes the same vocabulary with other end tokens. Its tables are shared.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ffwd_vocabulary_with_ends(
    vocabulary: Option<&Vocabulary>,
    ends: *const u32,
    count: usize,
    out: Option<&mut MaybeUninit<*mut Vocabulary>>,
    error: Option<&mut MaybeUninit<*mut Error>>,
) -> Status {
    make(out, error, || {
        let vocab = &given(vocabulary, "vocabulary")?.inner;
        // SAFETY: the header's rules.
        let ends = unsafe { slice(ends, count, "ends")? };
        check_ids(ends, vocab.logits_size())?;
        Ok(Vocabulary::new(vocab.clone().with_eos(ends.to_vec())))
    })
}

/// Makes the same vocabulary for logits of another width, in tokens: models often pad them. Ids
/// without a token are never allowed.
#[unsafe(no_mangle)]
pub extern "C" fn ffwd_vocabulary_with_logits(
    vocabulary: Option<&Vocabulary>,
    width: usize,
    out: Option<&mut MaybeUninit<*mut Vocabulary>>,
    error: Option<&mut MaybeUninit<*mut Error>>,
) -> Status {
    make(out, error, || {
        Ok(Vocabulary::new(given(vocabulary, "vocabulary")?.inner.clone().with_logits_size(width)?))
    })
}

/// Makes the vocabulary in which the special tokens that occur in a text are ordinary text, such as
/// `[TOOL_CALLS]` or `</think>` for constraints that name them. End tokens stay special.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ffwd_vocabulary_with_markers(
    vocabulary: Option<&Vocabulary>,
    text: *const c_char,
    length: usize,
    out: Option<&mut MaybeUninit<*mut Vocabulary>>,
    error: Option<&mut MaybeUninit<*mut Error>>,
) -> Status {
    make(out, error, || {
        let vocab = &given(vocabulary, "vocabulary")?.inner;
        // SAFETY: the header's rules.
        let text = unsafe { self::text(text, length, "text")? };
        Ok(Vocabulary::new(vocab.clone().with_markers(&[text])?))
    })
}

/// Returns the width of the logits, in tokens: ids are below it. 0 for null.
#[unsafe(no_mangle)]
pub extern "C" fn ffwd_vocabulary_logits(vocabulary: Option<&Vocabulary>) -> usize {
    value(|| Some(vocabulary?.inner.logits_size()))
}

/// Returns the number of 32-bit words of a mask: a bit for each token of the logits. 0 for null.
#[unsafe(no_mangle)]
pub extern "C" fn ffwd_vocabulary_mask_words(vocabulary: Option<&Vocabulary>) -> usize {
    value(|| Some(vocabulary?.inner.bitmask_words()))
}

/// Returns true if texts are tokenised as the model's tokenizer does. False if only the bytes of the
/// tokens are known: forced tokens are then the longest that fit.
#[unsafe(no_mangle)]
pub extern "C" fn ffwd_vocabulary_has_tokenizer(vocabulary: Option<&Vocabulary>) -> bool {
    value(|| Some(vocabulary?.inner.has_tokenizer()))
}

/// Writes the ids that end a generation, as many as there is room for; `count` is their number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ffwd_vocabulary_ends(
    vocabulary: Option<&Vocabulary>,
    ids: *mut u32,
    capacity: usize,
    count: Option<&mut usize>,
    error: Option<&mut MaybeUninit<*mut Error>>,
) -> Status {
    run(error, || {
        let vocab = &given(vocabulary, "vocabulary")?.inner;
        // SAFETY: the header's rules.
        copy(vocab.eos(), unsafe { slice_mut(ids, capacity, "ids")? }, count)
    })
}

/// Writes the bytes of a token, as many as there is room for; `count` is their number, which is 0 for
/// tokens that are never text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ffwd_vocabulary_token(
    vocabulary: Option<&Vocabulary>,
    token: u32,
    bytes: *mut u8,
    capacity: usize,
    count: Option<&mut usize>,
    error: Option<&mut MaybeUninit<*mut Error>>,
) -> Status {
    run(error, || {
        let vocab = &given(vocabulary, "vocabulary")?.inner;
        check_ids(&[token], vocab.logits_size())?;
        // SAFETY: the header's rules.
        copy(vocab.token_bytes(token), unsafe { slice_mut(bytes, capacity, "bytes")? }, count)
    })
}

/// Tokenises a text, in which special tokens have no meaning. Writes as many ids as there is room for;
/// `count` is their number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ffwd_vocabulary_encode(
    vocabulary: Option<&Vocabulary>,
    text: *const c_char,
    length: usize,
    ids: *mut u32,
    capacity: usize,
    count: Option<&mut usize>,
    error: Option<&mut MaybeUninit<*mut Error>>,
) -> Status {
    run(error, || {
        let vocab = &given(vocabulary, "vocabulary")?.inner;
        // SAFETY: the header's rules.
        let (text, room) = unsafe { (self::text(text, length, "text")?, slice_mut(ids, capacity, "ids")?) };
        copy(&vocab.encode(text)?, room, count)
    })
}

/// Frees a vocabulary. Null has no effect. What was made from it keeps working.
#[unsafe(no_mangle)]
pub extern "C" fn ffwd_vocabulary_free(vocabulary: Option<Box<Vocabulary>>) {
    free(vocabulary);
}

/// Fails if an id is not below `width`.
pub(crate) fn check_ids(ids: &[TokenId], width: usize) -> Result<()> {
    match ids.iter().find(|id| **id as usize >= width) {
        Some(id) => Err(CallFailure::argument(format!(
            "token {id} is out of range: ids are 0 to {}",
            width.max(1) - 1
        ))),
        None => Ok(()),
    }
}
