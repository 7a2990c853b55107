//! Finding lines of a patch in a file, from exact to lenient.

/// Finds where `wanted` begins in `lines`, from `start` on; at the very end if `is_at_end`.
pub(super) fn find_sequence(
    lines: &[&str],
    wanted: &[&str],
    start: usize,
    is_at_end: bool,
) -> Option<usize> {
    let last = lines.len().checked_sub(wanted.len())?;
    let first = if is_at_end { last.max(start) } else { start };
    let ways: [fn(&str) -> String; 4] = [
        str::to_owned,
        |line| line.trim_end().to_owned(),
        |line| line.trim().to_owned(),
        |line| fold_typography(line.trim()),
    ];
    ways.iter().find_map(|normalize| {
        let wanted: Vec<String> = wanted.iter().map(|line| normalize(line)).collect();
        let is_match = |at: &usize| {
            let window = lines.get(*at..*at + wanted.len()).unwrap_or_default();
            window.iter().zip(&wanted).all(|(line, wanted)| normalize(line) == *wanted)
        };
        (first..=last).find(is_match)
    })
}

/// Replaces typographic punctuation, which models and editors exchange for that of the keyboard.
fn fold_typography(text: &str) -> String {
    let fold = |letter: char| match letter {
        '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
        '\u{2018}'..='\u{201b}' => '\'',
        '\u{201c}'..='\u{201f}' => '"',
        '\u{a0}' | '\u{2002}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}' => ' ',
        other => other,
    };
    text.chars().map(fold).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequence_is_found_exactly_before_it_is_found_leniently() {
        let lines = ["  a", "b ", "a", "b", "x\u{2013}y"];
        assert_eq!(find_sequence(&lines, &["a", "b"], 0, false), Some(2));
        assert_eq!(find_sequence(&lines, &["  a", "b"], 0, false), Some(0));
        assert_eq!(find_sequence(&lines, &["\ta", "b"], 0, false), Some(0));
        assert_eq!(find_sequence(&lines, &["x-y"], 0, false), Some(4));
        assert_eq!(find_sequence(&lines, &["a"], 3, false), None);
        assert_eq!(find_sequence(&lines, &["1", "2", "3", "4", "5", "6"], 0, false), None);
    }

    #[test]
    fn sequence_at_the_end_is_found_nowhere_else() {
        let lines = ["a", "b", "a"];
        assert_eq!(find_sequence(&lines, &["a"], 0, true), Some(2));
        assert_eq!(find_sequence(&lines, &["b"], 0, true), None);
    }
}
