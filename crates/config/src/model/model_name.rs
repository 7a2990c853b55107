//! The name of a model: its provider and its id there.

use std::fmt;

/// A model, as people write it: `provider/model`. The part after the first slash may contain slashes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ModelName {
    /// The provider's id.
    pub provider: String,
    /// The model's id at the provider.
    pub model: String,
}

impl ModelName {
    /// Reads `provider/model`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (provider, model) = text.split_once('/')?;
        let is_whole = !provider.is_empty() && !model.is_empty();
        is_whole.then(|| Self { provider: provider.to_owned(), model: model.to_owned() })
    }
}

impl fmt::Display for ModelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.provider, self.model)
    }
}
