//! Cost and tokens of a session as OpenCode shows them.

use serde_json::{Number, Value, json};

use crate::model::{PartBody, Session, Tokens, Usage};

/// Returns the cost and the tokens to show for a session whose parts add up to `usage`.
///
/// While the parts add up to what they did at the import, the foreign figures are given exactly as
/// they were; afterwards, the foreign figures plus what was added or taken away since.
#[must_use]
pub fn cost_and_tokens(session: &Session, usage: Usage) -> (Number, Value) {
    let Some(base) = &session.usage_base else {
        return (usage.cost_number(), tokens_of(usage));
    };
    let since = usage.minus(base.counted);
    let moved = since != Usage::default();
    let cost = match &base.cost {
        Some(cost) if !moved => cost.clone(),
        Some(cost) => Usage::of_step(cost, &Tokens::default()).plus(since).cost_number(),
        None => usage.cost_number(),
    };
    let tokens = match &base.tokens {
        Some(tokens) if !moved => serde_json::to_value(tokens).unwrap_or_default(),
        Some(tokens) => tokens_of(Usage::of_step(&Number::from(0), tokens).plus(since)),
        None => tokens_of(usage),
    };
    (cost, tokens)
}

/// Token counts in OpenCode's form.
#[must_use]
pub fn tokens_of(usage: Usage) -> Value {
    json!({
        "input": usage.input,
        "output": usage.output,
        "reasoning": usage.reasoning,
        "cache": { "read": usage.cache_read, "write": usage.cache_write },
    })
}

/// Returns what a part adds to its session's usage: that of its step, if it ends one.
#[must_use]
pub fn usage_of(body: &PartBody) -> Usage {
    if let PartBody::StepFinish(step) = body {
        return Usage::of_step(&step.cost, &step.tokens);
    }
    Usage::default()
}
