//! The embedded engine in a precision in which a row has the same bits in any batch.

use ffwd::Engine;
use ffwd::model::{LoadOptions, Precision};

/// Both precisions do so on x86-64; elsewhere only single precision does.
#[allow(dead_code)]
pub(crate) fn engine() -> Engine {
    engine_with(&[])
}

/// The same for outputs with markers.
pub(crate) fn engine_with(markers: &[&str]) -> Engine {
    let builder = || Engine::builder().markers(markers.iter().copied());
    let engine = builder().build().unwrap();
    if engine.target().is_batch_invariant() {
        return engine;
    }
    builder().options(LoadOptions::with_precision(Precision::F32)).build().unwrap()
}
