//! Long outputs: the model reads the beginning, and a file holds all of it.

use std::path::PathBuf;

use serde_json::json;

use super::{ToolHost, ToolOutputLimits, ToolReply};

/// The folder in the data directory with long outputs.
const FOLDER: &str = "tool-output";
/// Every file of an output begins with this.
const FILE_PREFIX: &str = "tool_";

/// Returns where the whole output of a call is written if it is too long.
pub(crate) fn spill_path(host: &dyn ToolHost) -> PathBuf {
    let name = format!("{FILE_PREFIX}{}", host.part().as_str().trim_start_matches("prt_"));
    host.scope().data_directory.join(FOLDER).join(name)
}

/// Cuts the output of a call to what the model may read at once, unless its tool has decided already.
///
/// `can_delegate` tells whether the agent may start a subagent that reads the rest.
pub fn limit_output(
    host: &dyn ToolHost,
    limits: ToolOutputLimits,
    can_delegate: bool,
    mut reply: ToolReply,
) -> ToolReply {
    if reply.metadata.contains_key("truncated") {
        return reply;
    }
    let head = head_within(&reply.output, limits);
    let is_cut = head.len() < reply.output.len();
    reply.metadata.insert("truncated".to_owned(), json!(is_cut));
    if !is_cut {
        return reply;
    }
    let amount = omitted_amount(&reply.output, head);
    let path = spill_path(host);
    let note = match write_spill(&path, &reply.output) {
        Ok(()) => {
            reply.metadata.insert("outputPath".to_owned(), json!(path.to_string_lossy()));
            format!(
                "... {amount} truncated ...\n\nThe whole output is in {}\n{}",
                path.display(),
                spill_hint(can_delegate)
            )
        }
        // The model still gets the beginning, and reads why it cannot have the rest.
        Err(error) => {
            format!("... {amount} truncated ...\n\nThe rest could not be stored: {error}")
        }
    };
    reply.output = format!("{head}\n\n{note}");
    reply
}

/// Returns what the model should do with a file that holds a long output.
pub(crate) const fn spill_hint(can_delegate: bool) -> &'static str {
    match can_delegate {
        true => {
            "Let a subagent search or read this file with the task tool and report what matters, \
             instead of reading all of it yourself."
        }
        false => {
            "Search it with grep, or read parts of it with read and an offset, instead of reading \
             all of it."
        }
    }
}

/// Writes the whole output; its folder is closed to other users.
pub(crate) fn write_spill(path: &std::path::Path, text: &str) -> std::io::Result<()> {
    use std::io::Write;
    create_spill(path)?.write_all(text.as_bytes())
}

/// Creates the file for a long output.
pub(crate) fn create_spill(path: &std::path::Path) -> std::io::Result<fs_err::File> {
    use std::os::unix::fs::PermissionsExt;

    use fs_err::os::unix::fs::OpenOptionsExt;
    if let Some(folder) = path.parent() {
        fs_err::create_dir_all(folder)?;
        fs_err::set_permissions(folder, std::fs::Permissions::from_mode(0o700))?;
    }
    fs_err::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
}

/// Returns the beginning of a text within the limits, up to the border of a line where there is one.
fn head_within(text: &str, limits: ToolOutputLimits) -> &str {
    let mut end = 0;
    for line in text.split_inclusive('\n').take(limits.lines) {
        let length = line.strip_suffix('\n').unwrap_or(line).len();
        if end + length > limits.bytes {
            // A single line that is too long is cut in itself.
            if end == 0 {
                end = text.floor_char_boundary(limits.bytes);
            }
            return text.get(..end).unwrap_or_default().trim_end_matches('\n');
        }
        end += line.len();
    }
    match text.len() - end {
        0 => text,
        _ => text.get(..end).unwrap_or_default().trim_end_matches('\n'),
    }
}

fn omitted_amount(text: &str, head: &str) -> String {
    let rest = text.get(head.len()..).unwrap_or_default().trim_start_matches('\n');
    let lines = rest.lines().count();
    match lines {
        0 | 1 => format!("{} bytes", rest.len()),
        _ => format!("{lines} lines"),
    }
}

/// Removes the files of long outputs that nobody wrote to for `max_age_millis`; returns how many.
///
/// # Errors
///
/// The folder cannot be read. A file that cannot be removed is left to the next time.
pub fn remove_old_outputs(
    data_directory: &std::path::Path,
    now: turnstone_core::time::EpochMillis,
    max_age_millis: i64,
) -> std::io::Result<usize> {
    use std::os::unix::fs::MetadataExt;
    let entries = match fs_err::read_dir(data_directory.join(FOLDER)) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(0),
        entries => entries?,
    };
    let mut removed = 0;
    for entry in entries {
        let entry = entry?;
        let is_ours = entry.file_name().to_string_lossy().starts_with(FILE_PREFIX);
        let Ok(metadata) = entry.metadata() else { continue };
        let age = now.0.saturating_sub(metadata.mtime().saturating_mul(1_000));
        let is_old = is_ours && metadata.is_file() && age > max_age_millis;
        if is_old && fs_err::remove_file(entry.path()).is_ok() {
            removed += 1;
        }
    }
    Ok(removed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(text: &str, lines: usize, bytes: usize) -> &str {
        head_within(text, ToolOutputLimits { lines, bytes })
    }

    #[test]
    fn head_ends_at_the_border_of_a_line() {
        assert_eq!(head("a\nb\nc\n", 2, 100), "a\nb");
        assert_eq!(head("a\nb\nc\n", 3, 100), "a\nb\nc\n");
        assert_eq!(head("aaaa\nbbbb\ncccc", 10, 9), "aaaa\nbbbb");
        assert_eq!(head("aaaa\nbbbb\ncccc", 10, 8), "aaaa");
        assert_eq!(head("äää", 10, 3), "ä");
        assert_eq!(head("", 10, 3), "");
        assert_eq!(omitted_amount("a\nb\nc\nd", "a\nb"), "2 lines");
        assert_eq!(omitted_amount("äää", "ä"), "4 bytes");
    }

    #[test]
    fn old_outputs_are_removed_and_other_files_are_kept() {
        use std::os::unix::fs::MetadataExt;
        let data = tempfile::tempdir().expect("a directory");
        let folder = data.path().join(FOLDER);
        let at = |name: &str| folder.join(name);
        write_spill(&at("tool_1"), "old").expect("written");
        fs_err::write(at("notes"), "not ours").expect("written");
        let written = fs_err::metadata(at("tool_1")).expect("there").mtime() * 1_000;
        let now = |ms: i64| turnstone_core::time::EpochMillis(written + ms);
        assert_eq!(remove_old_outputs(data.path(), now(500), 1_000).expect("read"), 0);
        assert_eq!(remove_old_outputs(data.path(), now(1_500), 1_000).expect("read"), 1);
        assert!(!at("tool_1").exists() && at("notes").exists());
        assert_eq!(remove_old_outputs(&at("none"), now(0), 0).expect("read"), 0);
    }
}
