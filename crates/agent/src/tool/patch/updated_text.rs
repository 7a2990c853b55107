//! The text of a file after the changes of a patch.

use super::line_sequence::find_sequence;
use super::patch_text::{PatchChunk, PatchLine};

/// Why a change does not fit a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum UpdateError {
    /// A line above a change is not in the file.
    #[error("the context {0:?} is not in the file")]
    Context(String),
    /// The lines that a change keeps or removes are not in the file.
    #[error("these lines are not in the file{}:\n{lines}", if *is_at_end { " at its end" } else { "" })]
    Lines { lines: String, is_at_end: bool },
}

/// A file as lines with their ends.
struct FileLines<'t> {
    /// The lines without their ends.
    texts: Vec<&'t str>,
    /// The lines with their ends.
    whole: Vec<&'t str>,
    /// What ends a new line.
    line_end: &'static str,
}

/// A place of the file and the lines that come there.
struct PlacedChunk<'c> {
    start: usize,
    /// How many lines of the file it covers.
    count: usize,
    lines: &'c [PatchLine],
}

impl<'t> FileLines<'t> {
    fn new(text: &'t str) -> Self {
        let whole = split_lines(text);
        let bare = |line: &&'t str| line.trim_end_matches(['\r', '\n']);
        let texts = whole.iter().map(bare).collect();
        let line_end = if text.contains("\r\n") { "\r\n" } else { "\n" };
        Self { texts, whole, line_end }
    }
}

/// Splits a text behind its line ends: `\n`, `\r\n`, and the lone `\r` of old files.
fn split_lines(text: &str) -> Vec<&str> {
    let mut lines = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let end = match rest.find(['\r', '\n']) {
            Some(at) if rest.get(at..at + 2) == Some("\r\n") => at + 2,
            Some(at) => at + 1,
            None => rest.len(),
        };
        let (line, after) = rest.split_at(end);
        lines.push(line);
        rest = after;
    }
    lines
}

/// Returns the text of a file after some changes, which come in the order of the file.
///
/// Lines that a change keeps stay as the file has them, also where the patch writes them differently. The result ends
/// with a line end.
pub(super) fn update_text(text: &str, chunks: &[PatchChunk]) -> Result<String, UpdateError> {
    let file = FileLines::new(text);
    let mut placed = Vec::new();
    let mut at = 0;
    for chunk in chunks {
        for context in &chunk.contexts {
            let found = find_sequence(&file.texts, &[context], at, false);
            at = found.ok_or_else(|| UpdateError::Context(context.clone()))? + 1;
        }
        let place = place_chunk(&file, chunk, at)?;
        if place.count > 0 {
            at = place.start + place.count;
        }
        placed.push(place);
    }
    placed.sort_by_key(|place| place.start);
    Ok(rebuild(&file, &placed))
}

fn place_chunk<'c>(
    file: &FileLines<'_>,
    chunk: &'c PatchChunk,
    at: usize,
) -> Result<PlacedChunk<'c>, UpdateError> {
    let old = |lines: &'c [PatchLine]| -> Vec<&'c str> {
        let old = lines.iter().filter_map(|line| match line {
            PatchLine::Keep(text) | PatchLine::Remove(text) => Some(text.as_str()),
            PatchLine::Add(_) => None,
        });
        old.collect()
    };
    let wanted = old(&chunk.lines);
    if wanted.is_empty() {
        let is_blank = file.texts.last().is_some_and(|line| line.is_empty());
        let start = file.texts.len() - usize::from(is_blank);
        return Ok(PlacedChunk { start, count: 0, lines: &chunk.lines });
    }
    let find = |wanted: &[&str]| find_sequence(&file.texts, wanted, at, chunk.is_at_end);
    if let Some(start) = find(&wanted) {
        return Ok(PlacedChunk { start, count: wanted.len(), lines: &chunk.lines });
    }
    // An empty last line stands for the end of the file.
    if let Some((PatchLine::Keep(last) | PatchLine::Remove(last), lines)) = chunk.lines.split_last()
        && last.is_empty()
    {
        let wanted = old(lines);
        if !wanted.is_empty()
            && let Some(start) = find(&wanted)
        {
            return Ok(PlacedChunk { start, count: wanted.len(), lines });
        }
    }
    Err(UpdateError::Lines { lines: wanted.join("\n"), is_at_end: chunk.is_at_end })
}

