//! Medians, ratios and lines of figures.

use std::time::Duration;

use crate::Fallible;

/// The middle of the figures.
pub(crate) fn median(figures: Vec<f64>) -> f64 {
    percentile(figures, 0.5)
}

/// The figure below which so large a part of them lies.
pub(crate) fn percentile(mut figures: Vec<f64>, part: f64) -> f64 {
    figures.sort_by(f64::total_cmp);
    let at = (figures.len() as f64 * part) as usize;
    figures.get(at.min(figures.len().saturating_sub(1))).copied().unwrap_or(f64::NAN)
}

/// Prints one line of the report.
pub(crate) fn print_figures(what: &str, figures: &[(&str, String)]) {
    let cells: Vec<String> =
        figures.iter().map(|(name, value)| format!("{name} {value}")).collect();
    println!("{what:<46} {}", cells.join("  ·  "));
}

/// Milliseconds with two digits.
pub(crate) fn to_millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// The resident set of this process, as the kernel says.
pub(crate) fn describe_memory() -> Fallible<String> {
    Ok(format!("{} MiB (peak {} MiB)", read_status_mib("VmRSS:")?, peak_mib()?))
}

/// The most memory this process ever had, in MiB.
pub(crate) fn peak_mib() -> Fallible<u64> {
    read_status_mib("VmHWM:")
}

fn read_status_mib(name: &str) -> Fallible<u64> {
    let status = fs_err::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with(name));
    let word = line.and_then(|line| line.split_whitespace().nth(1));
    Ok(word.ok_or("the kernel does not say")?.parse::<u64>()? / 1024)
}
