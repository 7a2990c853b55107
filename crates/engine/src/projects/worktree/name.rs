//! Names of worktrees, as OpenCode makes them (snapshots.md 5).

/// What a person called it, as a name for a folder and a branch; empty if nothing is left.
pub(super) fn slugify(text: &str) -> String {
    let mut slug = String::new();
    for letter in text.trim().to_lowercase().chars() {
        match letter {
            'a'..='z' | '0'..='9' => slug.push(letter),
            _ if slug.ends_with('-') || slug.is_empty() => {}
            _ => slug.push('-'),
        }
    }
    slug.truncate(100);
    slug.trim_end_matches('-').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slugify_makes_folder_and_branch_names() {
        assert_eq!(slugify("My Feature Branch!"), "my-feature-branch");
        assert_eq!(slugify("  a--b__c  "), "a-b-c");
        assert_eq!(slugify("../../etc"), "etc");
        assert_eq!(slugify("…!"), "");
        assert!(slugify(&"x".repeat(500)).len() <= 100);
    }
}
