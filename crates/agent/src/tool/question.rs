//! The tool `question`: lets a person choose.

use std::path::PathBuf;

use serde_json::{Value, json};
use turnstone_core::model::{ExtraFields, Question, QuestionOption};

use super::input::ToolInput;
use super::schema::{array, boolean, object, string, tool_schema};
use super::{Tool, ToolError, ToolHost, ToolReply, ToolScope};
use crate::model::ToolSchema;

/// The name of the tool.
const NAME: &str = "question";

const DESCRIPTION: &str = "Asks the user one or more questions and waits for the answers.\n\n\
    - Use it when a decision is the user's: unclear requirements, alternatives with different \
    consequences.\n\
    - The user can always type an answer of their own, so offer no option such as \"other\".\n\
    - Put the option you recommend first and say so in its label.";

/// Asks a person.
pub struct QuestionTool;

impl Tool for QuestionTool {
    fn schema(&self) -> ToolSchema {
        let option = object(
            &json!({
                "label": string("What the user chooses, in one to five words"),
                "description": string("What the choice means"),
            }),
            &["label", "description"],
        );
        let question = object(
            &json!({
                "question": string("The whole question"),
                "header": string("A label of at most 30 characters"),
                "options": array(&option, "What the user can choose"),
                "multiple": boolean("Several options may be chosen (false)"),
            }),
            &["question", "header", "options"],
        );
        let properties = json!({ "questions": array(&question, "The questions, asked together") });
        tool_schema(NAME, DESCRIPTION, &properties, &["questions"])
    }

    fn written_paths(&self, _scope: &ToolScope, _input: &Value) -> Option<Vec<PathBuf>> {
        Some(Vec::new())
    }

    fn run(&self, host: &dyn ToolHost, input: &Value) -> Result<ToolReply, ToolError> {
        let items = ToolInput::new(NAME, input)?.objects("questions")?;
        let questions: Vec<Question> =
            items.iter().map(read_question).collect::<Result<_, ToolError>>()?;
        if questions.is_empty() {
            return Err(ToolError::failed("At least one question is needed."));
        }
        let answers = host.ask_questions(questions.clone())?;
        let answer_of = |index: usize| match answers.get(index) {
            Some(chosen) if !chosen.is_empty() => chosen.join(", "),
            _ => "Unanswered".to_owned(),
        };
        let pairs = questions.iter().enumerate();
        let pairs: Vec<String> = pairs
            .map(|(index, asked)| format!("\"{}\"=\"{}\"", asked.question, answer_of(index)))
            .collect();
        let metadata = json!({ "answers": answers });
        Ok(ToolReply::new(
            format!(
                "Asked {} question{}",
                questions.len(),
                if questions.len() == 1 { "" } else { "s" }
            ),
            format!(
                "The user has answered: {}. Continue with these answers in mind.",
                pairs.join(", ")
            ),
            metadata,
        ))
    }
}

fn read_question(item: &ToolInput<'_>) -> Result<Question, ToolError> {
    let option = |item: ToolInput<'_>| {
        Ok(QuestionOption {
            label: item.string("label")?.to_owned(),
            description: item.string("description")?.to_owned(),
            extra: ExtraFields::new(),
        })
    };
    let options = item.objects("options")?.into_iter().map(option);
    Ok(Question {
        question: item.string("question")?.to_owned(),
        header: item.string("header")?.to_owned(),
        options: options.collect::<Result<_, ToolError>>()?,
        multiple: item.optional_flag("multiple")?,
        custom: None,
        extra: ExtraFields::new(),
    })
}
