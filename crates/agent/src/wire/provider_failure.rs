//! What a provider says when it gives no answer, and what the loop should do about it.

use std::time::Duration;

use regex_automata::meta::Regex;
use serde_json::Value;

use crate::model::ModelErrorKind;

/// A failure in the words of a provider, from an HTTP response or from within a stream.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ProviderFailure {
    /// The status of the response; within a stream, the status that the error names.
    pub(super) status: Option<u16>,
    /// The codes and types that the provider gave.
    pub(super) codes: Vec<String>,
    pub(super) message: String,
    /// How long to wait, where the body says so.
    pub(super) retry_after: Option<Duration>,
    /// The connection ended before the answer did.
    pub(super) is_cut: bool,
}

/// Codes after which the same request fails again.
const FINAL_CODES: [&str; 6] = [
    "insufficient_quota",
    "usage_not_included",
    "invalid_prompt",
    "invalid_request_error",
    "not_found_error",
    "billing_error",
];
/// Codes after which the same request may succeed.
const TRANSIENT_CODES: [&str; 9] = [
    "server_error",
    "server_is_overloaded",
    "overloaded_error",
    "api_error",
    "rate_limit_error",
    "rate_limit_exceeded",
    "timeout_error",
    "unavailable",
    "resource_exhausted",
];
const KEY_CODES: [&str; 5] = [
    "authentication_error",
    "permission_error",
    "invalid_api_key",
    "unauthenticated",
    "permission_denied",
];
const OVERFLOW_CODES: [&str; 3] =
    ["context_length_exceeded", "request_too_large", "model_context_window_exceeded"];

/// How providers say that a conversation does not fit, in lower case.
const OVERFLOW_TEXTS: &str = concat!(
    r"prompt is too long|request_too_large|input is too long for requested model",
    r"|exceeds the context window|exceeds (the )?(model's )?maximum context length",
    r"|maximum context length is \d+ tokens|input token count.*exceeds the maximum",
    r"|tokens in request more than max tokens allowed|maximum prompt length is \d+",
    r"|reduce the length of the messages|exceeds (the )?maximum allowed input length",
    r"|input \(\d+ tokens\) is longer than the model's context length|exceeds the limit of \d+",
    r"|exceeds the available context size|greater than the context length",
    r"|context window exceeds limit|exceeded model token limit|request entity too large",
    r"|context length is only \d+ tokens|input length.*exceeds.*context length|prompt too long",
    r"|exceeded (max )?context length|too large for model with \d+ maximum context length",
    r"|prompt has \d+ tokens, but the configured context size is \d+",
    r"|model_context_window_exceeded|context_length_exceeded|too many tokens|token limit exceeded",
);
/// What looks like an overflow but asks to wait.
const THROTTLE_TEXTS: &str =
    r"^(throttling error|service unavailable)|rate limit|too many requests";

impl ProviderFailure {
    /// Returns the failure of a stream that ended before the answer.
    pub(super) fn cut(message: &str) -> Self {
        Self { message: message.to_owned(), is_cut: true, ..Self::default() }
    }

    /// Reads the failure in the JSON of a response or of an event.
    pub(super) fn from_json(value: &Value) -> Self {
        let error = Some(&value["error"]).filter(|error| !error.is_null()).unwrap_or(value);
        let text =
            |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        let messages = [error, &error["message"], &value["message"], &value["detail"]];
        let message = messages.into_iter().find_map(text);
        let codes = [&error["code"], &error["type"], &error["status"], &value["code"]];
        let retry_after = error["details"].as_array().and_then(|details| {
            details.iter().find_map(|detail| seconds(detail["retryDelay"].as_str()?))
        });
        Self {
            status: error["code"].as_u64().and_then(|code| u16::try_from(code).ok()),
            codes: codes.into_iter().filter_map(text).collect(),
            message: message
                .unwrap_or_else(|| "the provider reports an error without words".into()),
            retry_after,
            is_cut: false,
        }
    }

