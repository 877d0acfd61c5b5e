//! `ffwd_tokens`: a vocabulary that the caller describes.

use std::ffi::{c_char, c_void};

use ffwd_engine::vocab::MAX_TOKENS;
use ffwd_engine::{ErrorKind, TokenId, Vocabulary};

use crate::error::{CallFailure, Result};
use crate::memory::{given, slice};

/// Largest number of bytes of one token, and of tokens of one text.
const MAX_ANSWER: usize = 1 << 24;

/// A vocabulary that the caller describes: the bytes of each token, and how texts are tokenised.
///
/// The bytes come from two arrays, or from the function `token`. Without `encode` the bytes of the
/// tokens are all that is known: masks are exact all the same, and forced tokens are the longest ones
/// that fit. The functions may be called from any thread that uses the vocabulary or something made
/// from it, from several at the same time. They may not throw, and may not use what is made of
/// them. Fields that are not used are null or 0.
#[repr(C)]
pub struct Tokens {
    /// Number of tokens. Their ids are 0 to `count - 1`.
    pub count: usize,
    /// The bytes of each token, or null if `token` is given. A null element is a token without bytes,
    /// which is never text.
    pub bytes: *const *const u8,
    /// The number of bytes of each token.
    pub lengths: *const usize,
    /// For each token 1 if it is a control token, which is never text, otherwise 0. Null if there are
    /// no control tokens but the end tokens.
    pub control: *const u8,
    /// Writes the bytes of a token, at most `capacity`, and returns their number, which may be larger:
    /// it is then called again with more room. Returns a negative number for a control token. It is
    /// called by `ffwd_vocabulary_from_tokens` only.
    pub token: Option<extern "C" fn(user: *mut c_void, id: u32, bytes: *mut u8, capacity: usize) -> i64>,
    /// The ids that end a generation.
    pub ends: *const u32,
    /// The number of `ends`.
    pub end_count: usize,
    /// Tokenises a text (UTF-8, without a zero byte at its end) as the model's tokenizer does, without
    /// tokens before or after it, and with no meaning of the names of control tokens. Writes at most
    /// `capacity` ids and returns their number, which may be larger: it is then called again with more
    /// room. Returns a negative number if it cannot. May be null.
    pub encode: Option<
        extern "C" fn(
            user: *mut c_void,
            text: *const c_char,
            length: usize,
            ids: *mut u32,
            capacity: usize,
        ) -> i64,
    >,
    /// What the functions get as their first argument.
    pub user: *mut c_void,
    /// Called once when nothing needs `user` any more, also if the vocabulary cannot be made. May be
    /// null.
    pub release: Option<extern "C" fn(user: *mut c_void)>,
}

/// The caller's functions, until nothing needs them.
struct User {
    user: *mut c_void,
    release: Option<extern "C" fn(user: *mut c_void)>,
}

// SAFETY: the header demands that the functions may be called from several threads at the same time.
unsafe impl Send for User {}
// SAFETY: as above.
unsafe impl Sync for User {}

impl Drop for User {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            release(self.user);
        }
    }
}

impl User {
    /// Asks a function for values until there is room for all of them; `None` for a negative answer.
    fn ask<T: Clone + Default>(
        &self,
        room: usize,
        ask: impl Fn(*mut c_void, *mut T, usize) -> i64,
    ) -> std::result::Result<Option<Vec<T>>, String> {
        let mut values = vec![T::default(); room];
        for _ in 0..2 {
            let Ok(count) = usize::try_from(ask(self.user, values.as_mut_ptr(), values.len())) else {
                return Ok(None);
            };
            if count > MAX_ANSWER {
                return Err(format!("a function gives {count} values; the limit is {MAX_ANSWER}"));
            }
            let fits = count <= values.len();
            values.resize(count, T::default());
            if fits {
                return Ok(Some(values));
            }
        }
        Err("a function gives more values when it is asked again".into())
    }
}

/// Makes the vocabulary.
///
/// # Safety
/// The pointers of `tokens` lead to as much as it says.
pub(crate) unsafe fn vocabulary(tokens: &Tokens) -> Result<Vocabulary> {
    let user = User { user: tokens.user, release: tokens.release };
    // SAFETY: the caller's promise.
    let ends = unsafe { slice(tokens.ends, tokens.end_count, "ends")? };
    // SAFETY: the caller's promise.
    let (texts, control) = unsafe { texts(tokens, &user)? };
    let Some(encode) = tokens.encode else {
        return Ok(Vocabulary::from_token_bytes(&texts, &control, ends.to_vec())?);
    };
    let encode = move |text: &str| {
        let fail = |message: String| ffwd_engine::Error::new(ErrorKind::Tokenizer, message);
        let ask = |user, ids, capacity| encode(user, text.as_ptr().cast(), text.len(), ids, capacity);
        let ids = user.ask::<TokenId>(text.len() + 8, ask).map_err(fail)?;
        ids.ok_or_else(|| fail("the function `encode` cannot tokenise a text".into()))
    };
    Ok(Vocabulary::from_encoder(&texts, &control, ends.to_vec(), encode)?)
}

/// Returns the bytes of all tokens, and the control tokens.
///
/// # Safety
/// As [`vocabulary`].
unsafe fn texts(tokens: &Tokens, user: &User) -> Result<(Vec<Vec<u8>>, Vec<TokenId>)> {
    let count = tokens.count;
    if count > MAX_TOKENS {
        return Err(CallFailure::argument(format!("`count` is {count}; the limit is {MAX_TOKENS}")));
    }
    let (mut texts, mut control) = (Vec::new(), Vec::new());
    if let Some(token) = tokens.token {
        for id in 0..count as TokenId {
            let text = user.ask(64, |user, bytes, capacity| token(user, id, bytes, capacity));
            let text = text.map_err(CallFailure::argument)?;
            if text.is_none() {
                control.push(id);
            }
            texts.push(text.unwrap_or_default());
        }
        return Ok((texts, control));
    }
    given((!tokens.bytes.is_null() && !tokens.lengths.is_null()).then_some(()), "bytes")?;
    // SAFETY: the caller's promise.
    let (bytes, lengths) =
        unsafe { (slice(tokens.bytes, count, "bytes")?, slice(tokens.lengths, count, "lengths")?) };
    for (&bytes, &length) in bytes.iter().zip(lengths) {
        let length = if bytes.is_null() { 0 } else { length };
        // SAFETY: the caller's promise.
        texts.push(unsafe { slice(bytes, length, "bytes")? }.to_vec());
    }
    if !tokens.control.is_null() {
        // SAFETY: the caller's promise.
        let flags = unsafe { slice(tokens.control, count, "control")? };
        control.extend((0..).zip(flags).filter(|(_, flag)| **flag != 0).map(|(id, _)| id));
    }
    Ok((texts, control))
}