fn rebuild(file: &FileLines<'_>, placed: &[PlacedChunk<'_>]) -> String {
    let mut result = String::new();
    let mut push = |line: &str, line_end: &str| {
        if !result.is_empty() && !result.ends_with(['\n', '\r']) {
            result.push_str(file.line_end);
        }
        result.push_str(line);
        result.push_str(line_end);
    };
    let mut at = 0;
    for place in placed {
        for line in file.whole.get(at..place.start).unwrap_or_default() {
            push(line, "");
        }
        at = at.max(place.start);
        for line in place.lines {
            match line {
                PatchLine::Keep(_) => {
                    push(file.whole.get(at).copied().unwrap_or_default(), "");
                    at += 1;
                }
                PatchLine::Remove(_) => at += 1,
                PatchLine::Add(text) => push(text, file.line_end),
            }
        }
    }
    for line in file.whole.get(at..).unwrap_or_default() {
        push(line, "");
    }
    if !result.is_empty() && !result.ends_with(['\n', '\r']) {
        result.push_str(file.line_end);
    }
    result
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::patch_text::{PatchOperation, parse_patch};
    use super::*;

    fn update(text: &str, body: &str) -> Result<String, UpdateError> {
        let patch = format!("*** Begin Patch\n*** Update File: f\n{body}\n*** End Patch");
        let operations = parse_patch(&patch).expect("a patch");
        let [PatchOperation::Update { chunks, .. }] = &operations[..] else { panic!("{patch}") };
        update_text(text, chunks)
    }

    fn updated(text: &str, body: &str) -> String {
        update(text, body).expect("fits")
    }

    #[test]
    fn changes_are_made_in_the_order_of_the_file() {
        let text = "a\nb\nc\nd\n";
        assert_eq!(updated(text, "@@\n a\n-b\n+B\n@@\n c\n-d\n+D"), "a\nB\nc\nD\n");
        assert_eq!(updated(text, "-b"), "a\nc\nd\n");
        assert_eq!(updated(text, "@@ b\n-c\n+C"), "a\nb\nC\nd\n");
        assert_eq!(updated(text, "@@\n+e"), "a\nb\nc\nd\ne\n");
        assert_eq!(updated("", "@@\n+e"), "e\n");
        assert_eq!(updated("a\n\n", "@@\n+b"), "a\nb\n\n");
        assert_eq!(updated("a", "-a\n+b"), "b\n");
        assert_eq!(updated("a\nb", "-a\n+c"), "c\nb\n");
    }

    #[test]
    fn context_chooses_between_equal_lines() {
        let text = "fn a() {\n    x\n}\nfn b() {\n    x\n}\n";
        let body = "@@ fn b() {\n-    x\n+    y";
        assert_eq!(updated(text, body), "fn a() {\n    x\n}\nfn b() {\n    y\n}\n");
        let error = update(text, "@@ fn c() {\n-    x").expect_err("no context");
        assert_eq!(error, UpdateError::Context("fn c() {".to_owned()));
    }

    #[test]
    fn end_of_file_is_where_the_patch_says() {
        let text = "x\ny\nx\n";
        assert_eq!(updated(text, "@@\n-x\n+z\n*** End of File"), "x\ny\nz\n");
        assert_eq!(updated(text, "@@\n-x\n+z"), "z\ny\nx\n");
        let error = update(text, "@@\n-y\n+z\n*** End of File").expect_err("not at the end");
        assert!(error.to_string().contains("at its end"), "{error}");
    }

    #[test]
    fn line_ends_and_kept_lines_stay_as_the_file_has_them() {
        assert_eq!(updated("a\r\nb\r\nc\r\n", " a\n-b\n+B"), "a\r\nB\r\nc\r\n");
        assert_eq!(updated("    a\nb\n", " a\n-b\n+c"), "    a\nc\n");
        assert_eq!(
            updated("say \u{201c}hi\u{201d}\nb\n", " say \"hi\"\n-b"),
            "say \u{201c}hi\u{201d}\n"
        );
    }

    #[test]
    fn empty_last_line_of_a_change_may_stand_for_the_end() {
        assert_eq!(updated("a\nb\n", "@@\n-b\n+c\n \n*** End of File"), "a\nc\n");
    }

    proptest! {
        /// Every line that a patch does not remove is in the result, in its order.
        #[test]
        fn no_line_is_lost(
            lines in proptest::collection::vec("[a-c]{0,2}", 1..12),
            from in 0_usize..12, count in 0_usize..4, added in proptest::collection::vec("[x-z]{1,2}", 0..3),
        ) {
            let from = from.min(lines.len());
            let to = (from + count).min(lines.len());
            let mut body = String::from("@@\n");
            for line in &lines[..from] { body.push_str(&format!(" {line}\n")); }
            for line in &lines[from..to] { body.push_str(&format!("-{line}\n")); }
            for line in &added { body.push_str(&format!("+{line}\n")); }
            for line in &lines[to..] { body.push_str(&format!(" {line}\n")); }
            let text = lines.join("\n") + "\n";
            let expected: String = lines[..from].iter().chain(&added).chain(&lines[to..])
                .map(|line| format!("{line}\n")).collect();
            prop_assert_eq!(updated(&text, body.trim_end_matches('\n')), expected);
        }
    }
}
