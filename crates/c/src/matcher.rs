//! `ffwd_matcher`.

use std::mem::MaybeUninit;

use ffwd_engine::TokenId;

use crate::error::{CallFailure, Error, Result, Status};
use crate::grammar::GrammarObject;
use crate::guard::{free, make, run, value};
use crate::memory::{copy, given, slice, slice_mut};
use crate::vocabulary::check_ids;

/// The state of one generation. One thread at a time uses it.
///
/// There are no error states: what is refused changes nothing.
pub struct Matcher(ffwd_engine::Matcher);

impl Matcher {
    fn width(&self) -> usize {
        self.0.vocabulary().logits_size()
    }

    /// Number of accepted tokens, an end token included.
    fn accepted(&self) -> usize {
        self.0.num_accepted() + usize::from(self.0.is_finished())
    }

    /// Returns the number of leading tokens that would be accepted, an end token included.
    fn validate(&mut self, ids: &[TokenId]) -> usize {
        let legal = self.0.validate_tokens(ids);
        if !ids.get(legal).is_some_and(|id| self.0.vocabulary().eos().contains(id)) {
            return legal;
        }
        let mut fork = self.0.fork();
        ids[..=legal].iter().take_while(|id| fork.accept_token(**id).is_ok()).count()
    }

    /// Returns the first `limit` tokens of the forced run, the best guess at those of the model.
    fn draft(&self, last: Option<TokenId>, limit: usize) -> Vec<TokenId> {
        let mut tokens = match self.0.vocabulary().has_tokenizer() {
            true => self.0.forced_prefix(last, limit).tokens,
            false => self.0.longest_forced_start(limit).tokens,
        };
        tokens.truncate(limit);
        tokens
    }
}

/// Makes a matcher at the start of an output. The grammar is not needed afterwards.
#[unsafe(no_mangle)]
pub extern "C" fn ffwd_matcher_new(
    grammar: Option<&GrammarObject>,
    out: Option<&mut MaybeUninit<*mut Matcher>>,
    error: Option<&mut MaybeUninit<*mut Error>>,
) -> Status {
    make(out, error, || Ok(Matcher(given(grammar, "grammar")?.inner.matcher())))
}

/// Makes an independent copy. It is cheap, whatever the length of the output.
#[unsafe(no_mangle)]
pub extern "C" fn ffwd_matcher_fork(
    matcher: Option<&Matcher>,
    out: Option<&mut MaybeUninit<*mut Matcher>>,
    error: Option<&mut MaybeUninit<*mut Error>>,
) -> Status {
    make(out, error, || Ok(Matcher(given(matcher, "matcher")?.0.fork())))
}

/// Writes the tokens that may come next: bit `t % 32` of word `t / 32` is set if token `t` keeps the
/// output completable. All of the `count` words are overwritten; there must be at least
/// `ffwd_vocabulary_mask_words`. Once an end token was accepted, only the end tokens are set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ffwd_matcher_fill(
    matcher: Option<&mut Matcher>,
    words: *mut u32,
    count: usize,
    error: Option<&mut MaybeUninit<*mut Error>>,
) -> Status {
    run(error, || {
        let matcher = &mut given(matcher, "matcher")?.0;
        let least = matcher.vocabulary().bitmask_words();
        if count < least {
            return Err(CallFailure::argument(format!("`words` has {count} words; a mask has {least}")));
        }
        // SAFETY: the header's rules.
        matcher.fill_bitmask(unsafe { slice_mut(words, count, "words")? });
        Ok(())
    })
}

/// Advances by one token, which may be an end token. `FFWD_STATUS_ILLEGAL_TOKEN` if it may not come
/// next.
#[unsafe(no_mangle)]
pub extern "C" fn ffwd_matcher_accept(
    matcher: Option<&mut Matcher>,
    token: u32,
    error: Option<&mut MaybeUninit<*mut Error>>,
) -> Status {
    run(error, || {
        let matcher = given(matcher, "matcher")?;
        check_ids(&[token], matcher.width())?;
        Ok(matcher.0.accept_token(token)?)
    })
}

/// Writes how many leading tokens could be accepted one after the other. The state does not change.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ffwd_matcher_validate(
    matcher: Option<&mut Matcher>,
    tokens: *const u32,
    count: usize,
    valid: Option<&mut usize>,
    error: Option<&mut MaybeUninit<*mut Error>>,
) -> Status {
    run(error, || {
        let matcher = given(matcher, "matcher")?;
        // SAFETY: the header's rules.
        let tokens = unsafe { slice(tokens, count, "tokens")? };
        check_ids(tokens, matcher.width())?;
        *given(valid, "valid")? = matcher.validate(tokens);
        Ok(())
    })
}

