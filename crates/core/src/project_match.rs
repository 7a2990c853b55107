//! Places: which project a directory belongs to (R31).
//!
//! Owns the decision and nothing else; the facts about a directory are gathered by the caller.
//! Aliases only find candidates: a project's id is computed when it is stored, and never again.

use crate::id::ProjectId;
use crate::model::{ProjectAlias, ProjectAliasKind};

/// What is known of a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DirectoryFacts {
    /// Its real path.
    pub directory: String,
    /// The git directory all its worktrees share, as a real path; none outside git.
    pub common_dir: Option<String>,
    /// Its commits without a parent; several where histories were joined.
    pub root_commits: Vec<String>,
    /// True for a shallow clone: its oldest commits are not root commits.
    pub shallow: bool,
    /// Its remote called origin, as `host/path`.
    pub origin: Option<String>,
}

/// A project and the facts it is found by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectCandidate {
    /// The project.
    pub id: ProjectId,
    /// Its facts.
    pub aliases: Vec<ProjectAlias>,
}

/// Which project a directory belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProjectMatch {
    /// This one, because of a fact only one project can have.
    Same(ProjectId, MatchReason),
    /// Another clone of this one: root commit and origin are equal. The user is informed.
    Joined(ProjectId),
    /// A new project, although these look alike; `project relink` would join them.
    Separate {
        /// The projects that look alike, in the order they were given.
        hint: Vec<ProjectId>,
    },
    /// A new project.
    New,
}

/// Why a directory is a project's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatchReason {
    /// It shares the git directory.
    CommonDir,
    /// It was seen there before.
    Directory,
}

impl DirectoryFacts {
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
    pub fn aliases(&self) -> Vec<ProjectAlias> {
        let facts = [
            (ProjectAliasKind::RootCommit, self.root_commit()),
            (ProjectAliasKind::Origin, self.origin.as_deref()),
            (ProjectAliasKind::CommonDir, self.common_dir.as_deref()),
            (ProjectAliasKind::Directory, Some(self.directory.as_str())),
        ];
        let alias = |(kind, value): (ProjectAliasKind, Option<&str>)| {
            Some(ProjectAlias { kind, value: value.filter(|value| !value.is_empty())?.to_owned() })
        };
        facts.into_iter().filter_map(alias).collect()
    }
}

