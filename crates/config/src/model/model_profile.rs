//! What is known about a model.

use serde_json::{Map, Value};
use turnstone_core::context::ModelLimits;

use super::model_prices::{ModelPrices, TokenPrices};
use super::model_variants::list_variants;
use super::resolved_model::ModelWire;

/// Where the reasoning of earlier answers returns to the model on the chat wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InterleavedReasoning {
    /// It does not.
    No,
    /// In the usual field.
    Usual,
    /// In a field of this name.
    Field(String),
}

/// How mature a model is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelStatus {
    /// Generally available.
    Active,
    /// A preview.
    Beta,
    /// An early test; lists omit it.
    Alpha,
    /// Withdrawn; lists omit it.
    Deprecated,
}

impl ModelStatus {
    /// Returns the name that clients know.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Beta => "beta",
            Self::Alpha => "alpha",
            Self::Deprecated => "deprecated",
        }
    }
}

/// A model of a provider.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelProfile {
    /// The id by which it is chosen.
    pub id: String,
    /// The name that its provider knows.
    pub api_id: String,
    /// The name for people.
    pub name: String,
    /// The family, such as `claude-sonnet`.
    pub family: Option<String>,
    /// When it was released, as `2026-01-31`.
    pub release_date: Option<String>,
    /// How mature it is.
    pub status: ModelStatus,
    /// Whether it takes files.
    pub has_attachments: bool,
    /// Whether it reasons.
    pub has_reasoning: bool,
    /// Whether it accepts a temperature.
    pub has_temperature: bool,
    /// Whether it calls tools.
    pub has_tools: bool,
    /// Where earlier reasoning returns to it.
    pub interleaved: InterleavedReasoning,
    /// What it takes: `text`, `image`, `pdf`, `audio`, `video`.
    pub input: Vec<String>,
    /// What it gives.
    pub output: Vec<String>,
    /// How much it takes and gives, in tokens; 0 is unknown.
    pub limits: ModelLimits,
    /// What it costs.
    pub prices: ModelPrices,
    /// Options of every request, the defaults of its family included.
    pub options: Map<String, Value>,
    /// Named sets of further options, in the order in which people see them.
    pub variants: Vec<(String, Map<String, Value>)>,
    /// Headers of every request; they may hold secrets.
    pub(crate) headers: Vec<(String, String)>,
    /// The package that speaks its wire, where it differs from the provider's.
    pub package: Option<String>,
}

/// A field with a value of the wrong type.
#[derive(Debug)]
pub(crate) struct WrongField {
    pub(crate) path: Vec<String>,
    pub(crate) wanted: &'static str,
}

/// Reads one model with its fields of the catalogue and of the configuration.
pub(crate) struct ModelFields<'f>(pub(crate) &'f Map<String, Value>);

impl ModelFields<'_> {
    fn wrong(path: &[&str], wanted: &'static str) -> WrongField {
        WrongField { path: path.iter().map(|key| (*key).to_owned()).collect(), wanted }
    }

    pub(crate) fn value(&self, path: &[&str]) -> Option<&Value> {
        let (first, rest) = path.split_first()?;
        let mut value = self.0.get(*first)?;
        for key in rest {
            value = value.get(key)?;
        }
        Some(value).filter(|value| !value.is_null())
    }

    pub(crate) fn text(&self, path: &[&str]) -> Result<Option<String>, WrongField> {
        match self.value(path) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(Self::wrong(path, "a text")),
        }
    }

    pub(crate) fn flag(&self, path: &[&str], usual: bool) -> Result<bool, WrongField> {
        match self.value(path) {
            None => Ok(usual),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(_) => Err(Self::wrong(path, "true or false")),
        }
    }

    /// A count; 0 if it is not known.
    fn count(&self, path: &[&str]) -> Result<u64, WrongField> {
        match self.value(path) {
            None => Ok(0),
            Some(value) => {
                let count = value.as_u64();
                count.ok_or_else(|| Self::wrong(path, "a whole number that is not negative"))
            }
        }
    }

    pub(crate) fn table(&self, path: &[&str]) -> Result<Map<String, Value>, WrongField> {
        match self.value(path) {
            None => Ok(Map::new()),
            Some(Value::Object(table)) => Ok(table.clone()),
            Some(_) => Err(Self::wrong(path, "a table: { … }")),
        }
    }

    pub(crate) fn texts(&self, path: &[&str]) -> Result<Option<Vec<String>>, WrongField> {
        let Some(value) = self.value(path) else { return Ok(None) };
        let texts = value.as_array().and_then(|entries| {
            let text = |entry: &Value| entry.as_str().map(str::to_owned);
            entries.iter().map(text).collect::<Option<Vec<_>>>()
        });
        texts.map(Some).ok_or_else(|| Self::wrong(path, "a list of texts"))
    }

    pub(crate) fn headers(&self) -> Result<Vec<(String, String)>, WrongField> {
        self.text_table(&["headers"])
    }

    pub(crate) fn text_table(&self, path: &[&str]) -> Result<Vec<(String, String)>, WrongField> {
        let mut headers = Vec::new();
        for (name, value) in self.table(path)? {
            let Value::String(value) = value else {
                return Err(Self::wrong(path, "a table of texts"));
            };
            headers.push((name, value));
        }
        Ok(headers)
    }
}

