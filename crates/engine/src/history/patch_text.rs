//! The patch of one file, as clients of OpenCode or git expect it.

use serde_json::Number;
use turnstone_core::model::{ExtraFields, SessionFileDiff};
use turnstone_snapshot::{DiffStatus, PatchBody, PathDiff};

use crate::history::diff::DiffFormat;

/// One file; there are several steps where another change lies between them.
pub(crate) fn join_file_steps(name: &str, form: DiffFormat, steps: &[PathDiff]) -> SessionFileDiff {
    let sum = |of: fn(&PathDiff) -> usize| Number::from(steps.iter().map(of).sum::<usize>());
    let (first, last) = (steps.first().map(|it| it.status), steps.last().map(|it| it.status));
    let status = match (first, last) {
        (Some(DiffStatus::Added), Some(DiffStatus::Deleted)) => "modified",
        (Some(DiffStatus::Added), _) => "added",
        (_, Some(DiffStatus::Deleted)) => "deleted",
        _ => "modified",
    };
    SessionFileDiff {
        file: Some(name.to_owned()),
        patch: match form {
            DiffFormat::JsDiff => format_jsdiff_patch(name, steps),
            DiffFormat::Git(_) => format_git_patch(steps),
            DiffFormat::CountsOnly => None,
        },
        additions: sum(|it| it.additions),
        deletions: sum(|it| it.deletions),
        status: Some(status.to_owned()),
        extra: ExtraFields::default(),
    }
}

/// A patch as git prints it, step by step; empty and nothing as below.
fn format_git_patch(steps: &[PathDiff]) -> Option<String> {
    let mut text = String::new();
    for step in steps {
        match &step.patch {
            PatchBody::Text(git) | PatchBody::BinaryPatch(git) => {
                text.push_str(&String::from_utf8_lossy(git));
            }
            PatchBody::Binary => return Some(String::new()),
            PatchBody::TooLarge => return None,
        }
    }
    Some(text)
}

/// A patch as the JavaScript library `diff` prints it; empty for what is no text, nothing for what
/// is too large.
fn format_jsdiff_patch(name: &str, steps: &[PathDiff]) -> Option<String> {
    let line = "=".repeat(67);
    let mut text = format!("Index: {name}\n{line}\n--- {name}\t\n+++ {name}\t\n");
    for step in steps {
        let git = match &step.patch {
            PatchBody::Text(git) => String::from_utf8_lossy(git),
            PatchBody::Binary | PatchBody::BinaryPatch(_) => return Some(String::new()),
            PatchBody::TooLarge => return None,
        };
        let body = git.lines().skip_while(|line| !line.starts_with("@@ "));
        for line in body {
            match line.strip_prefix("@@ -").and_then(|rest| rest.split_once(" @@")) {
                Some((counts, _)) => text.push_str(&format_hunk_header(counts)),
                None => text.push_str(line),
            }
            text.push('\n');
        }
    }
    Some(text)
}

/// The head of a hunk, both counts written out.
fn format_hunk_header(counts: &str) -> String {
    let full = |side: &str| match side.contains(',') {
        true => side.to_owned(),
        false => format!("{side},1"),
    };
    let (old, new) = counts.split_once(" +").unwrap_or((counts, "0,0"));
    format!("@@ -{} +{} @@", full(old), full(new))
}
