//! Medians, ratios and lines of figures.

use std::time::Duration;

use crate::Fallible;

/// The middle of the figures.
pub(crate) fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Prints one line of the report.
pub(crate) fn line(what: &str, figures: &[(&str, String)]) {
    let cells: Vec<String> =
        figures.iter().map(|(name, value)| format!("{name} {value}")).collect();
    println!("{what:<46} {}", cells.join("  ·  "));
}

/// Milliseconds with two digits.
pub(crate) fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// The resident set of this process, as the kernel says.
pub(crate) fn resident() -> Fallible<String> {
    let status = fs_err::read_to_string("/proc/self/status")?;
    let find = |name: &str| {
        let line = status.lines().find(|l| l.starts_with(name))?;
        line.split_whitespace().nth(1)?.parse::<u64>().ok()
    };
    let (now, peak) = (find("VmRSS:").unwrap_or(0), find("VmHWM:").unwrap_or(0));
    Ok(format!("{} MiB (peak {} MiB)", now / 1024, peak / 1024))
}
