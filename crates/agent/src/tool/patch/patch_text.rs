//! The text of a patch, as models write it.

/// What a patch does to one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PatchOperation {
    /// Creates a file, or replaces all of it.
    Add { path: String, content: String },
    /// Removes a file.
    Delete { path: String },
    /// Changes a file, and gives it another name.
    Update { path: String, target: Option<String>, chunks: Vec<PatchChunk> },
}

/// A change of one place in a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PatchChunk {
    /// Lines that lie above the place, outermost first.
    pub(super) contexts: Vec<String>,
    /// The lines of the place.
    pub(super) lines: Vec<PatchLine>,
    /// True if the place is at the end of the file.
    pub(super) is_at_end: bool,
}

/// A line of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PatchLine {
    Keep(String),
    Remove(String),
    Add(String),
}

/// Why a text is no patch.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum PatchError {
    /// There is no patch in the text.
    #[error("the patch must begin with '*** Begin Patch' and end with '*** End Patch'")]
    NoPatch,
    /// The patch changes nothing.
    #[error("the patch is empty")]
    Empty,
    /// A line is none that can stand there.
    #[error("line {number} is not part of a patch: {line:?}; {expected}")]
    Line { number: usize, line: String, expected: &'static str },
    /// A change of a file has no lines.
    #[error("the update of {0} is empty")]
    EmptyUpdate(String),
}

const OPERATION_EXPECTED: &str =
    "expected '*** Add File: PATH', '*** Delete File: PATH' or '*** Update File: PATH'";
const CHUNK_EXPECTED: &str = "expected '@@' or a line that begins with a space, '+' or '-', '*** End of File', or the next file";

/// The lines of a patch, with their numbers.
struct PatchReader<'p> {
    lines: Vec<(usize, &'p str)>,
    at: usize,
}

impl<'p> PatchReader<'p> {
    fn peek(&self) -> Option<&'p str> {
        self.lines.get(self.at).map(|(_, line)| *line)
    }

    fn next(&mut self) -> Option<&'p str> {
        let line = self.peek();
        self.at += usize::from(line.is_some());
        line
    }

    fn unexpected(&self, expected: &'static str) -> PatchError {
        let (number, line) = self.lines.get(self.at).copied().unwrap_or((0, ""));
        PatchError::Line { number, line: line.to_owned(), expected }
    }
}

/// Reads a patch; text around it, such as a here-document of a shell, is ignored.
pub(super) fn parse_patch(text: &str) -> Result<Vec<PatchOperation>, PatchError> {
    let bare = text.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line));
    let lines: Vec<(usize, &str)> = (1..).zip(bare).collect();
    let begin = lines.iter().position(|(_, line)| line.trim() == "*** Begin Patch");
    let end = lines.iter().rposition(|(_, line)| line.trim() == "*** End Patch");
    let (Some(begin), Some(end)) = (begin, end) else { return Err(PatchError::NoPatch) };
    let inner = lines.get(begin + 1..end).ok_or(PatchError::NoPatch)?;
    let mut reader = PatchReader { lines: inner.to_vec(), at: 0 };
    let mut operations = Vec::new();
    while let Some(line) = reader.peek() {
        if line.trim().is_empty() {
            reader.next();
            continue;
        }
        operations.push(parse_operation(&mut reader)?);
    }
    if operations.is_empty() { Err(PatchError::Empty) } else { Ok(operations) }
}

