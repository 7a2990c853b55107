//! Ways to find what a model means, from exact to lenient. Each proposes stretches of the file.

use super::anchored_block::{find_context_blocks, find_similar_block};
use super::text_lines::{TextLines, WantedLines};

/// A way to find stretches of a file that a wanted text may mean.
pub(super) type FindStrategy = for<'f> fn(&'f str, &'f str) -> Vec<&'f str>;

/// The ways in their order: the first stretch that is unique is replaced.
pub(super) const STRATEGIES: [FindStrategy; 8] = [
    find_exact,
    find_trimmed_lines,
    |file, wanted| find_similar_block(file, wanted),
    find_other_white_space,
    find_other_indentation,
    find_escaped,
    find_trimmed_boundary,
    |file, wanted| find_context_blocks(file, wanted),
];

fn find_exact<'f>(_file: &'f str, wanted: &'f str) -> Vec<&'f str> {
    vec![wanted]
}

/// Lines that are equal without the white space around them.
fn find_trimmed_lines<'f>(file: &'f str, wanted: &'f str) -> Vec<&'f str> {
    let (lines, wanted) = (TextLines::new(file), WantedLines::new(wanted));
    let count = wanted.lines.len();
    let is_match = |first: &usize| {
        let pairs = wanted.lines.iter().enumerate();
        pairs.into_iter().all(|(at, line)| lines.line(first + at).trim() == line.trim())
    };
    let found = lines.window_starts(count).filter(is_match);
    found.map(|first| wanted.matched(&lines, first, first + count - 1)).collect()
}

/// Whole lines, words within a line, or as many lines, with runs of white space taken as one space.
fn find_other_white_space<'f>(file: &'f str, wanted: &'f str) -> Vec<&'f str> {
    let lines = TextLines::new(file);
    let words: Vec<&str> = wanted.split_whitespace().collect();
    if words.is_empty() {
        return Vec::new();
    }
    let mut found = Vec::new();
    for index in 0..lines.count() {
        let line = lines.line(index);
        if line.split_whitespace().eq(words.iter().copied()) {
            found.push(line);
        } else {
            found.extend(find_words(line, &words));
        }
    }
    let count = wanted.split('\n').count();
    if count > 1 {
        for first in lines.window_starts(count) {
            let window = lines.window(first, first + count - 1);
            if window.split_whitespace().eq(words.iter().copied()) {
                found.push(window);
            }
        }
    }
    found
}

/// The first place in a line where these words follow each other.
fn find_words<'l>(line: &'l str, words: &[&str]) -> Option<&'l str> {
    let (first, rest) = words.split_first()?;
    line.match_indices(first).find_map(|(start, _)| {
        let mut end = start + first.len();
        for word in rest {
            let after = line.get(end..)?;
            let next = after.trim_start();
            if next.len() == after.len() || !next.starts_with(word) {
                return None;
            }
            end += after.len() - next.len() + word.len();
        }
        line.get(start..end)
    })
}

/// Blocks that are equal without the indentation that all their lines share.
fn find_other_indentation<'f>(file: &'f str, wanted: &'f str) -> Vec<&'f str> {
    let (lines, wanted) = (TextLines::new(file), WantedLines::new(wanted));
    let count = wanted.lines.len();
    let target = without_indentation(&wanted.lines);
    let is_match = |first: &usize| {
        let window: Vec<&str> = (*first..first + count).map(|at| lines.line(at)).collect();
        without_indentation(&window) == target
    };
    let found = lines.window_starts(count).filter(is_match);
    found.map(|first| wanted.matched(&lines, first, first + count - 1)).collect()
}

fn without_indentation<'l>(lines: &[&'l str]) -> Vec<&'l str> {
    let blank = |line: &str| line.len() - line.trim_start().len();
    let filled = lines.iter().filter(|line| !line.trim().is_empty());
    let common = filled.map(|line| blank(line)).min().unwrap_or(0);
    let rest = |line: &&'l str| match line.trim().is_empty() {
        true => "",
        false => line.get(common..).unwrap_or_default().trim_end_matches('\r'),
    };
    lines.iter().map(rest).collect()
}

