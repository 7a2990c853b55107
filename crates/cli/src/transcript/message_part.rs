//! Formats the parts of a message.

use turnstone_core::model::{FilePart, PartBody, PatchPart, StepFinishPart, TextPart};

use super::tool_call;
use super::transcript_lines::TranscriptDetail;
use crate::number_format;
use crate::text::{sanitize_block, sanitize_line, wrap};
use crate::time_format;
use crate::ui::{DIM_STYLE, ERROR_STYLE, apply_style};

/// Lines of reasoning and synthetic text in the brief view.
const MAX_SECONDARY_LINES: usize = 3;

/// The lines of one part.
pub(super) fn part_lines(
    body: &PartBody,
    width: Option<usize>,
    detail: TranscriptDetail,
) -> Vec<String> {
    let full = detail == TranscriptDetail::Full;
    match body {
        PartBody::Text(text) => text_lines(text, width, detail),
        PartBody::Reasoning(part) => secondary_lines(&part.text, width, detail),
        PartBody::File(file) => single_line(attachment_line(file)),
        PartBody::Agent(agent) => single_line(format!("@{}", sanitize_line(&agent.name))),
        PartBody::Tool(tool) => tool_call::tool_call_lines(tool, width, detail),
        PartBody::StepStart(_) | PartBody::Snapshot(_) if !full => Vec::new(),
        PartBody::StepStart(step) => {
            let tree = step.snapshot.as_deref().map(|tree| format!(" at {}", sanitize_line(tree)));
            single_line(apply_style(
                DIM_STYLE,
                format!("· step started{}", tree.unwrap_or_default()),
            ))
        }
        PartBody::Snapshot(part) => single_line(apply_style(
            DIM_STYLE,
            format!("· snapshot {}", sanitize_line(&part.snapshot)),
        )),
        PartBody::StepFinish(step) => single_line(apply_style(DIM_STYLE, step_finish_line(step))),
        PartBody::Patch(patch) => patch_lines(patch, detail),
        PartBody::Subtask(task) => single_line(format!(
            "→ {}: {}",
            sanitize_line(&task.agent),
            sanitize_line(&task.description)
        )),
        PartBody::Retry(retry) => {
            let message = retry.error.data.get("message").and_then(serde_json::Value::as_str);
            let why = sanitize_line(message.unwrap_or("no reason given"));
            single_line(apply_style(
                ERROR_STYLE,
                format!("✗ attempt {} failed: {why}", retry.attempt),
            ))
        }
        PartBody::Compaction(part) => {
            let how = if part.auto { "automatically" } else { "on request" };
            single_line(apply_style(DIM_STYLE, format!("· context compacted {how}")))
        }
        PartBody::Opaque(_) => single_line(apply_style(
            DIM_STYLE,
            format!("· part of unknown type {}", sanitize_line(body.type_name())),
        )),
    }
}

fn single_line(line: String) -> Vec<String> {
    vec![line]
}

fn text_lines(part: &TextPart, width: Option<usize>, detail: TranscriptDetail) -> Vec<String> {
    if part.synthetic == Some(true) || part.ignored == Some(true) {
        return secondary_lines(&part.text, width, detail);
    }
    wrap(sanitize_block(&part.text).trim_end(), width)
}

/// Secondary text: dimmed, indented, and truncated in the brief view.
fn secondary_lines(text: &str, width: Option<usize>, detail: TranscriptDetail) -> Vec<String> {
    let lines = wrap(sanitize_block(text).trim(), width.map(|width| width.saturating_sub(2)));
    first_lines(
        &lines,
        if detail == TranscriptDetail::Full { usize::MAX } else { MAX_SECONDARY_LINES },
        "  ",
    )
}

/// The first `limit` lines, dimmed and indented, and the number of further lines.
pub(super) fn first_lines(lines: &[String], limit: usize, indent: &str) -> Vec<String> {
    // A single further line is shown instead of counted.
    let limit = if lines.len() == limit.saturating_add(1) { lines.len() } else { limit };
    let dim = |line: &String| apply_style(DIM_STYLE, format!("{indent}{line}").trim_end());
    let mut shown: Vec<String> = lines.iter().take(limit).map(dim).collect();
    if lines.len() > limit {
        let more = number_format::format_counted(lines.len() - limit, "more line");
        shown.push(apply_style(DIM_STYLE, format!("{indent}… {more}")));
    }
    shown
}

fn attachment_line(file: &FilePart) -> String {
    let name = match &file.filename {
        Some(name) if !name.is_empty() => name.as_str(),
        _ if file.url.starts_with("data:") => "attachment",
        _ => file.url.as_str(),
    };
    format!("[file] {} ({})", sanitize_line(name), sanitize_line(&file.mime))
}

fn step_finish_line(step: &StepFinishPart) -> String {
    let number = |value| number_format::format_count(time_format::number_to_millis(value));
    format!(
        "· step ended: {} · {} tokens in, {} out · {}",
        sanitize_line(&step.reason),
        number(&step.tokens.input),
        number(&step.tokens.output),
        number_format::format_cost(step.cost.as_f64().unwrap_or(0.0)),
    )
}

fn patch_lines(patch: &PatchPart, detail: TranscriptDetail) -> Vec<String> {
    let shown = if detail == TranscriptDetail::Full { usize::MAX } else { 5 };
    let mut names: Vec<String> =
        patch.files.iter().take(shown).map(|file| sanitize_line(file)).collect();
    if patch.files.len() > names.len() {
        names.push(format!("and {} more", patch.files.len() - names.len()));
    }
    let count = number_format::format_counted(patch.files.len(), "file");
    single_line(format!("± {count} changed: {}", names.join(", ")))
}
