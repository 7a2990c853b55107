//! How similar two lines are.

/// Longer lines are only compared for equality.
const MAX_COMPARED_CHARS: usize = 1_000;

/// Returns 1 for equal lines and 0 for lines without anything in common, by the Levenshtein distance.
pub(super) fn line_similarity(one: &str, two: &str) -> f64 {
    if one == two {
        return 1.0;
    }
    let (one, two): (Vec<char>, Vec<char>) = (one.chars().collect(), two.chars().collect());
    let longest = one.len().max(two.len());
    if longest > MAX_COMPARED_CHARS {
        return 0.0;
    }
    1.0 - as_f64(edit_distance(&one, &two)) / as_f64(longest)
}

/// Returns a number of characters as a fraction can be made of it.
pub(super) fn as_f64(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::MAX, f64::from)
}

fn edit_distance(one: &[char], two: &[char]) -> usize {
    let mut previous: Vec<usize> = (0..=two.len()).collect();
    for (row, left) in one.iter().enumerate() {
        let mut current = Vec::with_capacity(previous.len());
        current.push(row + 1);
        for (column, right) in two.iter().enumerate() {
            let at =
                |line: &[usize], index: usize| line.get(index).copied().unwrap_or(usize::MAX - 1);
            let replaced = at(&previous, column) + usize::from(left != right);
            let removed = at(&previous, column + 1) + 1;
            let added = at(&current, column) + 1;
            current.push(replaced.min(removed).min(added));
        }
        previous = current;
    }
    previous.last().copied().unwrap_or(one.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similarity_counts_changed_characters() {
        assert!((line_similarity("kitten", "sitting") - (1.0 - 3.0 / 7.0)).abs() < 1e-9);
        assert!((line_similarity("", "abc")).abs() < 1e-9);
        assert!((line_similarity("same", "same") - 1.0).abs() < 1e-9);
        assert!((line_similarity(&"x".repeat(2_000), &"x".repeat(1_999))).abs() < 1e-9);
    }
}