/// What is left when escapes such as `\n` and `\"` are resolved, in the wanted text or in both.
fn find_escaped<'f>(file: &'f str, wanted: &'f str) -> Vec<&'f str> {
    let target = resolve_escapes(wanted);
    let mut found = Vec::new();
    if target != wanted
        && let Some(start) = file.find(&target)
    {
        found.extend(file.get(start..start + target.len()));
    }
    let lines = TextLines::new(file);
    let count = target.split('\n').count();
    for first in lines.window_starts(count) {
        let window = lines.window(first, first + count - 1);
        if window.contains('\\') && resolve_escapes(window) == target {
            found.push(window);
        }
    }
    found
}

fn resolve_escapes(text: &str) -> String {
    let mut resolved = String::with_capacity(text.len());
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        let meaning = match (letter, letters.peek()) {
            ('\\', Some('n')) => Some('\n'),
            ('\\', Some('t')) => Some('\t'),
            ('\\', Some('r')) => Some('\r'),
            ('\\', Some(same @ ('\'' | '"' | '`' | '\\' | '$' | '\n'))) => Some(*same),
            _ => None,
        };
        if meaning.is_some() {
            letters.next();
        }
        resolved.push(meaning.unwrap_or(letter));
    }
    resolved
}

/// The wanted text without white space at its ends, or blocks that are equal then.
fn find_trimmed_boundary<'f>(file: &'f str, wanted: &'f str) -> Vec<&'f str> {
    let target = wanted.trim();
    if target.len() == wanted.len() {
        return Vec::new();
    }
    let mut found = vec![target];
    let lines = TextLines::new(file);
    let count = wanted.split('\n').count();
    for first in lines.window_starts(count) {
        let window = lines.window(first, first + count - 1);
        if window.trim() == target {
            found.push(window);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_found_without_the_white_space_around_them() {
        let file = "a {\n\tb;\r\n\tc;\n}\n";
        assert_eq!(find_trimmed_lines(file, "  b;\n  c;"), ["\tb;\r\n\tc;"]);
        // A wanted line end is replaced, too, so that none is doubled.
        assert_eq!(find_trimmed_lines(file, "b;\n"), ["\tb;\r\n"]);
        assert!(find_trimmed_lines(file, "b;\nd;").is_empty());
    }

    #[test]
    fn words_are_found_whatever_white_space_is_between_them() {
        let file = "if  (a   ==\tb) {\n  go( );\n}";
        assert_eq!(find_other_white_space(file, "(a == b)"), ["(a   ==\tb)"]);
        assert_eq!(
            find_other_white_space(file, "if (a == b) {\n go( );"),
            ["if  (a   ==\tb) {\n  go( );"]
        );
        assert!(find_other_white_space(file, "  \n").is_empty());
    }

    #[test]
    fn blocks_are_found_at_another_indentation() {
        let file = "x\n        if a {\n            b\n        }\ny";
        assert_eq!(
            find_other_indentation(file, "if a {\n    b\n}"),
            ["        if a {\n            b\n        }"]
        );
        assert!(find_other_indentation(file, "if a {\nb\n}").is_empty());
    }

    #[test]
    fn escapes_are_resolved_on_both_sides() {
        assert_eq!(find_escaped("say \"hi\"\nyou", "say \\\"hi\\\""), ["say \"hi\""]);
        assert_eq!(find_escaped("a\nb", "a\\nb"), ["a\nb"]);
        assert_eq!(find_escaped("print(\"a\\tb\")", "print(\"a\tb\")"), ["print(\"a\\tb\")"]);
    }

    #[test]
    fn white_space_at_the_ends_is_forgiven() {
        assert_eq!(find_trimmed_boundary("a\nb\nc", "\nb\n"), ["b"]);
        assert!(find_trimmed_boundary("a", "a").is_empty());
    }
}
