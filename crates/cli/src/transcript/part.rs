//! Parts of a message as lines.

use turnstone_core::model::{FilePart, PartBody, Patch, StepFinish, Text};

use super::call;
use super::page::Detail;
use crate::figure;
use crate::moment;
use crate::text::{clean_block, clean_line, wrap};
use crate::ui::{BAD, DIM, paint};

/// Lines of reasoning and of text the program added that are shown in brief.
const HEAD_LINES: usize = 3;

/// The lines of one part.
pub(super) fn lines(body: &PartBody, width: Option<usize>, detail: Detail) -> Vec<String> {
    let full = detail == Detail::Full;
    match body {
        PartBody::Text(text) => said(text, width, detail),
        PartBody::Reasoning(part) => quiet(&part.text, width, detail),
        PartBody::File(file) => one(attached(file)),
        PartBody::Agent(agent) => one(format!("@{}", clean_line(&agent.name))),
        PartBody::Tool(tool) => call::lines(tool, width, detail),
        PartBody::StepStart(_) | PartBody::Snapshot(_) if !full => Vec::new(),
        PartBody::StepStart(step) => {
            let tree = step.snapshot.as_deref().map(|tree| format!(" at {}", clean_line(tree)));
            one(paint(DIM, format!("· step begins{}", tree.unwrap_or_default())))
        }
        PartBody::Snapshot(part) => {
            one(paint(DIM, format!("· snapshot {}", clean_line(&part.snapshot))))
        }
        PartBody::StepFinish(step) => one(paint(DIM, finished(step))),
        PartBody::Patch(patch) => changed(patch, detail),
        PartBody::Subtask(task) => {
            one(format!("→ {}: {}", clean_line(&task.agent), clean_line(&task.description)))
        }
        PartBody::Retry(retry) => {
            let message = retry.error.data.get("message").and_then(serde_json::Value::as_str);
            let why = clean_line(message.unwrap_or("no reason given"));
            one(paint(BAD, format!("✗ attempt {} failed: {why}", retry.attempt)))
        }
        PartBody::Compaction(part) => {
            let how = if part.auto { "automatically" } else { "on request" };
            one(paint(DIM, format!("· context compacted {how}")))
        }
        PartBody::Opaque(_) => {
            one(paint(DIM, format!("· part of unknown type {}", clean_line(body.type_name()))))
        }
    }
}

fn one(line: String) -> Vec<String> {
    vec![line]
}

fn said(part: &Text, width: Option<usize>, detail: Detail) -> Vec<String> {
    if part.synthetic == Some(true) || part.ignored == Some(true) {
        return quiet(&part.text, width, detail);
    }
    wrap(clean_block(&part.text).trim_end(), width)
}

/// Text that can be skipped: dimmed, set in, and only its head in brief.
fn quiet(text: &str, width: Option<usize>, detail: Detail) -> Vec<String> {
    let lines = wrap(clean_block(text).trim(), width.map(|width| width.saturating_sub(2)));
    headed(&lines, if detail == Detail::Full { usize::MAX } else { HEAD_LINES }, "  ")
}

/// The first `limit` lines, dimmed and set in, and how many follow.
pub(super) fn headed(lines: &[String], limit: usize, indent: &str) -> Vec<String> {
    // A rest of one line is shown, not counted.
    let limit = if lines.len() == limit.saturating_add(1) { lines.len() } else { limit };
    let dim = |line: &String| paint(DIM, format!("{indent}{line}").trim_end());
    let mut shown: Vec<String> = lines.iter().take(limit).map(dim).collect();
    if lines.len() > limit {
        let rest = figure::counted(lines.len() - limit, "more line");
        shown.push(paint(DIM, format!("{indent}… {rest}")));
    }
    shown
}

fn attached(file: &FilePart) -> String {
    let name = match &file.filename {
        Some(name) if !name.is_empty() => name.as_str(),
        _ if file.url.starts_with("data:") => "attachment",
        _ => file.url.as_str(),
    };
    format!("[file] {} ({})", clean_line(name), clean_line(&file.mime))
}

fn finished(step: &StepFinish) -> String {
    let number = |value| figure::count(moment::millis(value));
    format!(
        "· step ended: {} · {} tokens in, {} out · {}",
        clean_line(&step.reason),
        number(&step.tokens.input),
        number(&step.tokens.output),
        figure::cost(step.cost.as_f64().unwrap_or(0.0)),
    )
}

fn changed(patch: &Patch, detail: Detail) -> Vec<String> {
    let shown = if detail == Detail::Full { usize::MAX } else { 5 };
    let mut names: Vec<String> =
        patch.files.iter().take(shown).map(|file| clean_line(file)).collect();
    if patch.files.len() > names.len() {
        names.push(format!("and {} more", patch.files.len() - names.len()));
    }
    let count = figure::counted(patch.files.len(), "file");
    one(format!("± {count} changed: {}", names.join(", ")))
}
