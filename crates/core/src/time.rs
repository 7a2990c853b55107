//! Moments and counters: milliseconds since the epoch, sequence numbers, log cursors.

use serde::{Deserialize, Serialize};

/// Milliseconds since 1970-01-01 UTC, always passed in by the caller.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct EpochMillis(pub i64);

impl EpochMillis {
    /// Returns this moment moved by `ms` milliseconds, saturating at the ends of time.
    #[must_use]
    pub const fn plus(self, ms: i64) -> Self {
        Self(self.0.saturating_add(ms))
    }

    /// Returns the milliseconds from `earlier` to this moment; negative if it lies before.
    #[must_use]
    pub const fn since(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0)
    }

    /// The moment as JavaScript writes it: ISO 8601 in UTC with milliseconds.
    ///
    /// Years outside 0–9999 have a sign and six digits, as there.
    #[must_use]
    pub fn iso8601(self) -> String {
        let (days, ms) = (self.0.div_euclid(DAY), self.0.rem_euclid(DAY));
        let (year, month, day) = civil_date(days);
        let (hour, minute) = (ms / 3_600_000, ms / 60_000 % 60);
        let (second, milli) = (ms / 1_000 % 60, ms % 1_000);
        let year = match year {
            0..=9999 => format!("{year:04}"),
            _ => format!("{}{:06}", if year < 0 { '-' } else { '+' }, year.abs()),
        };
        format!("{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z")
    }
}

/// Milliseconds of a day.
const DAY: i64 = 86_400_000;

/// Year, month and day of a day counted from 1970-01-01, in the Gregorian calendar.
///
/// Counts in eras of 400 years that begin on 1 March, so that a leap day ends its year.
const fn civil_date(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let (era, of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400;
    (if month <= 2 { year + 1 } else { year }, month, day)
}

impl std::fmt::Display for EpochMillis {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// The position of an event in its session's stream: 1, 2, 3 … without gaps.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct SessionSeq(pub i64);

impl std::fmt::Display for SessionSeq {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// The position of an event in the whole log; grows with every commit, never reused.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct LogCursor(pub i64);

impl std::fmt::Display for LogCursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iso8601_matches_javascript() {
        for (ms, expected) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (951_868_799_999, "2000-02-29T23:59:59.999Z"),
            (1_709_164_800_000, "2024-02-29T00:00:00.000Z"),
            (1_786_706_395_136, "2026-08-14T11:19:55.136Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
            (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
            (253_402_300_800_000, "+010000-01-01T00:00:00.000Z"),
            (-62_167_219_200_000, "0000-01-01T00:00:00.000Z"),
            (-62_167_219_200_001, "-000001-12-31T23:59:59.999Z"),
            (8_640_000_000_000_000, "+275760-09-13T00:00:00.000Z"),
        ] {
            assert_eq!(EpochMillis(ms).iso8601(), expected);
        }
        // The ends of time do not overflow.
        assert!(EpochMillis(i64::MIN).iso8601().starts_with('-'));
        assert!(EpochMillis(i64::MAX).iso8601().starts_with('+'));
    }

    #[test]
    fn civil_date_is_continuous_over_400_years() {
        let is_leap = |y: i64| y % 4 == 0 && (y % 100 != 0 || y % 400 == 0);
        let length = |y, m| match m {
            2 => 28 + i64::from(is_leap(y)),
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        };
        let mut expected = (1900, 1, 1);
        for day in -25_567..-25_567 + 146_097 {
            assert_eq!(civil_date(day), expected);
            let (y, m, d) = expected;
            expected = match (m, d) {
                (12, 31) => (y + 1, 1, 1),
                _ if d == length(y, m) => (y, m + 1, 1),
                _ => (y, m, d + 1),
            };
        }
    }
}
