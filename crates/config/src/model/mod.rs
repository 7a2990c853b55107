//! Models: the catalogue, providers, keys, prices, and what a request to a model needs.

mod auth_file;
mod catalogue;
mod connection;
mod model_choice;
mod model_name;
mod model_prices;
mod model_profile;
mod model_variants;
mod provider_profile;
mod resolved_model;

pub use auth_file::{AuthError, AuthFile, StoredKey, StoredKeyKind};
pub(crate) use catalogue::Catalogue;
pub(crate) use connection::{ProviderViews, catalogue_path};
pub(crate) use model_choice::{default_model, small_model};
pub use model_name::ModelName;
pub use model_prices::{ModelPrices, PriceTier, TokenPrices, UsedTokens};
pub(crate) use model_profile::WrongField;
pub use model_profile::{InterleavedReasoning, ModelProfile, ModelStatus};
pub use provider_profile::{KeySource, ProviderProfile};
pub(crate) use resolved_model::ModelResolver;
pub use resolved_model::{ModelResolutionError, ModelTimeouts, ModelWire, ResolvedModel};
