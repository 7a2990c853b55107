//! Variants: how hard a model thinks, as named sets of options.
//!
//! They come from the catalogue's `reasoning_options`, else from what is known of the family; the configuration
//! adds, changes and disables them.

use serde_json::{Map, Value, json};

use super::model_profile::{ModelFields, ModelProfile, WrongField};
use super::resolved_model::ModelWire;
use crate::source::merge_tables;

type Options = Map<String, Value>;
/// Named sets of options, in the order in which people see them.
type Variants = Vec<(String, Options)>;

/// Budgets for thinking of Claude models that take one.
const CLAUDE_BUDGETS: [(&str, u64); 2] = [("high", 16_000), ("max", 31_999)];
/// Budgets for thinking of Gemini 2.5.
const GEMINI_BUDGETS: [(&str, u64); 2] = [("high", 16_000), ("max", 24_576)];
/// The first Claude that decides by itself how long it thinks.
const FIRST_ADAPTIVE_CLAUDE: (u32, u32) = (4, 6);

/// Returns the options that every request to a model has, and its variants.
pub(super) fn list_variants(
    profile: &ModelProfile,
    wire: Option<ModelWire>,
    fields: &ModelFields<'_>,
) -> Result<(Options, Variants), WrongField> {
    let builtin = match wire {
        Some(wire) if profile.has_reasoning => builtin_variants(profile, wire, fields),
        _ => Vec::new(),
    };
    let mut variants: Variants =
        builtin.into_iter().map(|(name, options)| (name, into_map(options))).collect();
    for (name, value) in fields.table(&["variants"])? {
        let Value::Object(mut options) = value else {
            let path = vec!["variants".to_owned(), name];
            return Err(WrongField { path, wanted: "a table: { … }" });
        };
        if options.shift_remove("disabled") == Some(Value::Bool(true)) {
            variants.retain(|(known, _)| *known != name);
            continue;
        }
        match variants.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => merge_tables(known, options),
            None => variants.push((name, options)),
        }
    }
    let defaults = match wire {
        Some(wire) if profile.has_reasoning => default_options(&profile.api_id, wire),
        _ => json!({}),
    };
    Ok((into_map(defaults), variants))
}

fn into_map(value: Value) -> Options {
    match value {
        Value::Object(map) => map,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Map::new()
        }
    }
}

fn builtin_variants(
    profile: &ModelProfile,
    wire: ModelWire,
    fields: &ModelFields<'_>,
) -> Vec<(String, Value)> {
    let id = profile.api_id.as_str();
    let listed = listed_efforts(fields);
    let each = |efforts: Vec<String>, options: &dyn Fn(&str) -> Value| {
        efforts.into_iter().map(|effort| (effort.clone(), options(&effort))).collect()
    };
    let named = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    match wire {
        ModelWire::Chat => {
            let efforts = match &listed {
                Some(efforts) => efforts.clone(),
                None => named(&["low", "medium", "high"]),
            };
            each(efforts, &|effort| json!({ "reasoningEffort": effort }))
        }
        ModelWire::Responses => {
            let efforts = listed.unwrap_or_else(|| named(gpt_efforts(id)));
            each(
                efforts,
                &|effort| json!({ "reasoningEffort": effort, "reasoningSummary": "auto" }),
            )
        }
        ModelWire::Anthropic if is_adaptive_claude(id) => {
            let usual = || named(&["low", "medium", "high", "max"]);
            let efforts = listed.filter(|efforts| !efforts.is_empty()).unwrap_or_else(usual);
            let thinking = json!({ "type": "adaptive", "display": "summarized" });
            each(efforts, &|effort| json!({ "thinking": thinking, "effort": effort }))
        }
        ModelWire::Anthropic => {
            let most = match profile.limits.output {
                0 => u64::MAX,
                output => output.saturating_sub(1),
            };
            let options = |budget: u64| json!({ "thinking": { "type": "enabled", "budgetTokens": budget.min(most) } });
            CLAUDE_BUDGETS.map(|(name, budget)| (name.to_owned(), options(budget))).to_vec()
        }
        ModelWire::Gemini if id.contains("gemini-2.5") => {
            let options = |budget: u64| json!({ "thinkingConfig": { "includeThoughts": true, "thinkingBudget": budget } });
            GEMINI_BUDGETS.map(|(name, budget)| (name.to_owned(), options(budget))).to_vec()
        }
        ModelWire::Gemini => {
            let efforts = listed.unwrap_or_else(|| named(&["low", "high"]));
            each(
                efforts,
                &|effort| json!({ "thinkingConfig": { "includeThoughts": true, "thinkingLevel": effort } }),
            )
        }
        ModelWire::Scripted => Vec::new(),
    }
}

