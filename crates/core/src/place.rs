//! Places: which project a directory belongs to (R31).
//!
//! Owns the decision and nothing else; the facts about a directory are gathered by the caller.
//! Aliases only find candidates: a project's id is computed when it is stored, and never again.

use crate::id::ProjectId;
use crate::model::{Alias, AliasKind};

/// What is known of a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Its real path.
    pub directory: String,
    /// The git directory all its worktrees share, as a real path; none outside git.
    pub common_dir: Option<String>,
    /// Its commits without a parent; several where histories were joined.
    pub root_commits: Vec<String>,
    /// True if the history is cut off: what looks like a root commit is none.
    pub shallow: bool,
    /// Its remote called origin, as `host/path`.
    pub origin: Option<String>,
}

/// A project and the facts it is found by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// The project.
    pub id: ProjectId,
    /// Its facts.
    pub aliases: Vec<Alias>,
}

/// Which project a directory belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Match {
    /// This one, because of a fact only one project can have.
    Same(ProjectId, Why),
    /// Another clone of this one: root commit and origin are equal. People are told.
    Joined(ProjectId),
    /// One of its own, although these look alike; `project relink` would join them.
    Separate {
        /// The projects that look alike, in the order they were given.
        hint: Vec<ProjectId>,
    },
    /// One of its own.
    New,
}

/// Why a directory is a project's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It shares the git directory.
    CommonDir,
    /// It was seen there before.
    Directory,
}

impl Facts {
    /// The root commit, where there is exactly one and the history is whole.
    #[must_use]
    pub fn root_commit(&self) -> Option<&str> {
        match self.root_commits.as_slice() {
            [only] if !self.shallow => Some(only),
            _ => None,
        }
    }

    /// Every fact as an alias.
    #[must_use]
    pub fn aliases(&self) -> Vec<Alias> {
        let facts = [
            (AliasKind::RootCommit, self.root_commit()),
            (AliasKind::Origin, self.origin.as_deref()),
            (AliasKind::CommonDir, self.common_dir.as_deref()),
            (AliasKind::Directory, Some(self.directory.as_str())),
        ];
        let alias = |(kind, value): (AliasKind, Option<&str>)| {
            Some(Alias { kind, value: value.filter(|value| !value.is_empty())?.to_owned() })
        };
        facts.into_iter().filter_map(alias).collect()
    }
}

impl Known {
    fn has(&self, kind: AliasKind, value: Option<&str>) -> bool {
        let Some(value) = value.filter(|value| !value.is_empty()) else {
            return false;
        };
        self.aliases.iter().any(|alias| alias.kind == kind && alias.value == value)
    }
}

/// Decides which project the directory of `facts` belongs to.
///
/// The shared git directory says more than the path, because a path can be given to another
/// repository. Root commit and origin join only when both are this project's own; if several
/// projects have both, none is guessed. A root commit alone, and an origin alone, join nothing.
#[must_use]
pub fn find_project(projects: &[Known], facts: &Facts) -> Match {
    let with = |kind, value: Option<&str>| projects.iter().find(|project| project.has(kind, value));
    if let Some(project) = with(AliasKind::CommonDir, facts.common_dir.as_deref()) {
        return Match::Same(project.id.clone(), Why::CommonDir);
    }
    if let Some(project) = with(AliasKind::Directory, Some(&facts.directory)) {
        return Match::Same(project.id.clone(), Why::Directory);
    }
    let same_root = |project: &&Known| project.has(AliasKind::RootCommit, facts.root_commit());
    let alike: Vec<&Known> = projects.iter().filter(same_root).collect();
    let same_origin = |project: &&&Known| project.has(AliasKind::Origin, facts.origin.as_deref());
    let mut clones = alike.iter().filter(same_origin);
    match (clones.next(), clones.next()) {
        (Some(only), None) => Match::Joined(only.id.clone()),
        _ if alike.is_empty() => Match::New,
        _ => Match::Separate { hint: alike.iter().map(|project| project.id.clone()).collect() },
    }
}

