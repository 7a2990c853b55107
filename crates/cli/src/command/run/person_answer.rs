//! What a person is asked during a run, and what the answer means.

use serde_json::Value;
use turnstone_core::model::{
    PermissionAsk, PermissionReply, Question, QuestionAsk, RequestBody, RequestId, RequestState,
    UserRequest,
};
use turnstone_engine::{Engine, PermissionError};
use turnstone_store::Context;

use crate::text;
use crate::ui::{DIM_STYLE, HEADING_STYLE, WARNING_STYLE, apply_style};

/// Lines of a difference that are shown.
const MAX_DIFF_LINES: usize = 40;

/// A request that a person is asked about.
pub(super) struct OpenQuestion {
    pub(super) request: UserRequest,
    /// The answers to the questions so far.
    answers: Vec<Vec<String>>,
}

/// What a typed line means.
pub(super) enum TypedAnswer {
    /// It cannot be understood: ask again.
    Unclear,
    /// It answers one of several questions: ask the next.
    More,
    /// The request has its answer.
    Decided(Decision),
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Decision {
    /// To a permission request, with words for the agent.
    Permission(PermissionReply, Option<String>),
    /// The labels, one list for each question.
    Answers(Vec<Vec<String>>),
    /// The questions are dismissed.
    Dismissed,
}

impl OpenQuestion {
    pub(super) fn new(request: UserRequest) -> Self {
        Self { request, answers: Vec::new() }
    }

    /// Returns the lines that say what is asked for.
    pub(super) fn lines(&self) -> Vec<String> {
        match &self.request.body {
            RequestBody::Permission(ask) => permission_lines(ask),
            RequestBody::Question(ask) => question_lines(ask, self.answers.len()),
        }
    }

    /// Returns what stands before the answer.
    pub(super) fn prompt(&self) -> String {
        match &self.request.body {
            RequestBody::Permission(ask) => {
                let always = match ask.always.as_slice() {
                    [] => String::new(),
                    [all] if all == "*" => "always for this project [a], ".to_owned(),
                    patterns => {
                        let patterns = text::sanitize_line(&patterns.join(", "));
                        format!("always {patterns} [a], ")
                    }
                };
                format!("Allow once [o], {always}reject [r], reject with words [r WORDS]? ")
            }
            RequestBody::Question(ask) => match self.current(ask).and_then(|it| it.multiple) {
                Some(true) => "Numbers, or your own words (empty: dismiss)? ".to_owned(),
                Some(false) | None => "Number, or your own words (empty: dismiss)? ".to_owned(),
            },
        }
    }

    /// Reads a typed line.
    pub(super) fn read(&mut self, line: &str) -> TypedAnswer {
        match &self.request.body {
            RequestBody::Permission(ask) => read_permission(line, !ask.always.is_empty()),
            RequestBody::Question(ask) => {
                if line.is_empty() {
                    return TypedAnswer::Decided(Decision::Dismissed);
                }
                let Some(question) = self.current(ask) else {
                    return TypedAnswer::Decided(Decision::Dismissed);
                };
                let Some(chosen) = read_choice(line, question) else { return TypedAnswer::Unclear };
                let count = ask.questions.len();
                self.answers.push(chosen);
                match self.answers.len() < count {
                    true => TypedAnswer::More,
                    false => TypedAnswer::Decided(Decision::Answers(self.answers.clone())),
                }
            }
        }
    }

    fn current<'q>(&self, ask: &'q QuestionAsk) -> Option<&'q Question> {
        ask.questions.get(self.answers.len())
    }
}

/// Stores an answer.
///
/// # Errors
///
/// The caller may not answer, or the database refused.
pub(super) fn store_answer(
    engine: &Engine,
    ctx: &Context,
    request: &UserRequest,
    decision: &Decision,
) -> Result<(), PermissionError> {
    let permissions = engine.permissions();
    match (&request.id, decision) {
        (RequestId::Permission(id), Decision::Permission(reply, words)) => {
            permissions.reply(ctx, id, *reply, words.as_deref()).map(drop)
        }
        (RequestId::Permission(id), Decision::Answers(_) | Decision::Dismissed) => {
            permissions.reply(ctx, id, PermissionReply::Reject, None).map(drop)
        }
        (RequestId::Question(_), Decision::Answers(answers)) => {
            let state = RequestState::Answered { answers: answers.clone() };
            permissions.answer_question(ctx, &request.id, state)
        }
        (RequestId::Question(_), Decision::Dismissed | Decision::Permission(..)) => {
            permissions.answer_question(ctx, &request.id, RequestState::Rejected)
        }
    }
}

