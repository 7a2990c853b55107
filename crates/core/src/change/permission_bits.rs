//! Permission bits: merged three-way, each bit for itself.

/// Applies to `current` the bits that differ between `base` and `target`, unless they were changed since.
///
/// A bit that `base` and `target` share stays as it is now, and so does one that `current` and `base`
/// do not share: an undo adds a bit only if what it undoes had removed it.
#[must_use]
pub const fn merge_permission_bits(current: u32, base: u32, target: u32) -> u32 {
    let changed_then = base ^ target;
    let changed_since = current ^ base;
    current ^ (changed_then & !changed_since)
}

#[cfg(test)]
mod tests {
    use super::merge_permission_bits;

    /// Proves R18.
    #[test]
    fn each_permission_bit_is_merged_for_itself() {
        for position in 0..12 {
            let bit = 1 << position;
            // The other eleven bits must not matter, and must stay.
            for others in [0, 0o7777, 0o2640] {
                let with = |is_set: bool| if is_set { others | bit } else { others & !bit };
                for [current, base, target] in (0..8).map(|n| [n & 1, n & 2, n & 4].map(|n| n != 0))
                {
                    let merged = merge_permission_bits(with(current), with(base), with(target));
                    let wanted = if base != target && current == base { target } else { current };
                    assert_eq!(merged, with(wanted), "{position} {current} {base} {target}");
                }
            }
        }
    }

    /// Proves R18.
    #[test]
    fn chmod_of_a_person_survives_and_that_of_the_turn_is_undone() {
        assert_eq!(merge_permission_bits(0o600, 0o644, 0o644), 0o600, "the turn changed no bit");
        assert_eq!(merge_permission_bits(0o755, 0o755, 0o644), 0o644, "the turn's own chmod");
        assert_eq!(merge_permission_bits(0o700, 0o755, 0o644), 0o600, "both: each keeps its bits");
        assert_eq!(merge_permission_bits(0o600, 0o600, 0o644), 0o644, "the turn had removed them");
        assert_eq!(merge_permission_bits(0o620, 0o600, 0o644), 0o664, "an added bit stays");
    }
}
