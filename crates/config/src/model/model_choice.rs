//! Which model answers if nobody names one, and which one does small things such as titles.

use super::model_name::ModelName;
use super::model_profile::{ModelProfile, ModelStatus};
use super::provider_profile::ProviderProfile;

/// Parts of ids of models that are preferred, the best first.
const PREFERRED: [&str; 4] = ["gemini-3-pro", "big-pickle", "claude-sonnet-4", "gpt-5"];
/// Parts of ids of small models: all parts of one entry must occur.
const SMALL: [&[&str]; 3] = [&["gemini", "flash"], &["gpt", "nano"], &["claude", "haiku"]];

fn is_listed(model: &ModelProfile) -> bool {
    matches!(model.status, ModelStatus::Active | ModelStatus::Beta)
}

/// Returns the model of a provider that is used unless another is named.
pub(crate) fn default_model(provider: &ProviderProfile) -> Option<&ModelProfile> {
    let rank = |model: &ModelProfile| {
        PREFERRED.iter().position(|part| model.id.contains(part)).unwrap_or(PREFERRED.len())
    };
    let listed = provider.models.iter().filter(|model| is_listed(model));
    listed.min_by(|a, b| rank(a).cmp(&rank(b)).then_with(|| b.id.cmp(&a.id)))
}

/// Returns the newest small model of a provider.
pub(crate) fn small_model(provider: &ProviderProfile) -> Option<ModelName> {
    let is_small = |model: &&ModelProfile| {
        is_listed(model) && SMALL.iter().any(|parts| parts.iter().all(|it| model.id.contains(it)))
    };
    let small = provider.models.iter().filter(is_small);
    let newest = small.max_by(|a, b| {
        a.release_date.cmp(&b.release_date).then_with(|| b.id.len().cmp(&a.id.len()))
    })?;
    Some(ModelName { provider: provider.id.clone(), model: newest.id.clone() })
}
