//! Memory of the caller: the one file that reads and writes through pointers of others.
//!
//! What can be checked is: null pointers, lengths, alignment, UTF-8. That a pointer leads to as much
//! memory as its length says is the caller's promise; the header states it.

use std::ffi::{CStr, c_char};

use crate::error::{CallFailure, Result};

/// Returns `count` values at `values`; null is no values.
///
/// # Safety
/// `values` is null or leads to `count` values that nobody changes while the result is used.
pub(crate) unsafe fn slice<'a, T>(values: *const T, count: usize, name: &str) -> Result<&'a [T]> {
    if count == 0 {
        return Ok(&[]);
    }
    check(values, count, name)?;
    // SAFETY: not null, aligned, no larger than memory can be; the rest is the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts(values, count) })
}

/// As [`slice`], to be written.
///
/// # Safety
/// `values` is null or leads to `count` values that nobody else uses while the result is used.
pub(crate) unsafe fn slice_mut<'a, T>(values: *mut T, count: usize, name: &str) -> Result<&'a mut [T]> {
    if count == 0 {
        return Ok(&mut []);
    }
    check(values, count, name)?;
    // SAFETY: as in `slice`.
    Ok(unsafe { std::slice::from_raw_parts_mut(values, count) })
}

/// Returns the text of `length` bytes.
///
/// # Safety
/// As [`slice`].
pub(crate) unsafe fn text<'a>(text: *const c_char, length: usize, name: &str) -> Result<&'a str> {
    // SAFETY: the caller's promise is the same.
    let bytes = unsafe { slice(text.cast::<u8>(), length, name)? };
    std::str::from_utf8(bytes).map_err(|_| CallFailure::argument(format!("`{name}` is not UTF-8")))
}

/// Returns a text that ends with a zero byte; `None` for null.
///
/// # Safety
/// `text` is null or leads to bytes that end with a zero byte, which nobody changes while the result is
/// used.
pub(crate) unsafe fn name<'a>(text: *const c_char, name: &str) -> Result<Option<&'a str>> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: not null; the rest is the caller's promise.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map(Some).map_err(|_| CallFailure::argument(format!("`{name}` is not UTF-8")))
}

fn check<T>(values: *const T, count: usize, name: &str) -> Result<()> {
    if values.is_null() {
        return Err(CallFailure::argument(format!("`{name}` is null, but its length is {count}")));
    }
    if !values.is_aligned() {
        return Err(CallFailure::argument(format!("`{name}` is not aligned to its type")));
    }
    if count.checked_mul(size_of::<T>()).is_none_or(|bytes| bytes > isize::MAX as usize) {
        return Err(CallFailure::argument(format!(
            "the length of `{name}`, {count}, is more than memory can hold"
        )));
    }
    Ok(())
}

/// Returns what a pointer leads to, or says that it is null.
pub(crate) fn given<T>(value: Option<T>, name: &str) -> Result<T> {
    value.ok_or_else(|| CallFailure::argument(format!("`{name}` is null")))
}

/// Writes as much of `values` as there is room for, and their number.
pub(crate) fn copy<T: Copy>(values: &[T], room: &mut [T], count: Option<&mut usize>) -> Result<()> {
    let fits = values.len().min(room.len());
    room[..fits].copy_from_slice(&values[..fits]);
    *given(count, "count")? = values.len();
    Ok(())
}
