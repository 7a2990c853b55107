//! Lines of files that match a regular expression.
//!
//! The expression is small, and is given at most [`WINDOW_BYTES`] bytes at once: neither a pattern that looks
//! at the rest of the line for every match nor a line of megabytes makes a search long. What that may
//! miss is reported.

use std::path::Path;

use regex_automata::Input;
use regex_automata::meta::Regex;
use serde::Serialize;

use super::project_walk::ProjectWalk;
use super::search_budget::{SearchBudget, SearchTruncation};
use crate::confined_path::{ConfinedPath, ConfinedPathError, ConfinedRoot};
use crate::error::ApiError;

/// Lines that are returned; as many as OpenCode returns.
const MAX_LINES: usize = 10;
/// Matches in one line that are returned.
const MAX_SUBMATCHES: usize = 100;
/// The largest file that is searched.
const MAX_FILE_BYTES: u64 = 4 << 20;
/// The longest text of a line or a match that is returned, in characters.
const MAX_TEXT_CHARS: usize = 8_192;
/// Bytes that are matched at once.
const WINDOW_BYTES: usize = 64 << 10;
/// How much two such pieces of one line have in common.
const OVERLAP_BYTES: usize = 4 << 10;
/// The largest program of an expression, in bytes: it bounds the work for one byte of text.
const MAX_PROGRAM_BYTES: usize = 512 << 10;
/// The largest cache of states.
const MAX_CACHE_BYTES: usize = 4 << 20;

/// Compiles the expression of a client.
pub(crate) fn parse_pattern(pattern: &str) -> Result<Regex, ApiError> {
    let config = Regex::config()
        .nfa_size_limit(Some(MAX_PROGRAM_BYTES))
        .hybrid_cache_capacity(MAX_CACHE_BYTES);
    Regex::builder().configure(config).build(pattern).map_err(|error| {
        let why = error.syntax_error().map_or_else(|| error.to_string(), ToString::to_string);
        ApiError::invalid_query(format!("Expected a regular expression: {why}\n  at [\"pattern\"]"))
    })
}

/// A line that matches, in OpenCode's shape.
#[derive(Serialize)]
pub(crate) struct LineMatch {
    path: MatchText,
    lines: MatchText,
    line_number: usize,
    absolute_offset: usize,
    submatches: Vec<Submatch>,
}

/// A text of a match.
#[derive(Serialize)]
struct MatchText {
    text: String,
}

/// One match in a line, with its bytes in the line.
#[derive(Serialize)]
struct Submatch {
    #[serde(rename = "match")]
    matched: MatchText,
    start: usize,
    end: usize,
}

/// The first lines that match, in the order of paths.
pub(crate) fn find_lines(
    directory: &Path,
    regex: &Regex,
    budget: &mut SearchBudget,
) -> Result<Vec<LineMatch>, ConfinedPathError> {
    let root = ConfinedRoot::open(directory)?;
    let mut walk = ProjectWalk::new(&root, directory, budget)?;
    let mut found = Vec::new();
    while let Some(entry) = walk.next(budget) {
        let Ok(below) = ConfinedPath::parse(&entry.path) else { continue };
        if entry.is_dir {
            continue;
        }
        let bytes = match root.read(&below, MAX_FILE_BYTES) {
            Ok(bytes) => bytes,
            Err(ConfinedPathError::TooLarge(_)) => {
                budget.truncate(SearchTruncation::LargeFile);
                continue;
            }
            // A file that cannot be read, or went away meanwhile, cannot be searched.
            Err(_) => continue,
        };
        if !budget.spend_bytes(bytes.len()) {
            break;
        }
        search_file(regex, &entry.path, &bytes, budget, &mut found);
        if found.len() > MAX_LINES {
            found.truncate(MAX_LINES);
            budget.truncate(SearchTruncation::Results);
            break;
        }
    }
    Ok(found)
}

/// Adds the lines of a file that match, until there is one more than is returned.
fn search_file(
    regex: &Regex,
    path: &str,
    bytes: &[u8],
    budget: &mut SearchBudget,
    found: &mut Vec<LineMatch>,
) {
    let head = bytes.get(..8_192.min(bytes.len())).unwrap_or_default();
    if head.contains(&0) {
        return;
    }
    let mut offset = 0;
    for (index, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let start = offset;
        offset += line.len();
        let bare = line.strip_suffix(b"\n").unwrap_or(line);
        let Some(matches) = search_line(regex, bare, budget) else { return };
        if matches.is_empty() {
            continue;
        }
        let submatch = |(start, end)| {
            let text = shorten(bare.get(start..end).unwrap_or_default());
            Submatch { matched: MatchText { text }, start, end }
        };
        found.push(LineMatch {
            path: MatchText { text: path.to_owned() },
            lines: MatchText { text: shorten(line) },
            line_number: index + 1,
            absolute_offset: start,
            submatches: matches.into_iter().map(submatch).collect(),
        });
        if found.len() > MAX_LINES {
            return;
        }
    }
}