    /// Decides what the loop does. `has_body` is false for a response without a body.
    pub(super) fn kind(&self, has_body: bool) -> ModelErrorKind {
        let has_code = |known: &[&str]| {
            let is_known = |code: &String| known.contains(&code.to_lowercase().as_str());
            self.codes.iter().any(is_known)
        };
        if self.is_cut {
            return ModelErrorKind::Retryable;
        }
        let is_bare = !has_body && matches!(self.status, Some(400));
        if has_code(&OVERFLOW_CODES) || self.status == Some(413) || is_bare || self.says_overflow()
        {
            return ModelErrorKind::ContextOverflow;
        }
        if has_code(&KEY_CODES) || matches!(self.status, Some(401 | 403)) {
            return ModelErrorKind::Authentication;
        }
        if has_code(&["server_error", "server_is_overloaded"]) {
            return ModelErrorKind::Retryable;
        }
        if has_code(&["insufficient_quota", "usage_not_included", "invalid_prompt"]) {
            return ModelErrorKind::Rejected;
        }
        match self.status {
            Some(408 | 409 | 429 | 500..) => ModelErrorKind::Retryable,
            Some(_) => ModelErrorKind::Rejected,
            None if has_code(&TRANSIENT_CODES) => ModelErrorKind::Retryable,
            None if has_code(&FINAL_CODES) => ModelErrorKind::Rejected,
            // A provider that had accepted the request failed at it.
            None => ModelErrorKind::Retryable,
        }
    }

    fn says_overflow(&self) -> bool {
        let text = self.message.to_lowercase();
        // Limits per minute are often worded like limits per request.
        self.status != Some(429)
            && is_match(OVERFLOW_TEXTS, &text)
            && !is_match(THROTTLE_TEXTS, &text)
    }
}

/// Errors are rare: the expression is built for each.
fn is_match(expression: &str, text: &str) -> bool {
    Regex::new(expression).is_ok_and(|expression| expression.is_match(text))
}

/// Reads `1.5s` or `3`.
fn seconds(text: &str) -> Option<Duration> {
    let seconds: f64 = text.trim().trim_end_matches('s').parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}

/// Reads how long a response asks to wait from its headers.
pub(super) fn retry_after(header: impl Fn(&str) -> Option<String>) -> Option<Duration> {
    let milliseconds = header("retry-after-ms").and_then(|value| value.trim().parse::<f64>().ok());
    if let Some(time) = milliseconds {
        return Duration::try_from_secs_f64(time / 1000.0).ok();
    }
    let value = header("retry-after")?;
    if let Some(time) = seconds(&value) {
        return Some(time);
    }
    // A date counts from the clock of the provider.
    let (until, now) = (http_date(&value)?, http_date(&header("date")?)?);
    Some(Duration::from_secs(until.saturating_sub(now)))
}

