//! Parts that several tests of this program share: engines, random models, model files, schemas.

pub(crate) mod allocations;
pub(crate) mod exact;
pub(crate) mod gguf;
pub(crate) mod metadata;
pub(crate) mod models;
pub(crate) mod reference;
pub(crate) mod schemas;
