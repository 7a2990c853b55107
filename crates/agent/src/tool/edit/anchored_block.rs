//! Blocks that begin and end with the wanted lines, and differ in between.

use super::similarity::{as_f64, line_similarity};
use super::text_lines::{TextLines, WantedLines};

/// The fewest wanted lines: two anchors and something in between.
const MIN_LINES: usize = 3;
/// How similar the lines between the anchors are on average.
const MIN_SIMILARITY: f64 = 0.65;
/// Pairs of lines that are compared in one file before the search gives up.
const MAX_COMPARED_LINES: usize = 200_000;

/// Finds the block whose first and last line are wanted and whose lines in between are most similar.
pub(super) fn find_similar_block<'f>(file: &'f str, wanted: &str) -> Vec<&'f str> {
    let (lines, wanted) = (TextLines::new(file), WantedLines::new(wanted));
    let count = wanted.lines.len();
    if count < MIN_LINES {
        return Vec::new();
    }
    let tolerance = (count / 4).max(1);
    let mut best: Option<(f64, usize, usize)> = None;
    let mut budget = MAX_COMPARED_LINES;
    for (first, last) in anchored_windows(&lines, &wanted) {
        if (last + 1 - first).abs_diff(count) > tolerance {
            continue;
        }
        let compared = (count - 2).min(last - first - 1);
        let Some(left) = budget.checked_sub(compared) else { break };
        budget = left;
        let similarity = match compared {
            0 => 1.0,
            _ => mean_similarity(&lines, &wanted, first, compared),
        };
        if similarity >= MIN_SIMILARITY && best.is_none_or(|(known, ..)| similarity > known) {
            best = Some((similarity, first, last));
        }
    }
    best.map(|(_, first, last)| wanted.matched(&lines, first, last)).into_iter().collect()
}

/// Finds blocks of exactly as many lines, of which at least half in between are as wanted.
pub(super) fn find_context_blocks<'f>(file: &'f str, wanted: &str) -> Vec<&'f str> {
    let (lines, wanted) = (TextLines::new(file), WantedLines::new(wanted));
    let count = wanted.lines.len();
    if count < MIN_LINES {
        return Vec::new();
    }
    let is_match = |(first, last): &(usize, usize)| {
        let pairs =
            (1..count - 1).map(|at| (lines.line(first + at).trim(), wanted_line(&wanted, at)));
        let filled: Vec<_> =
            pairs.filter(|(one, two)| !one.is_empty() || !two.is_empty()).collect();
        let equal = filled.iter().filter(|(one, two)| one == two).count();
        last + 1 - first == count && equal * 2 >= filled.len()
    };
    let found = anchored_windows(&lines, &wanted).filter(is_match);
    found.map(|(first, last)| wanted.matched(&lines, first, last)).collect()
}

fn wanted_line<'w>(wanted: &WantedLines<'w>, index: usize) -> &'w str {
    wanted.lines.get(index).copied().unwrap_or_default().trim()
}

/// Returns first and last line of the windows between the anchors: for each beginning those ends whose size
/// can be accepted, else none.
fn anchored_windows<'a>(
    lines: &'a TextLines<'_>,
    wanted: &'a WantedLines<'_>,
) -> impl Iterator<Item = (usize, usize)> + 'a {
    let count = wanted.lines.len();
    let tolerance = (count / 4).max(1);
    let (top, bottom) = (wanted_line(wanted, 0), wanted_line(wanted, count - 1));
    let starts = (0..lines.count()).filter(move |first| lines.line(*first).trim() == top);
    starts.flat_map(move |first| {
        let least = first + (count - tolerance).max(MIN_LINES - 1) - 1;
        let most = (first + count + tolerance).min(lines.count());
        let ends = least.max(first + 1)..most;
        ends.filter(move |last| lines.line(*last).trim() == bottom).map(move |last| (first, last))
    })
}

fn mean_similarity(
    lines: &TextLines<'_>,
    wanted: &WantedLines<'_>,
    first: usize,
    compared: usize,
) -> f64 {
    let similarity =
        |at: usize| line_similarity(lines.line(first + at).trim(), wanted_line(wanted, at));
    (1..=compared).map(similarity).sum::<f64>() / as_f64(compared)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "fn a() {\n    let x = 1;\n    let y = 2;\n}\nfn b() {\n    other();\n}\n";

    #[test]
    fn block_with_similar_lines_between_its_anchors_is_found() {
        let found = find_similar_block(FILE, "fn a() {\n  let x = 10;\n  let y = 2;\n}");
        assert_eq!(found, ["fn a() {\n    let x = 1;\n    let y = 2;\n}"]);
        // As many lines as the model wrote, one more or one less.
        let found = find_similar_block(FILE, "fn a() {\n  let x = 1;\n}");
        assert_eq!(found, ["fn a() {\n    let x = 1;\n    let y = 2;\n}"]);
    }

    #[test]
    fn anchors_around_other_lines_are_refused() {
        assert!(
            find_similar_block(FILE, "fn a() {\n  entirely different\n  nothing alike\n}")
                .is_empty()
        );
        assert!(find_similar_block(FILE, "fn a() {\n}").is_empty());
        assert!(find_similar_block("fn a() {\n1\n2\n3\n4\n5\n}", "fn a() {\n1\n}").is_empty());
    }

    #[test]
    fn half_of_the_lines_between_the_anchors_are_enough_context() {
        let found = find_context_blocks(FILE, "fn a() {\nlet x = 1;\nsomething else\n}");
        assert_eq!(found, ["fn a() {\n    let x = 1;\n    let y = 2;\n}"]);
        assert!(find_context_blocks(FILE, "fn a() {\nno\nno\n}").is_empty());
    }
}
