//! Files and directories by a part of their name, the best first.

use std::path::Path;

use super::project_walk::ProjectWalk;
use super::search_budget::{SearchBudget, SearchTruncation};
use crate::confined_path::{ConfinedPathError, ConfinedRoot};

/// What a client looks for among the names.
#[derive(Clone, Debug)]
pub(crate) struct NameQuery {
    /// A part of the name, perhaps with letters left out.
    pub(crate) text: String,
    /// Only files, or only directories.
    pub(crate) only: Option<bool>,
    /// How many.
    pub(crate) limit: usize,
}

/// The names that fit, the best first, each with whether it is a directory.
pub(crate) fn find_names(
    directory: &Path,
    query: &NameQuery,
    budget: &mut SearchBudget,
) -> Result<Vec<(String, bool)>, ConfinedPathError> {
    let text = query.text.to_lowercase();
    let root = ConfinedRoot::open(directory)?;
    let mut walk = ProjectWalk::new(&root, directory, budget)?;
    let mut found: Vec<(u64, String, bool)> = Vec::new();
    while let Some(entry) = walk.next(budget) {
        if query.only.is_some_and(|only| only != entry.is_dir) {
            continue;
        }
        if let Some(score) = match_score(&text, &entry.path) {
            found.push((score, entry.path, entry.is_dir));
        }
    }
    found.sort_by(|a, b| (a.0, a.1.len(), &a.1).cmp(&(b.0, b.1.len(), &b.1)));
    if found.len() > query.limit {
        budget.truncate(SearchTruncation::Results);
        found.truncate(query.limit);
    }
    let named = |(_, path, is_dir)| (if is_dir { format!("{path}/") } else { path }, is_dir);
    Ok(found.into_iter().map(named).collect())
}

/// How badly a name fits; nothing if a letter of the query is missing in it.
fn match_score(query: &str, path: &str) -> Option<u64> {
    if query.is_empty() {
        return Some(0);
    }
    let path = path.to_lowercase();
    let name = Path::new(&path).file_name().and_then(|name| name.to_str()).unwrap_or(&path);
    if name == query {
        return Some(0);
    }
    if name.starts_with(query) {
        return Some(1);
    }
    if name.contains(query) {
        return Some(2);
    }
    if path.contains(query) {
        return Some(3);
    }
    let (mut gaps, mut rest) = (0, path.as_str());
    for letter in query.chars().filter(|letter| !letter.is_whitespace()) {
        let at = rest.find(letter)?;
        gaps += u64::try_from(at).unwrap_or(u64::MAX);
        rest = rest.get(at + letter.len_utf8()..).unwrap_or_default();
    }
    Some(4_u64.saturating_add(gaps))
}

#[cfg(test)]
mod tests {
    use super::match_score;

    #[test]
    fn better_name_match_comes_first() {
        let order = ["main", "main.rs", "domain.rs", "main/x", "m-a-i-n", "m--a--i--n"];
        let scores: Vec<_> = order.iter().map(|path| match_score("main", path)).collect();
        assert!(scores.is_sorted() && scores.iter().all(Option::is_some), "{scores:?}");
        assert_eq!(match_score("main", ".gitignore"), None);
    }
}
