//! Formats sizes, counts, costs and durations.

/// A size in bytes: `512 B`, `1.5 KiB`, `12 MiB`.
pub(crate) fn format_size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let digits = usize::from(value < 9.95);
    format!("{value:.digits$} {}", UNITS[unit])
}

/// A count with thousands separators: `1,234,567`.
pub(crate) fn format_count<N: TryInto<i64>>(value: N) -> String {
    let value = value.try_into().unwrap_or(i64::MAX);
    let digits = value.unsigned_abs().to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if value < 0 { format!("-{text}") } else { text }
}

/// A count with its noun in singular or plural: `1 message`, `2 processes`, `3 entries`.
pub(crate) fn format_counted<N: TryInto<i64>>(value: N, noun: &str) -> String {
    let value = value.try_into().unwrap_or(i64::MAX);
    format!("{} {}", format_count(value), plural(value, noun))
}

/// The noun in the number that `value` needs.
fn plural(value: i64, noun: &str) -> String {
    if value == 1 {
        return noun.to_owned();
    }
    if let Some(stem) = noun.strip_suffix('y').filter(|stem| !stem.ends_with(['a', 'e', 'o'])) {
        return format!("{stem}ies");
    }
    let sibilant = ["s", "x", "ch", "sh"].iter().any(|end| noun.ends_with(end));
    format!("{noun}{}", if sibilant { "es" } else { "s" })
}

/// A cost in dollars; small amounts get four decimals.
pub(crate) fn format_cost(amount: f64) -> String {
    match amount.abs() {
        small if small > 0.0 && small < 0.1 => format!("${amount:.4}"),
        _ => format!("${amount:.2}"),
    }
}

/// A duration: `250 ms`, `1.2 s`, `3 min 20 s`, `2 h 5 min`.
pub(crate) fn format_duration(ms: i64) -> String {
    match ms {
        ..1_000 => format!("{ms} ms"),
        1_000..60_000 => format!("{:.1} s", ms as f64 / 1000.0),
        60_000..3_600_000 => format!("{} min {} s", ms / 60_000, ms / 1_000 % 60),
        _ => format!("{} h {} min", ms / 3_600_000, ms / 60_000 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_formatted_for_people() {
        assert_eq!([0, 1023, 1024, 1536].map(format_size), ["0 B", "1023 B", "1.0 KiB", "1.5 KiB"]);
        assert_eq!(format_size(10 * 1024 * 1024), "10 MiB");
        assert_eq!(format_size(1024 * 1024 - 1), "1.0 MiB");
        assert_eq!(format_size(u64::MAX), "16384 PiB");
        assert_eq!(
            [0, 999, 1_000, -1_234_567].map(format_count),
            ["0", "999", "1,000", "-1,234,567"]
        );
        assert_eq!([0, 1, 2].map(|n| format_counted(n, "part")), ["0 parts", "1 part", "2 parts"]);
        assert_eq!([0.0, 0.0423, 1.239].map(format_cost), ["$0.00", "$0.0423", "$1.24"]);
        assert_eq!(
            [5, 1_234, 200_000, 7_500_000].map(format_duration),
            ["5 ms", "1.2 s", "3 min 20 s", "2 h 5 min"]
        );
    }
}