/// Removes the last `count` tokens that were accepted; an end token counts as one.
#[unsafe(no_mangle)]
pub extern "C" fn ffwd_matcher_rollback(
    matcher: Option<&mut Matcher>,
    count: usize,
    error: Option<&mut MaybeUninit<*mut Error>>,
) -> Status {
    run(error, || {
        let matcher = given(matcher, "matcher")?;
        let accepted = matcher.accepted();
        if count > accepted {
            let message = format!("cannot roll back {count} tokens: {accepted} were accepted");
            return Err(CallFailure::argument(message));
        }
        matcher.0.rollback(count);
        Ok(())
    })
}

/// Returns to the start of the output.
#[unsafe(no_mangle)]
pub extern "C" fn ffwd_matcher_reset(
    matcher: Option<&mut Matcher>,
    error: Option<&mut MaybeUninit<*mut Error>>,
) -> Status {
    run(error, || {
        let matcher = given(matcher, "matcher")?;
        let accepted = matcher.accepted();
        matcher.0.rollback(accepted);
        Ok(())
    })
}

/// Returns the number of accepted tokens, an end token included: the most that can be rolled back.
#[unsafe(no_mangle)]
pub extern "C" fn ffwd_matcher_accepted(matcher: Option<&Matcher>) -> usize {
    value(|| Some(matcher?.accepted()))
}

/// Returns true if the output may end here: an end token is legal.
#[unsafe(no_mangle)]
pub extern "C" fn ffwd_matcher_may_end(matcher: Option<&Matcher>) -> bool {
    value(|| Some(matcher?.0.is_accepting()))
}

/// Returns true if the output must end here: nothing but an end token is legal.
#[unsafe(no_mangle)]
pub extern "C" fn ffwd_matcher_must_end(matcher: Option<&Matcher>) -> bool {
    value(|| Some(matcher?.0.is_terminated()))
}

/// Returns true if an end token was accepted. False again once it is rolled back.
#[unsafe(no_mangle)]
pub extern "C" fn ffwd_matcher_is_finished(matcher: Option<&Matcher>) -> bool {
    value(|| Some(matcher?.0.is_finished()))
}

/// Writes the tokens that the constraint leaves no choice about, as the model's tokenizer writes them,
/// up to the last boundary that no continuation can move. So they can be appended to the output without
/// running the model on each. As many as there is room for; `count` is their number. The matcher does
/// not advance.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ffwd_matcher_forced_tokens(
    matcher: Option<&mut Matcher>,
    tokens: *mut u32,
    capacity: usize,
    count: Option<&mut usize>,
    error: Option<&mut MaybeUninit<*mut Error>>,
) -> Status {
    run(error, || {
        let matcher = &mut given(matcher, "matcher")?.0;
        // SAFETY: the header's rules.
        let room = unsafe { slice_mut(tokens, capacity, "tokens")? };
        let forced = match matcher.vocabulary().has_tokenizer() {
            true => matcher.forced_tokens(),
            false => matcher.longest_forced_tokens(),
        };
        copy(&forced, room, count)
    })
}

/// Writes the first tokens of the forced run, at most `capacity`: the best guess at those of the model,
/// for a draft that the model verifies. `last` is the token in front of the run, with which the
/// tokenizer may join its start, or a negative number. The cost depends on `capacity`, not on the run.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ffwd_matcher_forced_draft(
    matcher: Option<&Matcher>,
    last: i64,
    tokens: *mut u32,
    capacity: usize,
    count: Option<&mut usize>,
    error: Option<&mut MaybeUninit<*mut Error>>,
) -> Status {
    run(error, || {
        let matcher = given(matcher, "matcher")?;
        // SAFETY: the header's rules.
        let room = unsafe { slice_mut(tokens, capacity, "tokens")? };
        copy(&matcher.draft(token_or_none(last, matcher)?, capacity), room, count)
    })
}

/// Writes the bytes that the constraint leaves no choice about, as many as there is room for; `count`
/// is their number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ffwd_matcher_forced_bytes(
    matcher: Option<&mut Matcher>,
    bytes: *mut u8,
    capacity: usize,
    count: Option<&mut usize>,
    error: Option<&mut MaybeUninit<*mut Error>>,
) -> Status {
    run(error, || {
        let matcher = given(matcher, "matcher")?;
        // SAFETY: the header's rules.
        copy(&matcher.0.forced_bytes(), unsafe { slice_mut(bytes, capacity, "bytes")? }, count)
    })
}

/// Frees a matcher. Null has no effect.
#[unsafe(no_mangle)]
pub extern "C" fn ffwd_matcher_free(matcher: Option<Box<Matcher>>) {
    free(matcher);
}

fn token_or_none(token: i64, matcher: &Matcher) -> Result<Option<TokenId>> {
    if token < 0 {
        return Ok(None);
    }
    let id = TokenId::try_from(token).unwrap_or(TokenId::MAX);
    check_ids(&[id], matcher.width())?;
    Ok(Some(id))
}
