//! The embedded engine in a precision in which a row is computed alike in any company.

use ffwd::Engine;
use ffwd::model::{LoadOptions, Precision};

/// Both precisions do so on x86-64; elsewhere only single precision does.
pub fn engine() -> Engine {
    let engine = Engine::embedded().unwrap();
    if !engine.target().varies_with_rows() {
        return engine;
    }
    Engine::builder().options(LoadOptions::with_precision(Precision::F32)).build().unwrap()
}
