//! Endpoints of the tab "Labels".

use std::sync::Arc;

use axum::Router;

use crate::serve::app::App;

pub(super) fn routes() -> Router<Arc<App>> {
    Router::new()
}