/// The text of bytes, up to [`MAX_TEXT_CHARS`] characters.
fn shorten(bytes: &[u8]) -> String {
    // No character takes more than four bytes.
    let bytes = bytes.get(..(4 * MAX_TEXT_CHARS).min(bytes.len())).unwrap_or_default();
    String::from_utf8_lossy(bytes).chars().take(MAX_TEXT_CHARS).collect()
}

/// The matches in a line; none if the budget is spent before the line is searched.
fn search_line(
    regex: &Regex,
    line: &[u8],
    budget: &mut SearchBudget,
) -> Option<Vec<(usize, usize)>> {
    let (mut matches, mut at) = (Vec::new(), 0);
    if line.len() > WINDOW_BYTES {
        budget.truncate(SearchTruncation::LongLine);
    }
    while at <= line.len() {
        let end = line.len().min(at + WINDOW_BYTES);
        // An empty line costs something, too.
        if !budget.spend_work(end - at + 1) {
            return (!matches.is_empty()).then_some(matches);
        }
        match regex.search(&Input::new(line).range(at..end)) {
            Some(_) if matches.len() == MAX_SUBMATCHES => {
                budget.truncate(SearchTruncation::Submatches);
                break;
            }
            Some(hit) => {
                matches.push((hit.start(), hit.end()));
                at = if hit.is_empty() { hit.end() + 1 } else { hit.end() };
            }
            None if end == line.len() => break,
            None => at = end - OVERLAP_BYTES,
        }
    }
    Some(matches)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::search_budget::SearchLimits;
    use super::*;

    fn budget(work: u64) -> SearchBudget {
        SearchBudget::new(Arc::default(), SearchLimits { work, ..SearchLimits::default() })
    }

    #[test]
    fn huge_line_uses_bounded_work() {
        let regex = parse_pattern(".*[^A-Z]|[A-Z]").expect("a pattern");
        let line = vec![b'A'; 4 << 20];
        let mut budget = budget(1 << 30);
        let matches = search_line(&regex, &line, &mut budget).expect("searched");
        assert_eq!((matches.len(), matches[99]), (MAX_SUBMATCHES, (99, 100)));
        let work = (1 << 30) - budget.work_left();
        assert!(work <= ((MAX_SUBMATCHES + 1) * (WINDOW_BYTES + 1)) as u64, "{work}");
        assert_eq!(
            budget.into_truncations(),
            [SearchTruncation::LongLine, SearchTruncation::Submatches]
        );
    }

    #[test]
    fn long_lines_are_searched_completely() {
        let regex = parse_pattern("needle|^x|y$").expect("a pattern");
        let mut line = vec![b'-'; 4 << 20];
        let places = [WINDOW_BYTES - 3, 2 * WINDOW_BYTES, line.len() - 10];
        for place in places {
            line[place..place + 6].copy_from_slice(b"needle");
        }
        line[0] = b'x';
        let last = line.len() - 1;
        line[last] = b'y';
        // In the middle neither the beginning nor the end of a line matches.
        (line[WINDOW_BYTES / 2], line[3 * WINDOW_BYTES - 1]) = (b'x', b'y');
        let mut budget = budget(1 << 30);
        let matches = search_line(&regex, &line, &mut budget).expect("searched");
        let starts: Vec<usize> = matches.iter().map(|hit| hit.0).collect();
        assert_eq!(starts, [0, places[0], places[1], places[2], last]);
    }

    #[test]
    fn searches_end_with_their_budget() {
        let regex = parse_pattern("b").expect("a pattern");
        let mut spent = budget(25);
        let mut found = Vec::new();
        search_file(&regex, "f", b"aaaaaaaaa\naaaaaaaaa\naaaaaaaaa\nb\n", &mut spent, &mut found);
        assert!(found.is_empty());
        assert_eq!(spent.into_truncations(), [SearchTruncation::Work]);
    }

    #[test]
    fn patterns_with_huge_programs_are_refused() {
        assert!(parse_pattern(r"(?:\pL{100}){100}").is_err());
        assert!(parse_pattern(r"\w+\s*=\s*[\d.]+").is_ok());
    }
}
