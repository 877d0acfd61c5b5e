//! The position of an output that the playground showed last, for the next one.

use std::sync::{Mutex, MutexGuard, PoisonError};

use ffwd_runtime::model::KvCache;
use ffwd_runtime::vocab::TokenId;

/// The tokens before the position, with their keys and values.
pub(super) type ShownTokens = (Vec<TokenId>, KvCache);

/// The position; none before the first.
#[derive(Default)]
pub(super) struct ShownState(Mutex<Option<ShownTokens>>);

impl ShownState {
    /// Waits for other users. A user takes the tokens out, so none are left after a panic.
    pub fn lock(&self) -> MutexGuard<'_, Option<ShownTokens>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
