//! The tokens of an answer in the form that messages store.

use serde_json::{Number, Value};
use turnstone_core::context::estimate_tokens;
use turnstone_core::model::{CacheTokenCounts, ExtraFields, TokenCounts};
use turnstone_engine::StepUsage;

use super::settings::CostFunction;
use crate::model::{ModelRequest, ModelUsage};

/// The field of token counts that marks an estimate.
const ESTIMATED: &str = "estimated";
/// The field of token counts that says that a price is unknown, so that the cost of zero is no price.
const COST_UNKNOWN: &str = "costUnknown";

/// Returns tokens and cost of an answer. If the provider gave no usage, it is estimated from the request and
/// `answered`, the text of the answer, and marked as an estimate.
pub(crate) fn step_usage(
    usage: Option<ModelUsage>,
    (request, answered): (&ModelRequest, usize),
    cost: &CostFunction,
) -> (Number, TokenCounts) {
    let is_estimated = usage.is_none();
    let usage = usage.unwrap_or_else(|| estimate_usage(request, answered));
    let price = usage.cost.or_else(|| cost(&usage)).filter(|price| price.is_finite());
    let mut tokens = token_counts(&usage);
    if is_estimated {
        tokens.extra.insert(ESTIMATED.to_owned(), Value::Bool(true));
    }
    if price.is_none() {
        tokens.extra.insert(COST_UNKNOWN.to_owned(), Value::Bool(true));
    }
    (cost_number(price.unwrap_or(0.0).max(0.0)), tokens)
}

/// Returns the usage in the form in which an open step reports it.
pub(crate) fn to_step_usage(cost: &Number, tokens: &TokenCounts) -> StepUsage {
    StepUsage { cost: Some(cost.clone()), tokens: Some(tokens.clone()) }
}

fn estimate_usage(request: &ModelRequest, answered: usize) -> ModelUsage {
    let messages = serde_json::to_string(&request.messages).unwrap_or_default();
    let system: u64 = request.system.iter().map(|text| estimate_tokens(text)).sum();
    let output = (answered as u64).div_ceil(4);
    ModelUsage { input: estimate_tokens(&messages) + system, output, ..ModelUsage::default() }
}

/// Splits inclusive counts: what was read from a cache is no input, and reasoning is no output.
fn token_counts(usage: &ModelUsage) -> TokenCounts {
    let number = |value: u64| Number::from(value);
    let cached = usage.cache_read.saturating_add(usage.cache_write);
    TokenCounts {
        total: Some(number(usage.input.saturating_add(usage.output))),
        input: number(usage.input.saturating_sub(cached)),
        output: number(usage.output.saturating_sub(usage.reasoning)),
        reasoning: number(usage.reasoning),
        cache: CacheTokenCounts {
            read: number(usage.cache_read),
            write: number(usage.cache_write),
            extra: ExtraFields::new(),
        },
        extra: ExtraFields::new(),
    }
}

fn cost_number(cost: f64) -> Number {
    match cost == 0.0 {
        true => Number::from(0),
        false => Number::from_f64(cost).unwrap_or_else(|| Number::from(0)),
    }
}
