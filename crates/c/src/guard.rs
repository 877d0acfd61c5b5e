//! What every function does around its body: catch faults and panics, and hand out objects.

use std::any::Any;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::error::{Error, Fault, Result, Status};
use crate::memory::given;

/// Runs the body of a function. Writes its fault, or null, to `error`.
///
/// A panic leaves the caller's objects usable: the engine replaces tables that a panic has damaged, and
/// results are written at the end of a body.
pub(crate) fn run(error: Option<&mut MaybeUninit<*mut Error>>, body: impl FnOnce() -> Result<()>) -> Status {
    let fault = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(done) => done.err(),
        Err(panic) => Some(Fault::Panic(message(&*panic))),
    };
    if let Some(place) = error {
        let object = fault.as_ref().map(|fault| Box::into_raw(Box::new(Error::new(fault))));
        place.write(object.unwrap_or(std::ptr::null_mut()));
    }
    fault.as_ref().map_or(Status::Ok, Fault::status)
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

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message").to_owned()
}