/// Reads `Sun, 06 Nov 1994 08:49:37 GMT` as seconds since 1970.
fn http_date(text: &str) -> Option<u64> {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let words: Vec<&str> = text.split_whitespace().collect();
    let [_, day, month, year, time, "GMT"] = words[..] else { return None };
    let month = 1 + MONTHS.iter().position(|known| *known == month)? as u64;
    let (day, year) = (day.parse::<u64>().ok()?, year.parse::<u64>().ok()?);
    let times: Vec<u64> = time.split(':').filter_map(|part| part.parse().ok()).collect();
    let [hours, minutes, seconds] = times[..] else { return None };
    // Years begin in March here, so that a leap day is the last of its year.
    let shifted = if month <= 2 { year.checked_sub(1)? } else { year };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day.checked_sub(1)?;
    let days = 365 * shifted + shifted / 4 - shifted / 100 + shifted / 400 + day_of_year;
    let days = days.checked_sub(719_468)?;
    Some(((days * 24 + hours) * 60 + minutes) * 60 + seconds)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn kind(status: Option<u16>, body: &Value) -> ModelErrorKind {
        let failure = ProviderFailure::from_json(body);
        ProviderFailure { status: status.or(failure.status), ..failure }.kind(true)
    }

    #[test]
    fn every_known_overflow_text_is_recognised() {
        let texts = [
            "prompt is too long: 210000 tokens > 200000 maximum",
            "request_too_large",
            "Input is too long for requested model.",
            "Your input exceeds the context window of this model",
            "This exceeds the model's maximum context length",
            "exceeds maximum context length",
            "This model's maximum context length is 8192 tokens",
            "The input token count (1200000) exceeds the maximum",
            "tokens in request more than max tokens allowed",
            "maximum prompt length is 131072",
            "Please reduce the length of the messages",
            "exceeds the maximum allowed input length",
            "Input (9000 tokens) is longer than the model's context length",
            "exceeds the limit of 128000",
            "the request exceeds the available context size",
            "is greater than the context length",
            "context window exceeds limit",
            "Exceeded model token limit",
            "Request Entity Too Large",
            "context length is only 4096 tokens",
            "input length 9000 exceeds the context length",
            "prompt too long; exceeded max context length",
            "too large for model with 4096 maximum context length",
            "prompt has 9000 tokens, but the configured context size is 4096",
            "model_context_window_exceeded",
            "Too many tokens",
            "token limit exceeded",
        ];
        for text in texts {
            let body = json!({"error": {"message": text, "type": "invalid_request_error"}});
            assert_eq!(kind(Some(400), &body), ModelErrorKind::ContextOverflow, "{text}");
        }
        for text in
            ["Rate limit reached: too many tokens per minute", "Throttling error: too many tokens"]
        {
            let body = json!({"error": {"message": text}});
            assert_eq!(kind(Some(429), &body), ModelErrorKind::Retryable, "{text}");
        }
        let bare = ProviderFailure { status: Some(400), ..ProviderFailure::default() };
        assert_eq!(bare.kind(false), ModelErrorKind::ContextOverflow);
        assert_eq!(bare.kind(true), ModelErrorKind::Rejected);
    }

    #[test]
    fn status_and_code_decide_what_is_done() {
        use ModelErrorKind::{Authentication, ContextOverflow, Rejected, Retryable};
        let code = |code: &str| json!({"error": {"message": "x", "code": code}});
        let cases = [
            (Some(400), code("context_length_exceeded"), ContextOverflow),
            (Some(413), code("a"), ContextOverflow),
            (Some(400), code("a"), Rejected),
            (Some(404), code("a"), Rejected),
            (Some(401), code("a"), Authentication),
            (Some(403), code("a"), Authentication),
            (Some(429), code("a"), Retryable),
            (Some(429), code("insufficient_quota"), Rejected),
            (Some(400), code("server_error"), Retryable),
            (Some(503), code("a"), Retryable),
            (Some(529), code("a"), Retryable),
            (None, code("invalid_prompt"), Rejected),
            (None, code("server_is_overloaded"), Retryable),
            (None, json!({"error": {"type": "overloaded_error", "message": "x"}}), Retryable),
            (None, json!({"error": {"type": "invalid_request_error", "message": "x"}}), Rejected),
            (
                None,
                json!({"error": {"type": "authentication_error", "message": "x"}}),
                Authentication,
            ),
            (None, json!({"error": {"code": 502, "message": "x"}}), Retryable),
            (None, json!({"error": {"code": 400, "message": "x"}}), Rejected),
            (None, json!({"error": "broken"}), Retryable),
        ];
        for (status, body, expected) in cases {
            assert_eq!(kind(status, &body), expected, "{status:?} {body}");
        }
    }

    #[test]
    fn messages_are_found_where_providers_put_them() {
        for body in [
            json!({"error": {"message": "m"}}),
            json!({"error": "m"}),
            json!({"message": "m"}),
            json!({"detail": "m"}),
            json!({"type": "error", "code": "c", "message": "m"}),
        ] {
            assert_eq!(ProviderFailure::from_json(&body).message, "m", "{body}");
        }
        let details = json!([{"@type": "x"}, {"retryDelay": "3.5s"}]);
        let body =
            json!({"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "details": details}});
        let failure = ProviderFailure::from_json(&body);
        assert_eq!(failure.status, Some(429));
        assert_eq!(failure.retry_after, Some(Duration::from_millis(3500)));
    }

    #[test]
    fn retry_headers_are_read_in_all_their_forms() {
        let wait = |headers: &[(&str, &str)]| {
            let find = |name: &str| headers.iter().find(|(known, _)| *known == name);
            retry_after(|name| find(name).map(|(_, value)| (*value).to_owned()))
        };
        assert_eq!(
            wait(&[("retry-after-ms", "250"), ("retry-after", "9")]),
            Some(Duration::from_millis(250))
        );
        assert_eq!(wait(&[("retry-after", "9")]), Some(Duration::from_secs(9)));
        let dates = [
            ("retry-after", "Mon, 01 Mar 2027 00:00:10 GMT"),
            ("date", "Sun, 28 Feb 2027 23:59:50 GMT"),
        ];
        assert_eq!(wait(&dates), Some(Duration::from_secs(20)));
        let past = [
            ("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT"),
            ("date", "Sun, 28 Feb 2027 23:59:50 GMT"),
        ];
        assert_eq!(wait(&past), Some(Duration::ZERO));
        assert_eq!(http_date("Sun, 06 Nov 1994 08:49:37 GMT"), Some(784_111_777));
        for value in
            ["", "soon", "-1", "Sun, 06 Nov", "Sun, 06 Nov 99999999999999999999 08:49:37 GMT"]
        {
            assert_eq!(wait(&[("retry-after", value)]), None, "{value}");
        }
    }
}