/// The efforts of the catalogue; nothing if it does not say which options a model has, empty if it has none.
fn listed_efforts(fields: &ModelFields<'_>) -> Option<Vec<String>> {
    let options = fields.value(&["reasoning_options"])?.as_array()?;
    let effort = options.iter().find(|option| option["type"] == "effort");
    let values = effort.and_then(|option| option["values"].as_array());
    let values = values.into_iter().flatten().filter_map(Value::as_str);
    // `default` is the word of sessions for no variant.
    Some(values.filter(|value| *value != "default").map(str::to_owned).collect())
}

fn gpt_efforts(id: &str) -> &'static [&'static str] {
    let minor = id.strip_prefix("gpt-5.").and_then(|rest| rest.split('-').next()?.parse().ok());
    match minor {
        Some(2_u32..) => &["none", "low", "medium", "high", "xhigh"],
        Some(_) => &["none", "low", "medium", "high"],
        None if id.starts_with("gpt-5") => &["minimal", "low", "medium", "high"],
        None => &["low", "medium", "high"],
    }
}

fn is_adaptive_claude(id: &str) -> bool {
    let Some(start) = id.find("claude-") else { return false };
    let mut numbers = id.get(start..).unwrap_or_default().split(['-', '.']).filter_map(|part| {
        // A date is no version.
        part.parse::<u32>().ok().filter(|number| *number < 100)
    });
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    version >= FIRST_ADAPTIVE_CLAUDE
}

/// Options that every request to a model of a family has unless the configuration says otherwise.
fn default_options(id: &str, wire: ModelWire) -> Value {
    match wire {
        ModelWire::Responses if id.starts_with("gpt-5.") && !id.contains("chat") => {
            let verbosity = if id.contains("codex") { "medium" } else { "low" };
            json!({ "reasoningEffort": "medium", "reasoningSummary": "auto", "textVerbosity": verbosity })
        }
        ModelWire::Responses if id.starts_with("gpt-5") && !id.contains("chat") => {
            json!({ "reasoningEffort": "medium", "reasoningSummary": "auto" })
        }
        ModelWire::Gemini if id.contains("gemini-3") => {
            json!({ "thinkingConfig": { "includeThoughts": true, "thinkingLevel": "high" } })
        }
        ModelWire::Gemini => json!({ "thinkingConfig": { "includeThoughts": true } }),
        ModelWire::Chat | ModelWire::Responses | ModelWire::Anthropic | ModelWire::Scripted => {
            json!({})
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variants(id: &str, package: &str, fields: Value) -> Vec<(String, Value)> {
        let mut fields = into_map(fields);
        fields.insert("reasoning".to_owned(), Value::from(true));
        let profile = ModelProfile::parse(id, &ModelFields(&fields), package).expect("a model");
        profile.variants.into_iter().map(|(name, map)| (name, Value::Object(map))).collect()
    }

    fn names(id: &str, package: &str, fields: Value) -> Vec<String> {
        variants(id, package, fields).into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn families_have_their_own_variants() {
        let (anthropic, openai) = ("@ai-sdk/anthropic", "@ai-sdk/openai");
        assert_eq!(names("claude-sonnet-4-5-20250929", anthropic, json!({})), ["high", "max"]);
        let adaptive = variants("claude-sonnet-5", anthropic, json!({}));
        assert_eq!(adaptive[0].1["effort"], "low");
        assert_eq!(adaptive[0].1["thinking"]["type"], "adaptive");
        let efforts = ["none", "low", "medium", "high", "xhigh"];
        assert_eq!(names("gpt-5.4-mini", openai, json!({})), efforts);
        assert_eq!(
            names("local", "@ai-sdk/openai-compatible", json!({})),
            ["low", "medium", "high"]
        );
        let gemini = variants("gemini-2.5-pro", "@ai-sdk/google", json!({}));
        assert_eq!(gemini[0].1["thinkingConfig"]["thinkingBudget"], 16_000);
    }

    #[test]
    fn catalogue_and_configuration_decide_before_the_family() {
        let listed = json!({
            "reasoning_options": [{ "type": "toggle" }, { "type": "effort", "values": ["high", "max"] }],
            "variants": { "max": { "disabled": true }, "high": { "top_k": 1 }, "own": { "x": 1 } } });
        let variants = variants("deepseek-v4-pro", "@ai-sdk/openai-compatible", listed);
        let wanted = [
            ("high".to_owned(), json!({ "reasoningEffort": "high", "top_k": 1 })),
            ("own".to_owned(), json!({ "x": 1 })),
        ];
        assert_eq!(variants, wanted);
        let toggle = json!({ "reasoning_options": [{ "type": "toggle" }] });
        assert_eq!(names("x", "@ai-sdk/openai-compatible", toggle), Vec::<String>::new());
    }
}
