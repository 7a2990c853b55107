//! What an open step has used so far, so that it is known however the step ends (R28).

use serde_json::Number;
use turnstone_core::model::{MessageBody, Part, PartBody, TokenCounts};
use turnstone_store::MessageWithParts;

/// What a model call used so far; what is not known is left out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepUsage {
    /// What it cost.
    pub cost: Option<Number>,
    /// Its tokens.
    pub tokens: Option<TokenCounts>,
}

impl StepUsage {
    /// Writes into an answer what its open step used so far; false, and nothing is changed, if it has none.
    pub(super) fn apply_to(self, found: &mut MessageWithParts) -> bool {
        let MessageBody::Assistant(said) = &mut found.message.body else { return false };
        if !has_open_step(&found.parts) {
            return false;
        }
        if let Some(cost) = self.cost {
            said.cost = add_numbers(&sum_finished_costs(&found.parts), &cost);
        }
        if let Some(tokens) = self.tokens {
            said.tokens = tokens;
        }
        true
    }
}

/// What was reported of the open step of an answer; zeros if nothing was.
pub(super) fn reported_usage(found: MessageWithParts) -> (Number, TokenCounts) {
    let is_first = found.parts.iter().all(|part| !matches!(part.body, PartBody::StepFinish(_)));
    match found.message.body {
        MessageBody::Assistant(said) if is_first => (said.cost, said.tokens),
        // What its answer says is that of the steps before it.
        MessageBody::Assistant(_) | MessageBody::User(_) => {
            (Number::from(0), TokenCounts::default())
        }
    }
}

/// True if the last step of an answer has not ended.
fn has_open_step(parts: &[Part]) -> bool {
    let mark = |part: &&Part| matches!(part.body, PartBody::StepStart(_) | PartBody::StepFinish(_));
    let last = parts.iter().rev().find(mark);
    last.is_some_and(|part| matches!(part.body, PartBody::StepStart(_)))
}

/// What the steps of an answer that have ended cost.
pub(super) fn sum_finished_costs(parts: &[Part]) -> Number {
    let mut sum = Number::from(0);
    for part in parts {
        if let PartBody::StepFinish(finish) = &part.body {
            sum = add_numbers(&sum, &finish.cost);
        }
    }
    sum
}

/// The sum of two amounts.
pub(super) fn add_numbers(one: &Number, other: &Number) -> Number {
    if let (Some(one), Some(other)) = (one.as_i64(), other.as_i64()) {
        return Number::from(one.saturating_add(other));
    }
    let sum = one.as_f64().unwrap_or(0.0) + other.as_f64().unwrap_or(0.0);
    Number::from_f64(sum).unwrap_or_else(|| other.clone())
}