fn parse_operation(reader: &mut PatchReader<'_>) -> Result<PatchOperation, PatchError> {
    let line = reader.peek().unwrap_or_default().trim();
    let path_after = |marker: &str| {
        line.strip_prefix(marker).map(str::trim).filter(|path| !path.is_empty()).map(str::to_owned)
    };
    if let Some(path) = path_after("*** Add File:") {
        reader.next();
        let mut content = String::new();
        while let Some(added) = reader.peek().and_then(|line| line.strip_prefix('+')) {
            content.push_str(added);
            content.push('\n');
            reader.next();
        }
        return Ok(PatchOperation::Add { path, content });
    }
    if let Some(path) = path_after("*** Delete File:") {
        reader.next();
        return Ok(PatchOperation::Delete { path });
    }
    let Some(path) = path_after("*** Update File:") else {
        return Err(reader.unexpected(OPERATION_EXPECTED));
    };
    reader.next();
    let target = reader.peek().and_then(|line| line.trim().strip_prefix("*** Move to:"));
    let target = target.map(|target| target.trim().to_owned()).filter(|target| !target.is_empty());
    if target.is_some() {
        reader.next();
    }
    let chunks = parse_chunks(reader)?;
    if chunks.is_empty() {
        return Err(PatchError::EmptyUpdate(path));
    }
    Ok(PatchOperation::Update { path, target, chunks })
}

fn parse_chunks(reader: &mut PatchReader<'_>) -> Result<Vec<PatchChunk>, PatchError> {
    let mut chunks: Vec<PatchChunk> = Vec::new();
    while let Some(line) = reader.peek() {
        if is_operation(line) {
            break;
        }
        // Between two changes: an empty line of a change begins with a space, or follows another of its lines.
        if line.trim().is_empty() && chunks.last().is_none_or(|chunk| chunk.is_at_end) {
            reader.next();
            continue;
        }
        let is_first = chunks.is_empty();
        chunks.push(parse_chunk(reader, is_first)?);
    }
    Ok(chunks)
}

fn is_operation(line: &str) -> bool {
    let line = line.trim();
    line.starts_with("*** ") && line != "*** End of File"
}

fn parse_chunk(reader: &mut PatchReader<'_>, is_first: bool) -> Result<PatchChunk, PatchError> {
    let mut chunk = PatchChunk::default();
    let mut has_marker = false;
    while let Some(context) = reader.peek().and_then(|line| line.trim_start().strip_prefix("@@")) {
        has_marker = true;
        // A line of the file: only the space behind the marker is not part of it.
        let context = context.strip_prefix(' ').unwrap_or(context);
        if !context.trim().is_empty() {
            chunk.contexts.push(context.to_owned());
        }
        reader.next();
    }
    // The marker of the first change may be left out.
    if !has_marker && !is_first {
        return Err(reader.unexpected(CHUNK_EXPECTED));
    }
    while let Some(line) = reader.peek() {
        if line.trim_end() == "*** End of File" {
            if chunk.lines.is_empty() {
                return Err(reader.unexpected(CHUNK_EXPECTED));
            }
            chunk.is_at_end = true;
            reader.next();
            break;
        }
        let rest = line.get(1..).unwrap_or_default().to_owned();
        let parsed = match line.as_bytes().first() {
            None => PatchLine::Keep(String::new()),
            Some(b' ') => PatchLine::Keep(rest),
            Some(b'+') => PatchLine::Add(rest),
            Some(b'-') => PatchLine::Remove(rest),
            Some(_) if line.trim_start().starts_with("@@") || is_operation(line) => break,
            Some(_) => return Err(reader.unexpected(CHUNK_EXPECTED)),
        };
        chunk.lines.push(parsed);
        reader.next();
    }
    remove_separators(&mut chunk, reader);
    if chunk.lines.is_empty() {
        return Err(reader.unexpected(CHUNK_EXPECTED));
    }
    Ok(chunk)
}