fn permission_lines(ask: &PermissionAsk) -> Vec<String> {
    let permission = text::sanitize_line(&ask.permission);
    let mut lines = vec![format!(
        "{} {}",
        apply_style(WARNING_STYLE, "permission:"),
        apply_style(HEADING_STYLE, permission)
    )];
    let field = |key: &str| ask.metadata.get(key).and_then(Value::as_str);
    let whole = field("command").or_else(|| field("filepath")).map(str::to_owned);
    let what = whole.unwrap_or_else(|| ask.patterns.join(", "));
    lines.extend(text::sanitize_block(&what).lines().map(|line| format!("  {line}")));
    if let Some(diff) = field("diff") {
        let diff = text::sanitize_block(diff);
        let all: Vec<&str> = diff.lines().skip_while(|line| !line.starts_with("@@")).collect();
        let shown = all.iter().take(MAX_DIFF_LINES);
        lines.extend(shown.map(|line| apply_style(DIM_STYLE, format!("  {line}"))));
        if all.len() > MAX_DIFF_LINES {
            lines.push(format!("  … {} more lines", all.len() - MAX_DIFF_LINES));
        }
    }
    lines
}

fn question_lines(ask: &QuestionAsk, number: usize) -> Vec<String> {
    let Some(question) = ask.questions.get(number) else { return Vec::new() };
    let words = text::sanitize_block(&question.question);
    let mut lines = vec![format!("{} {words}", apply_style(WARNING_STYLE, "question:"))];
    for (index, option) in question.options.iter().enumerate() {
        let (label, about) =
            (text::sanitize_line(&option.label), text::sanitize_line(&option.description));
        lines.push(format!("  {} {label}  {}", index + 1, apply_style(DIM_STYLE, about)));
    }
    lines
}

fn read_permission(line: &str, can_always: bool) -> TypedAnswer {
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let words = Some(rest.trim().to_owned()).filter(|words| !words.is_empty());
    let reply = match word.to_lowercase().as_str() {
        "o" | "once" | "y" | "yes" => PermissionReply::Once,
        "a" | "always" if can_always => PermissionReply::Always,
        // The end of the input is no consent.
        "r" | "reject" | "n" | "no" | "" => PermissionReply::Reject,
        _ => return TypedAnswer::Unclear,
    };
    match (reply, words) {
        (PermissionReply::Reject, words) => {
            TypedAnswer::Decided(Decision::Permission(reply, words))
        }
        (PermissionReply::Once | PermissionReply::Always, None) => {
            TypedAnswer::Decided(Decision::Permission(reply, None))
        }
        // Consent with more words is not what was offered.
        (PermissionReply::Once | PermissionReply::Always, Some(_)) => TypedAnswer::Unclear,
    }
}

/// The labels of the chosen numbers, else the words themselves; `None` for a number that is not offered.
fn read_choice(line: &str, question: &Question) -> Option<Vec<String>> {
    let numbers: Option<Vec<usize>> =
        line.split([',', ' ']).filter(|it| !it.is_empty()).map(|it| it.parse().ok()).collect();
    let Some(numbers) = numbers else {
        let is_free = question.custom != Some(false);
        return is_free.then(|| vec![line.to_owned()]);
    };
    if numbers.len() > 1 && question.multiple != Some(true) {
        return None;
    }
    let label = |number: &usize| {
        let index = number.checked_sub(1)?;
        question.options.get(index).map(|option| option.label.clone())
    };
    numbers.iter().map(label).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_was_offered_is_consent() {
        let read = |line: &str, can_always| match read_permission(line, can_always) {
            TypedAnswer::Decided(Decision::Permission(reply, words)) => Some((reply, words)),
            TypedAnswer::Decided(_) | TypedAnswer::Unclear | TypedAnswer::More => None,
        };
        assert_eq!(read("o", true), Some((PermissionReply::Once, None)));
        assert_eq!(read("Always", true), Some((PermissionReply::Always, None)));
        assert_eq!(read("a", false), None);
        assert_eq!(read("yes please", true), None);
        assert_eq!(read("", true), Some((PermissionReply::Reject, None)));
        let words = Some("use make".to_owned());
        assert_eq!(read("r use make", true), Some((PermissionReply::Reject, words)));
    }

    #[test]
    fn numbers_choose_labels_and_words_answer_freely() {
        let question = json!({ "question": "?", "header": "h",
            "options": [{ "label": "red", "description": "" }, { "label": "blue", "description": "" }] });
        let mut question: Question = serde_json::from_value(question).expect("a question");
        assert_eq!(read_choice("2", &question), Some(vec!["blue".to_owned()]));
        assert_eq!(read_choice("3", &question), None);
        assert_eq!(read_choice("1,2", &question), None);
        assert_eq!(read_choice("green", &question), Some(vec!["green".to_owned()]));
        question.multiple = Some(true);
        assert_eq!(read_choice("1, 2", &question), Some(vec!["red".to_owned(), "blue".to_owned()]));
    }
}
