//! Configuration: the files of the user and of a project, what of a project is trusted, secrets, the
//! catalogue of models, agents and commands.
//!
//! Nothing here reads the environment: the program passes it as a [`ConfigEnvironment`]. Every call of
//! [`Configuration::load`] reads the files again. What cannot be parsed is an error, never an absence.

mod agent;
mod configuration;
mod environment;
mod error;
mod model;
mod private_file;
mod secret;
mod settings;
mod settings_reader;
mod source;
mod trust;

pub use agent::{AgentMode, AgentProfile, CommandDefinition};
pub use configuration::{ConfigFileSummary, Configuration};
pub use environment::ConfigEnvironment;
pub use error::ConfigError;
pub use model::{
    AuthError, AuthFile, InterleavedReasoning, KeySource, ModelName, ModelPrices, ModelProfile,
    ModelResolutionError, ModelStatus, ModelTimeouts, ModelWire, PriceTier, ProviderProfile,
    ResolvedModel, StoredKey, StoredKeyKind, TokenPrices, UsedTokens,
};
pub use secret::Secret;
pub use settings::{
    AgentSettings, FormatterSetting, HookSetting, HookTiming, McpServer, McpTransport,
};
pub use source::{ConfigSources, MarkdownFile, SourceFolder};
pub use trust::{RestrictedKey, RestrictionReason, TrustError, TrustedFile, TrustedFiles};
