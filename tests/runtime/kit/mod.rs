//! Parts that several tests of this program share: engines, random models, model files, schemas.

pub mod allocations;
pub mod exact;
pub mod gguf;
pub mod metadata;
pub mod models;
pub mod reference;
pub mod schemas;