/// The aliases a project gains from a directory that was found to be its own.
///
/// Paths are always added. Root commit and origin are added only where the project has none of the
/// kind yet: otherwise a directory that came in by one fact would bring others in by its second,
/// and aliases are not transitive.
#[must_use]
pub fn gained_aliases(project: &Known, facts: &Facts) -> Vec<Alias> {
    let gained = |alias: &Alias| match alias.kind {
        AliasKind::CommonDir | AliasKind::Directory => !project.aliases.contains(alias),
        AliasKind::RootCommit | AliasKind::Origin => {
            !project.aliases.iter().any(|known| known.kind == alias.kind)
        }
    };
    facts.aliases().into_iter().filter(gained).collect()
}

/// The id of a new project: its root commit, unless that is unknown, ambiguous or another's id.
///
/// `None` means the caller derives one from the place.
#[must_use]
pub fn new_project_id(projects: &[Known], facts: &Facts) -> Option<ProjectId> {
    let id: ProjectId = facts.root_commit()?.parse().ok()?;
    (!projects.iter().any(|project| project.id == id)).then_some(id)
}

/// A remote as `host/path`: the same for every way to reach one repository.
///
/// User, port and protocol do not count, nor does `.git` at the end; the case of the path does. A
/// remote on the same machine names no repository that others could have too.
#[must_use]
pub fn origin_of(url: &str) -> Option<String> {
    let url = url.trim();
    let (host, path) = match url.split_once("://") {
        Some((scheme, _)) if scheme.eq_ignore_ascii_case("file") => return None,
        Some((_, rest)) => rest.split_once('/')?,
        // `user@host:path`; what has a slash before the colon is a path.
        None => url.split_once(':').filter(|(host, _)| !host.contains('/'))?,
    };
    let host = host.rsplit('@').next().unwrap_or(host);
    // An address in brackets has colons of its own.
    let host = match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?.0,
        None => host.split(':').next().unwrap_or(host),
    };
    let path = path.trim_matches('/');
    let path = path.strip_suffix(".git").unwrap_or(path).trim_end_matches('/');
    // One letter before a colon is a drive.
    if host.len() < 2 || path.is_empty() {
        return None;
    }
    Some(format!("{}/{path}", host.to_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";

    fn clone_at(directory: &str, origin: Option<&str>) -> Facts {
        Facts {
            directory: directory.into(),
            common_dir: Some(format!("{directory}/.git")),
            root_commits: vec![ROOT.into()],
            shallow: false,
            origin: origin.map(Into::into),
        }
    }

    fn known(id: &str, facts: &Facts) -> Known {
        Known { id: id.parse().expect("a project id"), aliases: facts.aliases() }
    }

    fn id(text: &str) -> ProjectId {
        text.parse().expect("a project id")
    }

    #[test]
    fn r31_every_way_to_reach_a_remote_is_the_same_origin() {
        let same = [
            "https://Host.example/Team/app.git",
            "https://user:secret@host.example:8443/Team/app/",
            "ssh://git@host.example:22/Team/app.git",
            "git@host.example:Team/app.git",
            "host.example:/Team/app",
        ];
        for url in same {
            assert_eq!(origin_of(url).as_deref(), Some("host.example/Team/app"), "{url}");
        }
        assert_eq!(origin_of("https://[::1]:80/a").as_deref(), Some("::1/a"));
        for none in [
            "file:///srv/app.git",
            "/srv/app.git",
            "../app",
            "C:/app",
            "",
            "https://host/",
            "./a:b",
        ] {
            assert_eq!(origin_of(none), None, "{none}");
        }
    }

    #[test]
    fn r31_the_same_directory_or_git_directory_is_the_same_project() {
        let here = clone_at("/a", Some("host/a"));
        let projects = [known("one", &here)];
        assert_eq!(find_project(&projects, &here), Match::Same(id("one"), Why::CommonDir));
        let worktree = Facts { directory: "/a-feature".into(), ..here.clone() };
        assert_eq!(find_project(&projects, &worktree), Match::Same(id("one"), Why::CommonDir));
        let without_git = Facts { directory: "/a".into(), ..Facts::default() };
        assert_eq!(find_project(&projects, &without_git), Match::Same(id("one"), Why::Directory));
    }

    #[test]
    fn r31_the_git_directory_says_more_than_the_path() {
        let (a, b) = (clone_at("/a", None), clone_at("/b", None));
        let projects = [known("one", &a), known("two", &b)];
        let moved = Facts { directory: "/a".into(), ..b };
        assert_eq!(find_project(&projects, &moved), Match::Same(id("two"), Why::CommonDir));
    }

    #[test]
    fn r31_root_and_origin_together_join_and_are_said() {
        let projects = [known("one", &clone_at("/a", Some("host/a")))];
        let second = clone_at("/b", Some("host/a"));
        assert_eq!(find_project(&projects, &second), Match::Joined(id("one")));
    }

    #[test]
    fn r31_a_root_alone_stays_separate_with_a_hint() {
        let projects = [
            known("one", &clone_at("/a", Some("host/a"))),
            known("two", &clone_at("/b", None)),
            known("other", &Facts { root_commits: vec!["ff".into()], ..clone_at("/c", None) }),
        ];
        let fork = clone_at("/f", Some("host/fork"));
        let expected = Match::Separate { hint: vec![id("one"), id("two")] };
        assert_eq!(find_project(&projects, &fork), expected);
        assert_eq!(find_project(&projects, &clone_at("/g", None)), expected);
    }

    #[test]
    fn r31_two_projects_with_the_same_root_and_origin_are_not_guessed_between() {
        let projects = [
            known("one", &clone_at("/a", Some("host/a"))),
            known("two", &clone_at("/b", Some("host/a"))),
        ];
        let third = clone_at("/c", Some("host/a"));
        let expected = Match::Separate { hint: vec![id("one"), id("two")] };
        assert_eq!(find_project(&projects, &third), expected);
    }

    #[test]
    fn r31_an_origin_alone_joins_nothing() {
        let projects = [known("one", &clone_at("/a", Some("host/a")))];
        let rewritten = Facts { root_commits: vec!["ff".into()], ..clone_at("/b", Some("host/a")) };
        assert_eq!(find_project(&projects, &rewritten), Match::New);
    }

    #[test]
    fn r31_a_shallow_clone_has_no_root_commit() {
        let projects = [known("one", &clone_at("/a", Some("host/a")))];
        let shallow = Facts { shallow: true, ..clone_at("/b", Some("host/a")) };
        assert_eq!(shallow.root_commit(), None);
        assert_eq!(find_project(&projects, &shallow), Match::New);
        assert_eq!(new_project_id(&projects, &shallow), None);
        // Nor does it record one that would attract others.
        assert!(shallow.aliases().iter().all(|alias| alias.kind != AliasKind::RootCommit));
    }

    #[test]
    fn r31_aliases_are_not_transitive() {
        let first = clone_at("/a", Some("host/a"));
        let mut one = known("one", &first);
        // The same directory gets another origin; it stays the project's, its new origin does not.
        let renamed = Facts { origin: Some("host/b".into()), ..first };
        one.aliases.extend(gained_aliases(&one, &renamed));
        let clone_of_b = clone_at("/b", Some("host/b"));
        let expected = Match::Separate { hint: vec![id("one")] };
        assert_eq!(find_project(&[one], &clone_of_b), expected);
    }

    #[test]
    fn r31_a_project_learns_the_facts_it_did_not_have() {
        let bare = Facts { directory: "/a".into(), ..Facts::default() };
        let mut one = known("one", &bare);
        assert_eq!(one.aliases.len(), 1);
        one.aliases.extend(gained_aliases(&one, &clone_at("/a", Some("host/a"))));
        assert_eq!(one.aliases.len(), 4);
        assert_eq!(gained_aliases(&one, &clone_at("/a", Some("host/a"))), []);
        let second = clone_at("/b", Some("host/a"));
        assert_eq!(find_project(&[one], &second), Match::Joined(id("one")));
    }

    #[test]
    fn r31_a_new_project_is_named_after_its_root_commit_where_that_is_unambiguous() {
        let here = clone_at("/a", None);
        assert_eq!(new_project_id(&[], &here), Some(id(ROOT)));
        assert_eq!(new_project_id(&[known(ROOT, &here)], &clone_at("/b", None)), None);
        let two = Facts { root_commits: vec![ROOT.into(), "ff".into()], ..here };
        assert_eq!(new_project_id(&[], &two), None);
        assert_eq!(find_project(&[], &Facts::default()), Match::New);
    }
}
