//! Names that a model may have meant when it asks for a file that does not exist.

use std::path::Path;

/// How many names are proposed.
const MAX_NAMES: usize = 3;
/// Names of a directory that are looked at.
const MAX_ENTRIES: usize = 10_000;

/// Returns what the model reads about a file that does not exist.
pub(super) fn missing_file_message(path: &Path) -> String {
    let names = similar_names(path);
    let missing = format!("File not found: {}", path.display());
    match names.is_empty() {
        true => missing,
        false => format!("{missing}\n\nDid you mean one of these?\n{}", names.join("\n")),
    }
}

fn similar_names(path: &Path) -> Vec<String> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return Vec::new() };
    let wanted = name.to_string_lossy().to_lowercase();
    let Ok(entries) = fs_err::read_dir(folder) else { return Vec::new() };
    let names = entries.take(MAX_ENTRIES).filter_map(Result::ok).map(|entry| entry.file_name());
    let mut found: Vec<String> = names
        .map(|name| name.to_string_lossy().into_owned())
        .filter(|name| {
            let name = name.to_lowercase();
            name.contains(&wanted) || wanted.contains(&name)
        })
        .collect();
    found.sort();
    found.truncate(MAX_NAMES);
    found.into_iter().map(|name| folder.join(name).to_string_lossy().into_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similar_names_are_proposed() {
        let dir = tempfile::tempdir().expect("a directory");
        for name in ["Main.rs", "main.rs.bak", "other", "xmain.rs", "zmain.rs"] {
            fs_err::write(dir.path().join(name), "").expect("written");
        }
        let words = missing_file_message(&dir.path().join("main.rs"));
        assert!(words.starts_with("File not found: "), "{words}");
        assert_eq!(words.matches("main.rs").count() + words.matches("Main.rs").count(), 4);
        assert!(words.contains("/Main.rs\n") && !words.contains("zmain"), "{words}");
        let words = missing_file_message(&dir.path().join("no/such/file"));
        assert!(!words.contains("Did you mean"), "{words}");
    }
}
