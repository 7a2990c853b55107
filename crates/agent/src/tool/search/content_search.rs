//! Lines of files that match an expression.

use std::fs::File;
use std::io;
use std::path::PathBuf;

use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkMatch};

use crate::tool::ToolError;

/// Characters of a line that are shown.
const MAX_LINE_CHARS: usize = 2_000;
/// A file with longer lines is passed over.
const MAX_LINE_BYTES: usize = 64 << 20;

/// A line that matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GrepLine {
    pub(super) file: PathBuf,
    pub(super) number: u64,
    pub(super) text: String,
}

/// A search for an expression.
pub(super) struct ContentSearch {
    matcher: RegexMatcher,
    searcher: Searcher,
    /// The lines that were found.
    pub(super) found: Vec<GrepLine>,
    limit: usize,
}

/// Collects the lines of one file.
struct LineSink<'s> {
    file: PathBuf,
    found: &'s mut Vec<GrepLine>,
    limit: usize,
}

impl ContentSearch {
    /// Prepares a search that ends after one line more than `limit`.
    pub(super) fn new(pattern: &str, limit: usize) -> Result<Self, ToolError> {
        let matcher = RegexMatcherBuilder::new().line_terminator(Some(b'\n')).build(pattern);
        let matcher = matcher.map_err(|error| {
            ToolError::failed(format!("{pattern:?} is not a valid expression: {error}"))
        })?;
        let searcher = SearcherBuilder::new()
            .binary_detection(BinaryDetection::quit(0))
            .heap_limit(Some(MAX_LINE_BYTES))
            .line_number(true)
            .build();
        Ok(Self { matcher, searcher, found: Vec::new(), limit })
    }

    /// Searches a file; returns false once there are enough lines. A file that cannot be read has none.
    pub(super) fn search(&mut self, path: PathBuf, file: &File) -> bool {
        let sink = LineSink { file: path, found: &mut self.found, limit: self.limit };
        self.searcher.search_file(&self.matcher, file, sink).ok();
        self.found.len() <= self.limit
    }
}

impl Sink for LineSink<'_> {
    type Error = io::Error;

    fn matched(&mut self, _searcher: &Searcher, line: &SinkMatch<'_>) -> Result<bool, io::Error> {
        let text = String::from_utf8_lossy(line.bytes());
        let text = text.trim_end_matches(['\r', '\n']);
        let text = match text.char_indices().nth(MAX_LINE_CHARS) {
            Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
            None => text.to_owned(),
        };
        let number = line.line_number().unwrap_or_default();
        self.found.push(GrepLine { file: self.file.clone(), number, text });
        Ok(self.found.len() <= self.limit)
    }
}