/// Removes the last line of a change if it is the empty line before the next file or the end of the patch.
fn remove_separators(chunk: &mut PatchChunk, reader: &PatchReader<'_>) {
    let is_end = reader.peek().is_none_or(is_operation);
    let was_empty = |back: usize| {
        let line = reader.at.checked_sub(back).and_then(|at| reader.lines.get(at));
        line.is_some_and(|(_, line)| line.is_empty())
    };
    let mut back = 1;
    while is_end && was_empty(back) && chunk.lines.last() == Some(&PatchLine::Keep(String::new())) {
        chunk.lines.pop();
        back += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keep(text: &str) -> PatchLine {
        PatchLine::Keep(text.to_owned())
    }

    fn parse(body: &str) -> Result<Vec<PatchOperation>, PatchError> {
        parse_patch(&format!("*** Begin Patch\n{body}\n*** End Patch"))
    }

    #[test]
    fn operations_are_read_in_order() {
        let found = parse(
            "*** Add File: a b.txt\n+one\n+\n*** Delete File: c\n*** Update File: d\n*** Move to: e\n@@ fn x\n keep\n-old\n+new\n\n@@\n+end\n*** End of File",
        );
        let update = PatchOperation::Update {
            path: "d".to_owned(),
            target: Some("e".to_owned()),
            chunks: vec![
                PatchChunk {
                    contexts: vec!["fn x".to_owned()],
                    lines: vec![
                        keep("keep"),
                        PatchLine::Remove("old".to_owned()),
                        PatchLine::Add("new".to_owned()),
                        keep(""),
                    ],
                    is_at_end: false,
                },
                PatchChunk {
                    contexts: Vec::new(),
                    lines: vec![PatchLine::Add("end".to_owned())],
                    is_at_end: true,
                },
            ],
        };
        assert_eq!(
            found.expect("a patch"),
            [
                PatchOperation::Add { path: "a b.txt".to_owned(), content: "one\n\n".to_owned() },
                PatchOperation::Delete { path: "c".to_owned() },
                update,
            ]
        );
    }

    #[test]
    fn wrapper_and_padding_around_a_patch_are_ignored() {
        let text = "apply_patch <<'EOF'\r\n  *** Begin Patch \r\n *** Add File: a \r\n+x\r\n*** End Patch\r\nEOF\r\n";
        let expected = [PatchOperation::Add { path: "a".to_owned(), content: "x\n".to_owned() }];
        assert_eq!(parse_patch(text).expect("a patch"), expected);
    }

    #[test]
    fn first_change_needs_no_marker_and_later_ones_do() {
        let found = parse("*** Update File: a\n-old\n+new").expect("a patch");
        let PatchOperation::Update { chunks, .. } = &found[0] else { panic!("{found:?}") };
        assert_eq!(chunks[0].lines.len(), 2);
        let found = parse("*** Update File: a\n@@ class A\n@@ fn b\n-old").expect("a patch");
        let PatchOperation::Update { chunks, .. } = &found[0] else { panic!("{found:?}") };
        assert_eq!(chunks[0].contexts, ["class A", "fn b"]);
    }

    #[test]
    fn empty_lines_before_the_next_file_are_no_context() {
        let found = parse("*** Update File: a\n@@\n-old\n\n\n*** Delete File: b").expect("a patch");
        let PatchOperation::Update { chunks, .. } = &found[0] else { panic!("{found:?}") };
        assert_eq!(chunks[0].lines, [PatchLine::Remove("old".to_owned())]);
    }

    #[test]
    fn what_is_no_patch_is_refused_and_the_line_is_named() {
        assert_eq!(parse_patch("hello"), Err(PatchError::NoPatch));
        assert_eq!(parse_patch("*** End Patch\n*** Begin Patch"), Err(PatchError::NoPatch));
        assert_eq!(parse(""), Err(PatchError::Empty));
        assert_eq!(parse("*** Update File: a"), Err(PatchError::EmptyUpdate("a".to_owned())));
        for (body, number) in [
            ("*** Rename File: a", 2),
            ("*** Update File: a\n@@\nno prefix", 4),
            ("*** Update File: a\n@@\n*** End of File", 4),
            ("*** Add File: a\nno plus", 3),
            ("*** Add File:", 2),
        ] {
            let error = parse(body).expect_err(body);
            assert!(
                matches!(&error, PatchError::Line { number: at, .. } if *at == number),
                "{error}"
            );
        }
    }
}