impl ProjectCandidate {
    fn has_alias(&self, kind: ProjectAliasKind, value: Option<&str>) -> bool {
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
pub fn match_project(projects: &[ProjectCandidate], facts: &DirectoryFacts) -> ProjectMatch {
    let with =
        |kind, value: Option<&str>| projects.iter().find(|project| project.has_alias(kind, value));
    if let Some(project) = with(ProjectAliasKind::CommonDir, facts.common_dir.as_deref()) {
        return ProjectMatch::Same(project.id.clone(), MatchReason::CommonDir);
    }
    if let Some(project) = with(ProjectAliasKind::Directory, Some(&facts.directory)) {
        return ProjectMatch::Same(project.id.clone(), MatchReason::Directory);
    }
    let same_root = |project: &&ProjectCandidate| {
        project.has_alias(ProjectAliasKind::RootCommit, facts.root_commit())
    };
    let alike: Vec<&ProjectCandidate> = projects.iter().filter(same_root).collect();
    let same_origin = |project: &&&ProjectCandidate| {
        project.has_alias(ProjectAliasKind::Origin, facts.origin.as_deref())
    };
    let mut clones = alike.iter().filter(same_origin);
    match (clones.next(), clones.next()) {
        (Some(only), None) => ProjectMatch::Joined(only.id.clone()),
        _ if alike.is_empty() => ProjectMatch::New,
        _ => ProjectMatch::Separate {
            hint: alike.iter().map(|project| project.id.clone()).collect(),
        },
    }
}

/// The aliases a project gains from a directory that was found to be its own.
///
/// Paths are always added. Root commit and origin are added only where the project has none of the
/// kind yet: otherwise a directory that came in by one fact would bring others in by its second,
/// and aliases are not transitive.
#[must_use]
pub fn gained_aliases(project: &ProjectCandidate, facts: &DirectoryFacts) -> Vec<ProjectAlias> {
    let gained = |alias: &ProjectAlias| match alias.kind {
        ProjectAliasKind::CommonDir | ProjectAliasKind::Directory => {
            !project.aliases.contains(alias)
        }
        ProjectAliasKind::RootCommit | ProjectAliasKind::Origin => {
            !project.aliases.iter().any(|known| known.kind == alias.kind)
        }
    };
    facts.aliases().into_iter().filter(gained).collect()
}

/// The id of a new project: its root commit, unless that is unknown, ambiguous or another's id.
///
/// `None` means the caller derives one from the place.
#[must_use]
pub fn new_project_id(projects: &[ProjectCandidate], facts: &DirectoryFacts) -> Option<ProjectId> {
    let id: ProjectId = facts.root_commit()?.parse().ok()?;
    (!projects.iter().any(|project| project.id == id)).then_some(id)
}

/// A remote as `host/path`: the same for all URLs of one repository.
///
/// User, port and protocol do not count, nor does `.git` at the end; the case of the path does. A
/// remote on the same machine names no repository that others could have too.
#[must_use]
pub fn normalize_origin(url: &str) -> Option<String> {
    let url = url.trim();
    let (host, path) = match url.split_once("://") {
        Some((scheme, _)) if scheme.eq_ignore_ascii_case("file") => return None,
        Some((_, rest)) => rest.split_once('/')?,
        // `user@host:path`; what has a slash before the colon is a path.
        None => url.split_once(':').filter(|(host, _)| !host.contains('/'))?,
    };
    let host = host.rsplit('@').next().unwrap_or(host);
    // An IPv6 address in brackets contains colons.
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

    fn clone_at(directory: &str, origin: Option<&str>) -> DirectoryFacts {
        DirectoryFacts {
            directory: directory.into(),
            common_dir: Some(format!("{directory}/.git")),
            root_commits: vec![ROOT.into()],
            shallow: false,
            origin: origin.map(Into::into),
        }
    }

    fn known(id: &str, facts: &DirectoryFacts) -> ProjectCandidate {
        ProjectCandidate { id: id.parse().expect("a project id"), aliases: facts.aliases() }
    }

    fn id(text: &str) -> ProjectId {
        text.parse().expect("a project id")
    }

    /// Proves R31.
    #[test]
    fn remote_urls_normalize_to_one_origin() {
        let same = [
            "https://Host.example/Team/app.git",
            "https://user:secret@host.example:8443/Team/app/",
            "ssh://git@host.example:22/Team/app.git",
            "git@host.example:Team/app.git",
            "host.example:/Team/app",
        ];
        for url in same {
            assert_eq!(normalize_origin(url).as_deref(), Some("host.example/Team/app"), "{url}");
        }
        assert_eq!(normalize_origin("https://[::1]:80/a").as_deref(), Some("::1/a"));
        for none in [
            "file:///srv/app.git",
            "/srv/app.git",
            "../app",
            "C:/app",
            "",
            "https://host/",
            "./a:b",
        ] {
            assert_eq!(normalize_origin(none), None, "{none}");
        }
    }

    /// Proves R31.
    #[test]
    fn same_directory_or_git_dir_matches() {
        let here = clone_at("/a", Some("host/a"));
        let projects = [known("one", &here)];
        assert_eq!(
            match_project(&projects, &here),
            ProjectMatch::Same(id("one"), MatchReason::CommonDir)
        );
        let worktree = DirectoryFacts { directory: "/a-feature".into(), ..here.clone() };
        assert_eq!(
            match_project(&projects, &worktree),
            ProjectMatch::Same(id("one"), MatchReason::CommonDir)
        );
        let without_git = DirectoryFacts { directory: "/a".into(), ..DirectoryFacts::default() };
        assert_eq!(
            match_project(&projects, &without_git),
            ProjectMatch::Same(id("one"), MatchReason::Directory)
        );
    }

    /// Proves R31.
    #[test]
    fn git_dir_outranks_path() {
        let (a, b) = (clone_at("/a", None), clone_at("/b", None));
        let projects = [known("one", &a), known("two", &b)];
        let moved = DirectoryFacts { directory: "/a".into(), ..b };
        assert_eq!(
            match_project(&projects, &moved),
            ProjectMatch::Same(id("two"), MatchReason::CommonDir)
        );
    }

    /// Proves R31.
    #[test]
    fn root_commit_and_origin_join_a_clone() {
        let projects = [known("one", &clone_at("/a", Some("host/a")))];
        let second = clone_at("/b", Some("host/a"));
        assert_eq!(match_project(&projects, &second), ProjectMatch::Joined(id("one")));
    }

    /// Proves R31.
    #[test]
    fn root_commit_alone_only_hints() {
        let projects = [
            known("one", &clone_at("/a", Some("host/a"))),
            known("two", &clone_at("/b", None)),
            known(
                "other",
                &DirectoryFacts { root_commits: vec!["ff".into()], ..clone_at("/c", None) },
            ),
        ];
        let fork = clone_at("/f", Some("host/fork"));
        let expected = ProjectMatch::Separate { hint: vec![id("one"), id("two")] };
        assert_eq!(match_project(&projects, &fork), expected);
        assert_eq!(match_project(&projects, &clone_at("/g", None)), expected);
    }

    /// Proves R31.
    #[test]
    fn ambiguous_clones_stay_separate() {
        let projects = [
            known("one", &clone_at("/a", Some("host/a"))),
            known("two", &clone_at("/b", Some("host/a"))),
        ];
        let third = clone_at("/c", Some("host/a"));
        let expected = ProjectMatch::Separate { hint: vec![id("one"), id("two")] };
        assert_eq!(match_project(&projects, &third), expected);
    }

    /// Proves R31.
    #[test]
    fn origin_alone_joins_nothing() {
        let projects = [known("one", &clone_at("/a", Some("host/a")))];
        let rewritten =
            DirectoryFacts { root_commits: vec!["ff".into()], ..clone_at("/b", Some("host/a")) };
        assert_eq!(match_project(&projects, &rewritten), ProjectMatch::New);
    }

    /// Proves R31.
    #[test]
    fn shallow_clone_has_no_root_commit() {
        let projects = [known("one", &clone_at("/a", Some("host/a")))];
        let shallow = DirectoryFacts { shallow: true, ..clone_at("/b", Some("host/a")) };
        assert_eq!(shallow.root_commit(), None);
        assert_eq!(match_project(&projects, &shallow), ProjectMatch::New);
        assert_eq!(new_project_id(&projects, &shallow), None);
        // Nor does it record one that would attract others.
        assert!(shallow.aliases().iter().all(|alias| alias.kind != ProjectAliasKind::RootCommit));
    }

    /// Proves R31.
    #[test]
    fn aliases_are_not_transitive() {
        let first = clone_at("/a", Some("host/a"));
        let mut one = known("one", &first);
        // The same directory gets another origin; it stays the project's, its new origin does not.
        let renamed = DirectoryFacts { origin: Some("host/b".into()), ..first };
        one.aliases.extend(gained_aliases(&one, &renamed));
        let clone_of_b = clone_at("/b", Some("host/b"));
        let expected = ProjectMatch::Separate { hint: vec![id("one")] };
        assert_eq!(match_project(&[one], &clone_of_b), expected);
    }

    /// Proves R31.
    #[test]
    fn project_gains_missing_aliases() {
        let bare = DirectoryFacts { directory: "/a".into(), ..DirectoryFacts::default() };
        let mut one = known("one", &bare);
        assert_eq!(one.aliases.len(), 1);
        one.aliases.extend(gained_aliases(&one, &clone_at("/a", Some("host/a"))));
        assert_eq!(one.aliases.len(), 4);
        assert_eq!(gained_aliases(&one, &clone_at("/a", Some("host/a"))), []);
        let second = clone_at("/b", Some("host/a"));
        assert_eq!(match_project(&[one], &second), ProjectMatch::Joined(id("one")));
    }

    /// Proves R31.
    #[test]
    fn new_project_id_is_its_unique_root_commit() {
        let here = clone_at("/a", None);
        assert_eq!(new_project_id(&[], &here), Some(id(ROOT)));
        assert_eq!(new_project_id(&[known(ROOT, &here)], &clone_at("/b", None)), None);
        let two = DirectoryFacts { root_commits: vec![ROOT.into(), "ff".into()], ..here };
        assert_eq!(new_project_id(&[], &two), None);
        assert_eq!(match_project(&[], &DirectoryFacts::default()), ProjectMatch::New);
    }
}
