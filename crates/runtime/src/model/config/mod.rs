//! What a model is: its family, its sizes, and what its layers do.

mod family;
mod from_json;
mod json_values;
mod layer_patterns;
mod mixers;
mod model_config;
mod rope_scaling;
mod tensor_names;

pub use family::{Activation, Architecture};
pub(super) use family::{FAMILIES, Family, KNOWN, Norms, Windows};
pub(super) use json_values::{DEFAULT_LOCAL_THETA, MAX_LAYERS, bad};
pub use layer_patterns::LayerRotary;
pub(super) use layer_patterns::default_rotary;
pub use mixers::{DeltaShape, Experts, Mixer};
pub(super) use mixers::{FULL_INTERVAL, MAX_EXPERTS, all_but};
pub use model_config::ModelConfig;
pub use rope_scaling::RopeScaling;
pub(super) use rope_scaling::{RotaryTable, refused};
pub(super) use tensor_names::{LayerTensor, Naming, TensorId};
