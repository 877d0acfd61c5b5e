//! What every function does around its body: catch faults and panics, and hand out objects.

use std::any::Any;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::error::{CallFailure, Error, Result, Status};
use crate::memory::given;

/// Runs the body of a function. Writes its fault, or null, to `error`.
///
/// A panic leaves the caller's objects usable: the engine replaces tables that a panic has damaged, and
/// results are written at the end of a body.
pub(crate) fn run(error: Option<&mut MaybeUninit<*mut Error>>, body: impl FnOnce() -> Result<()>) -> Status {
    let fault = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(done) => done.err(),
        Err(panic) => Some(CallFailure::Panic(message(&*panic))),
    };
    if let Some(place) = error {
        let object = fault.as_ref().map(|fault| Box::into_raw(Box::new(Error::new(fault))));
        place.write(object.unwrap_or(std::ptr::null_mut()));
    }
    fault.as_ref().map_or(Status::Ok, CallFailure::status)
}

/// Runs a body that makes an object, and hands the object out; null if it fails.
pub(crate) fn make<T>(
    out: Option<&mut MaybeUninit<*mut T>>,
    error: Option<&mut MaybeUninit<*mut Error>>,
    body: impl FnOnce() -> Result<T>,
) -> Status {
    run(error, || {
        let place = given(out, "out")?;
        place.write(std::ptr::null_mut());
        place.write(Box::into_raw(Box::new(body()?)));
        Ok(())
    })
}

/// Runs a body that cannot fail but for a panic, which gives the default.
pub(crate) fn value<T: Default>(body: impl FnOnce() -> Option<T>) -> T {
    catch_unwind(AssertUnwindSafe(body)).ok().flatten().unwrap_or_default()
}

/// Frees an object.
pub(crate) fn free<T>(object: Option<Box<T>>) {
    // A panic here is the library's fault; the object is gone in any case.
    let _ = catch_unwind(AssertUnwindSafe(|| drop(object)));
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{ffwd_error_free, ffwd_error_name, ffwd_error_text};

    #[test]
    fn panics_become_errors() {
        let mut error = MaybeUninit::uninit();
        assert_eq!(run(Some(&mut error), || panic!("number {}", 7)), Status::Internal);
        // SAFETY: `run` has written an error of its own.
        let error = unsafe { Box::from_raw(error.assume_init()) };
        let texts = [ffwd_error_name(Some(&error)), ffwd_error_text(Some(&error))];
        // SAFETY: texts of an error end with a zero byte.
        let texts = texts.map(|text| unsafe { std::ffi::CStr::from_ptr(text) }.to_str().unwrap());
        assert_eq!(texts, ["internal", "a fault of the library: number 7"]);
        ffwd_error_free(Some(error));
        assert_eq!(run(None, || panic!("again")), Status::Internal);
        assert_eq!(value::<usize>(|| panic!("again")), 0);
        let mut out = MaybeUninit::<*mut u8>::uninit();
        assert_eq!(make(Some(&mut out), None, || panic!("again")), Status::Internal);
        // SAFETY: `make` writes null first.
        assert!(unsafe { out.assume_init() }.is_null());
    }
}