impl ModelProfile {
    /// Returns what is known about a script that plays a model; it costs nothing.
    pub(crate) fn scripted(script: &str) -> Self {
        let free = TokenPrices {
            input: Some(0.0),
            output: Some(0.0),
            cache_read: Some(0.0),
            cache_write: Some(0.0),
        };
        Self {
            id: script.to_owned(),
            api_id: script.to_owned(),
            name: "Scripted".to_owned(),
            family: None,
            release_date: None,
            status: ModelStatus::Active,
            has_attachments: true,
            has_reasoning: true,
            has_temperature: true,
            has_tools: true,
            interleaved: InterleavedReasoning::No,
            input: vec!["text".to_owned(), "image".to_owned(), "pdf".to_owned()],
            output: vec!["text".to_owned()],
            limits: ModelLimits { context: 200_000, input: 0, output: 32_000 },
            prices: ModelPrices { base: free, tiers: Vec::new() },
            options: Map::new(),
            variants: Vec::new(),
            headers: Vec::new(),
            package: None,
        }
    }

    /// Reads a model; `provider_package` speaks the wire of models that name no other.
    pub(crate) fn parse(
        id: &str,
        fields: &ModelFields<'_>,
        provider_package: &str,
    ) -> Result<Self, WrongField> {
        let package = fields.text(&["provider", "npm"])?;
        let wire = ModelWire::of_package(package.as_deref().unwrap_or(provider_package));
        let api_id = fields.text(&["id"])?.unwrap_or_else(|| id.to_owned());
        let cost = fields.table(&["cost"])?;
        let prices = ModelPrices::parse(&cost).map_err(|key| WrongField {
            path: vec!["cost".to_owned(), key],
            wanted: "a price in dollars per million tokens",
        })?;
        let text_only = || vec!["text".to_owned()];
        let has_attachments = fields.flag(&["attachment"], false)?;
        let mut profile = Self {
            id: id.to_owned(),
            name: fields.text(&["name"])?.unwrap_or_else(|| id.to_owned()),
            api_id,
            family: fields.text(&["family"])?,
            release_date: fields.text(&["release_date"])?,
            status: match fields.text(&["status"])?.as_deref() {
                Some("alpha") => ModelStatus::Alpha,
                Some("beta") => ModelStatus::Beta,
                Some("deprecated") => ModelStatus::Deprecated,
                Some(_) | None => ModelStatus::Active,
            },
            has_attachments,
            has_reasoning: fields.flag(&["reasoning"], false)?,
            has_temperature: fields.flag(&["temperature"], false)?,
            has_tools: fields.flag(&["tool_call"], true)?,
            interleaved: read_interleaved(fields)?,
            input: fields.texts(&["modalities", "input"])?.unwrap_or_else(text_only),
            output: fields.texts(&["modalities", "output"])?.unwrap_or_else(text_only),
            limits: ModelLimits {
                context: fields.count(&["limit", "context"])?,
                input: fields.count(&["limit", "input"])?,
                output: fields.count(&["limit", "output"])?,
            },
            prices,
            options: fields.table(&["options"])?,
            variants: Vec::new(),
            headers: fields.headers()?,
            package,
        };
        let (defaults, variants) = list_variants(&profile, wire, fields)?;
        let mut options = defaults;
        crate::source::merge_tables(&mut options, std::mem::take(&mut profile.options));
        profile.options = options;
        profile.variants = variants;
        Ok(profile)
    }
}

fn read_interleaved(fields: &ModelFields<'_>) -> Result<InterleavedReasoning, WrongField> {
    match fields.value(&["interleaved"]) {
        None | Some(Value::Bool(false)) => Ok(InterleavedReasoning::No),
        Some(Value::Bool(true)) => Ok(InterleavedReasoning::Usual),
        Some(_) => match fields.text(&["interleaved", "field"])? {
            Some(field) => Ok(InterleavedReasoning::Field(field)),
            None => Ok(InterleavedReasoning::Usual),
        },
    }
}
