//! What a run used: tokens and cost of all its answers, those of subagents included.

use std::collections::HashMap;

use serde_json::Value;
use turnstone_core::id::MessageId;
use turnstone_core::model::{AssistantMessage, Message, MessageBody};

use crate::number_format;
use crate::time_format;

/// The fields of token counts that say what is not known exactly.
const COST_UNKNOWN: &str = "costUnknown";
const ESTIMATED: &str = "estimated";

/// What the answers used so far; the newest state of each counts.
#[derive(Default)]
pub(super) struct UsageTotal {
    answers: HashMap<MessageId, AnswerUsage>,
}

#[derive(Clone, Copy, Default)]
struct AnswerUsage {
    input: i64,
    output: i64,
    cost: f64,
    is_cost_unknown: bool,
    is_estimated: bool,
}

impl UsageTotal {
    /// Takes the newest state of an answer.
    pub(super) fn take(&mut self, message: &Message) {
        if let MessageBody::Assistant(said) = &message.body {
            self.answers.insert(message.id.clone(), answer_usage(said));
        }
    }

    /// Returns the totals for people; what is unknown is called so, and is never zero.
    pub(super) fn describe(&self) -> String {
        let mut total = AnswerUsage::default();
        for answer in self.answers.values() {
            total.input += answer.input;
            total.output += answer.output;
            total.cost += answer.cost;
            total.is_cost_unknown |= answer.is_cost_unknown;
            total.is_estimated |= answer.is_estimated;
        }
        let about = if total.is_estimated { "about " } else { "" };
        let (input, output) =
            (number_format::format_count(total.input), number_format::format_count(total.output));
        let cost = match (total.is_cost_unknown, total.cost > 0.0) {
            (true, false) => "cost unknown".to_owned(),
            (true, true) => {
                let known = number_format::format_cost(total.cost);
                format!("{known} and an unknown cost")
            }
            (false, _) => number_format::format_cost(total.cost),
        };
        format!("{about}{input} tokens in, {output} out · {cost}")
    }
}

fn answer_usage(said: &AssistantMessage) -> AnswerUsage {
    let number = time_format::number_to_millis;
    let tokens = &said.tokens;
    let has = |key: &str| tokens.extra.get(key) == Some(&Value::Bool(true));
    AnswerUsage {
        input: number(&tokens.input) + number(&tokens.cache.read) + number(&tokens.cache.write),
        output: number(&tokens.output) + number(&tokens.reasoning),
        cost: said.cost.as_f64().unwrap_or(0.0),
        is_cost_unknown: has(COST_UNKNOWN),
        is_estimated: has(ESTIMATED),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn answer(id: &str, cost: f64, tokens: &Value) -> Message {
        let body = json!({ "id": id, "sessionID": "ses_1", "role": "assistant", "time": { "created": 1 },
            "parentID": "msg_0", "modelID": "m", "providerID": "p", "mode": "build",
            "path": { "cwd": "/", "root": "/" }, "cost": cost, "tokens": tokens });
        turnstone_core::wire::parse_message(body).expect("a message")
    }

    #[test]
    fn unknown_cost_is_never_zero() {
        let mut total = UsageTotal::default();
        let cache = json!({ "read": 100, "write": 0 });
        let known = json!({ "input": 900, "output": 30, "reasoning": 20, "cache": cache });
        total.take(&answer("msg_1", 0.0, &known));
        total.take(&answer("msg_1", 0.25, &known));
        assert_eq!(total.describe(), "1,000 tokens in, 50 out · $0.25");
        let unknown = json!({ "input": 1, "output": 1, "reasoning": 0, "cache": { "read": 0, "write": 0 },
            "costUnknown": true, "estimated": true });
        total.take(&answer("msg_2", 0.0, &unknown));
        assert_eq!(total.describe(), "about 1,001 tokens in, 51 out · $0.25 and an unknown cost");
    }
}
