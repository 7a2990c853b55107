//! Formats times: local time, with `today` and `yesterday`.

use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan, Zoned};
use serde_json::Number;
use turnstone_core::time::EpochMillis;

fn to_zoned(ms: i64, zone: &TimeZone) -> Option<Zoned> {
    Some(Timestamp::from_millisecond(ms).ok()?.to_zoned(zone.clone()))
}

/// A timestamp of the model in whole milliseconds.
pub(crate) fn number_to_millis(number: &Number) -> i64 {
    number.as_i64().unwrap_or_else(|| number.as_f64().unwrap_or(0.0) as i64)
}

/// A time relative to `now`: `today 14:05`, `yesterday 09:30`, `2026-03-01 18:00`.
pub(crate) fn format_local_time(ms: i64, now: EpochMillis) -> String {
    format_time_in_zone(ms, now, &TimeZone::system())
}

fn format_time_in_zone(ms: i64, now: EpochMillis, zone: &TimeZone) -> String {
    let (Some(then), Some(now)) = (to_zoned(ms, zone), to_zoned(now.0, zone)) else {
        return "-".to_owned();
    };
    let yesterday = now.date().checked_sub(1.day()).ok();
    let day = match then.date() {
        date if date == now.date() => "today".to_owned(),
        date if Some(date) == yesterday => "yesterday".to_owned(),
        date => date.to_string(),
    };
    format!("{day} {}", then.strftime("%H:%M"))
}

/// A time as a file name, in UTC: `20260301-180005`.
pub(crate) fn format_file_timestamp(now: EpochMillis) -> String {
    let then = to_zoned(now.0, &TimeZone::UTC);
    then.map_or_else(|| now.0.to_string(), |then| then.strftime("%Y%m%d-%H%M%S").to_string())
}

/// The local midnight before `now`.
pub(crate) fn local_midnight(now: EpochMillis) -> EpochMillis {
    let start = to_zoned(now.0, &TimeZone::system()).and_then(|now| now.start_of_day().ok());
    start.map_or(now, |start| EpochMillis(start.timestamp().as_millisecond()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn today_and_yesterday_are_named() {
        let now = EpochMillis(1_714_557_600_000); // 2024-05-01 10:00 UTC
        let day = 86_400_000;
        let see = |ms| format_time_in_zone(ms, now, &TimeZone::UTC);
        assert_eq!(see(now.0), "today 10:00");
        assert_eq!(see(now.0 - day), "yesterday 10:00");
        assert_eq!(see(now.0 - 2 * day), "2024-04-29 10:00");
        assert_eq!(see(now.0 + day), "2024-05-02 10:00");
        assert_eq!(see(i64::MAX), "-");
    }
}
