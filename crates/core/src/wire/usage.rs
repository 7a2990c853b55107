//! Cost and tokens of a session as OpenCode shows them.

use serde_json::{Number, Value, json};

use crate::model::{ImportedUsage, PartBody, Session, SessionUsage, TokenCounts};

/// Returns the cost and the tokens to show for a session whose parts add up to `usage`.
///
/// While the parts add up to what they did at the import, the foreign figures are given exactly as
/// they were; afterwards, the foreign figures plus what was added or taken away since.
#[must_use]
pub fn cost_and_tokens(session: &Session, usage: SessionUsage) -> (Number, Value) {
    displayed_usage(session.usage_base.as_ref(), usage)
}

/// As [`cost_and_tokens`], from the usage that an import brought.
pub(super) fn displayed_usage(
    base: Option<&ImportedUsage>,
    usage: SessionUsage,
) -> (Number, Value) {
    let Some(base) = base else {
        return (usage.cost_number(), tokens_info(usage));
    };
    let since = usage.minus(base.counted);
    let moved = since != SessionUsage::default();
    let cost = match &base.cost {
        Some(cost) if !moved => cost.clone(),
        Some(cost) => {
            SessionUsage::from_step(cost, &TokenCounts::default()).plus(since).cost_number()
        }
        None => usage.cost_number(),
    };
    let tokens = match &base.tokens {
        Some(tokens) if !moved => serde_json::to_value(tokens).unwrap_or_default(),
        Some(tokens) => tokens_info(SessionUsage::from_step(&Number::from(0), tokens).plus(since)),
        None => tokens_info(usage),
    };
    (cost, tokens)
}

/// Token counts in OpenCode's form.
#[must_use]
pub fn tokens_info(usage: SessionUsage) -> Value {
    json!({
        "input": usage.input,
        "output": usage.output,
        "reasoning": usage.reasoning,
        "cache": { "read": usage.cache_read, "write": usage.cache_write },
    })
}

/// Returns what a part adds to its session's usage: that of its step, if it ends one.
#[must_use]
pub fn part_usage(body: &PartBody) -> SessionUsage {
    if let PartBody::StepFinish(step) = body {
        return SessionUsage::from_step(&step.cost, &step.tokens);
    }
    SessionUsage::default()
}
