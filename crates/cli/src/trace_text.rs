//! Words for what the trace of a command tells.

use std::collections::BTreeMap;

use turnstone_core::change::{BoundedPaths, Evidence, TraceReport};

use crate::number_format;
use crate::text;

/// So many paths of a list are named.
const MAX_NAMED_PATHS: usize = 5;

/// Counts what others changed while a command ran, up to the verb: `1 file changed by others … was`.
pub(crate) fn count_foreign_changes(count: u64) -> String {
    let files = number_format::format_counted(count, "file");
    let verb = if count == 1 { "was" } else { "were" };
    format!("{files} changed by others during this command {verb}")
}

/// Says for how many files which evidence there is: `2 traced, 1 window`.
pub(crate) fn count_evidence(evidence: impl IntoIterator<Item = Evidence>) -> String {
    let mut counts: BTreeMap<Evidence, usize> = BTreeMap::new();
    for kind in evidence {
        *counts.entry(kind).or_default() += 1;
    }
    let words = counts
        .iter()
        .map(|(kind, count)| format!("{} {}", number_format::format_count(*count), kind.as_str()));
    words.collect::<Vec<_>>().join(", ")
}

/// Says what the trace of a command tells besides its changes, a line each: what others changed, alone or too,
/// and why nothing is known if so.
pub(crate) fn trace_lines(report: &TraceReport) -> Vec<String> {
    let mut lines = Vec::new();
    if !report.others.is_empty() {
        let files = count_foreign_changes(report.others.count());
        lines.push(format!("{files} left alone: {}", list_paths(&report.others)));
    }
    if !report.shared.is_empty() {
        let paths = list_paths(&BoundedPaths::new(report.shared.clone()));
        lines.push(format!("also changed by others during this command: {paths}"));
    }
    if !report.remaining.is_empty() {
        lines.push(format!("left running: {}", list_programs(&report.remaining)));
    }
    if let Some(why) = &report.untraced {
        let why = text::sanitize_line(why);
        lines.push(format!("not traced, so changes by others may be among these: {why}"));
    }
    lines
}

/// The first programs of a list, and how many more there are.
pub(crate) fn list_programs(programs: &[String]) -> String {
    let mut words: Vec<String> = programs
        .iter()
        .take(MAX_NAMED_PATHS)
        .map(|program| text::sanitize_line(program).to_string())
        .collect();
    if programs.len() > words.len() {
        words.push(format!(
            "and {} more",
            number_format::format_count(programs.len() - words.len())
        ));
    }
    words.join(", ")
}

/// The first paths of a list, and how many more there are.
pub(crate) fn list_paths(list: &BoundedPaths) -> String {
    let named = list.paths.iter().take(MAX_NAMED_PATHS);
    let mut words: Vec<String> =
        named.map(|path| text::sanitize_line(&path.to_string()).to_string()).collect();
    let more = list.count().saturating_sub(words.len() as u64);
    if more > 0 {
        words.push(format!("and {} more", number_format::format_count(more)));
    }
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_file_has_the_singular() {
        assert_eq!(count_foreign_changes(1), "1 file changed by others during this command was");
        assert_eq!(
            count_foreign_changes(1_200),
            "1,200 files changed by others during this command were"
        );
    }

    #[test]
    fn evidence_is_counted_by_kind() {
        let kinds = [Evidence::Traced, Evidence::Window, Evidence::Traced];
        assert_eq!(count_evidence(kinds), "1 window, 2 traced");
        assert_eq!(count_evidence([]), "");
    }

    #[test]
    fn report_of_an_undisturbed_command_has_no_lines() {
        assert_eq!(trace_lines(&TraceReport::default()), Vec::<String>::new());
        let paths = vec!["a".parse().expect("a path")];
        let report = TraceReport { shared: paths.clone(), ..TraceReport::default() };
        let report = TraceReport { others: BoundedPaths::new(paths), ..report };
        assert_eq!(
            trace_lines(&report),
            [
                "1 file changed by others during this command was left alone: a",
                "also changed by others during this command: a"
            ]
        );
    }

    #[test]
    fn long_lists_name_the_first_paths() {
        let path = |n: u32| format!("f{n}").parse().expect("a path");
        let list = |count: u32| list_paths(&BoundedPaths::new((1..=count).map(path).collect()));
        assert_eq!(list(2), "f1, f2");
        assert_eq!(list(7), "f1, f2, f3, f4, f5, and 2 more");
    }
}
