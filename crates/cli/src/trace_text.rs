//! Words for what the trace of a command tells.

use turnstone_core::change::BoundedPaths;

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
    fn long_lists_name_the_first_paths() {
        let path = |n: u32| format!("f{n}").parse().expect("a path");
        let list = |count: u32| list_paths(&BoundedPaths::new((1..=count).map(path).collect()));
        assert_eq!(list(2), "f1, f2");
        assert_eq!(list(7), "f1, f2, f3, f4, f5, and 2 more");
    }
}
