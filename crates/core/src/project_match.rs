//! Places: which project a directory belongs to (R31).
//!
//! Owns the decision and nothing else; the facts about a directory are gathered by the caller.
//! Aliases only find candidates: a project's id is computed when it is stored, and never again.

use std::path::Path;

use crate::id::ProjectId;
use crate::model::{FileIdentity, ProjectAlias, ProjectAliasKind, RecordedRoot};

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
    /// Its identity in the file system; none if it is not known.
    pub identity: Option<FileIdentity>,
}

/// A project and the facts it is found by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectCandidate {
    /// The project.
    pub id: ProjectId,
    /// Its facts.
    pub aliases: Vec<ProjectAlias>,
    /// Its directories when they were last opened.
    pub roots: Vec<RecordedRoot>,
}

/// Whether a recorded directory is still where it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RootState {
    /// It is.
    InPlace,
    /// Its path is free, or another directory has it.
    Gone,
    /// The path could not be examined: the directory may be there.
    Unknown,
}

/// Which project a directory belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProjectMatch {
    /// This one, because of a fact only one project can have.
    Same(ProjectId, MatchReason),
    /// This one: a directory of it has moved here. No other project could have been here.
    Moved {
        /// The project.
        id: ProjectId,
        /// Where the directory was.
        from: String,
    },
    /// Another clone of this one: root commit and origin are equal. The user is informed.
    Joined(ProjectId),
    /// A new project, although these look alike, or one of them may have moved here; `project relink`
    /// would join them.
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
    /// It is the very directory that was recorded there.
    Identity,
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

    /// The directory as it is recorded with its project; none without an identity.
    #[must_use]
    pub fn recorded_root(&self) -> Option<RecordedRoot> {
        let identity = self.identity?;
        Some(RecordedRoot { directory: self.directory.clone(), identity })
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

    /// True if this project recorded another directory at the path of `facts`: that one was moved or deleted.
    #[must_use]
    pub fn is_replaced_by(&self, facts: &DirectoryFacts) -> bool {
        let Some(seen) = facts.identity else { return false };
        let mut here = self.roots.iter().filter(|root| root.directory == facts.directory);
        here.next().is_some_and(|first| {
            let is_other = |root: &RecordedRoot| !root.identity.is_same_at_path(seen);
            is_other(first) && here.all(is_other)
        })
    }

    /// True if the shared git directory of `facts` is this project's, and its path was not given to another
    /// repository.
    fn has_common_dir(
        &self,
        facts: &DirectoryFacts,
        state: &dyn Fn(&RecordedRoot) -> RootState,
    ) -> bool {
        let common_dir = facts.common_dir.as_deref();
        let holds = |root: &&RecordedRoot| {
            common_dir.is_some_and(|path| Path::new(path).starts_with(&root.directory))
        };
        let is_replaced = |root: &RecordedRoot| match root.directory == facts.directory {
            true => self.is_replaced_by(facts),
            false => state(root) == RootState::Gone,
        };
        self.has_alias(ProjectAliasKind::CommonDir, common_dir)
            && !self.roots.iter().filter(holds).any(is_replaced)
    }
}

/// Decides which project the directory of `facts` belongs to.
///
/// A directory that is where it was recorded, or that has moved here for sure, says most: a path can be
/// given to another directory, which then is not the project's. Then the shared git directory says more than
/// the path. Root commit and
/// origin join only when both are this project's own; if several projects have both, none is guessed. A
/// root commit alone, and an origin alone, join nothing. `state` tells whether a recorded directory is still
/// where it was; it is asked only about those that could be this one.
#[must_use]
pub fn match_project(
    projects: &[ProjectCandidate],
    facts: &DirectoryFacts,
    state: &dyn Fn(&RecordedRoot) -> RootState,
) -> ProjectMatch {
    if let Some(id) = find_in_place(projects, facts) {
        return ProjectMatch::Same(id, MatchReason::Identity);
    }
    let moved = find_moved(projects, facts, state);
    if let [MovedCandidate { id, from, is_sure: true }] = moved.as_slice() {
        return ProjectMatch::Moved { id: id.clone(), from: from.clone() };
    }
    if let Some(project) = projects.iter().find(|project| project.has_common_dir(facts, state)) {
        return ProjectMatch::Same(project.id.clone(), MatchReason::CommonDir);
    }
    let was_here = |project: &&ProjectCandidate| {
        project.has_alias(ProjectAliasKind::Directory, Some(&facts.directory))
    };
    let mut here = projects.iter().filter(was_here);
    if let Some(project) = here.find(|project| !project.is_replaced_by(facts)) {
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
    if let (Some(only), None) = (clones.next(), clones.next()) {
        return ProjectMatch::Joined(only.id.clone());
    }
    let mut hint: Vec<ProjectId> = moved.into_iter().map(|it| it.id).collect();
    for project in projects.iter().filter(was_here).chain(alike) {
        if !hint.contains(&project.id) {
            hint.push(project.id.clone());
        }
    }
    if hint.is_empty() { ProjectMatch::New } else { ProjectMatch::Separate { hint } }
}

/// True if the directory of `facts` may be one that a project recorded elsewhere.
#[must_use]
pub fn may_have_moved(
    projects: &[ProjectCandidate],
    facts: &DirectoryFacts,
    state: &dyn Fn(&RecordedRoot) -> RootState,
) -> bool {
    !find_moved(projects, facts, state).is_empty()
}

/// How much two identities say.
#[derive(Clone, Copy, PartialEq, Eq)]
enum IdentityMatch {
    /// The same directory.
    Same,
    /// Perhaps: the inode number may have been used again, or the device has another number since.
    Possible,
    /// Another directory.
    Different,
}

fn compare_identity(recorded: FileIdentity, seen: FileIdentity) -> IdentityMatch {
    let same_device = recorded.device == seen.device;
    match (recorded.born, seen.born) {
        _ if recorded.inode != seen.inode => IdentityMatch::Different,
        (Some(then), Some(now)) if then != now => IdentityMatch::Different,
        (Some(_), Some(_)) if same_device => IdentityMatch::Same,
        (Some(_), Some(_)) => IdentityMatch::Possible,
        _ if same_device => IdentityMatch::Possible,
        _ => IdentityMatch::Different,
    }
}

/// The one project whose recorded directory is here, by path and identity.
fn find_in_place(projects: &[ProjectCandidate], facts: &DirectoryFacts) -> Option<ProjectId> {
    let seen = facts.identity?;
    let is_here = |root: &RecordedRoot| {
        root.directory == facts.directory
            && compare_identity(root.identity, seen) == IdentityMatch::Same
    };
    let mut here = projects.iter().filter(|project| project.roots.iter().any(is_here));
    match (here.next(), here.next()) {
        (Some(only), None) => Some(only.id.clone()),
        _ => None,
    }
}

/// A project that a directory may have come from.
struct MovedCandidate {
    id: ProjectId,
    from: String,
    is_sure: bool,
}

/// The projects of which a recorded directory may have moved here, each once.
fn find_moved(
    projects: &[ProjectCandidate],
    facts: &DirectoryFacts,
    state: &dyn Fn(&RecordedRoot) -> RootState,
) -> Vec<MovedCandidate> {
    let mut found: Vec<MovedCandidate> = Vec::new();
    let Some(seen) = facts.identity else { return found };
    for project in projects {
        for root in project.roots.iter().filter(|root| root.directory != facts.directory) {
            let same = compare_identity(root.identity, seen);
            if same == IdentityMatch::Different {
                continue;
            }
            // The first commit of the same inode: not a number that was used again.
            let is_proven = same == IdentityMatch::Same
                || project.has_alias(ProjectAliasKind::RootCommit, facts.root_commit());
            let is_sure = match state(root) {
                RootState::InPlace => continue,
                RootState::Gone => is_proven,
                RootState::Unknown => false,
            };
            match found.iter_mut().find(|it| it.id == project.id) {
                // Which of its directories it was is unknown.
                Some(known) => known.is_sure = false,
                None => {
                    let (id, from) = (project.id.clone(), root.directory.clone());
                    found.push(MovedCandidate { id, from, is_sure });
                }
            }
        }
    }
    found
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
            identity: None,
        }
    }

    /// With every recorded directory gone.
    fn match_project_in(projects: &[ProjectCandidate], facts: &DirectoryFacts) -> ProjectMatch {
        match_project(projects, facts, &|_| RootState::Gone)
    }

    fn identity(inode: u64, born: Option<i64>) -> Option<FileIdentity> {
        Some(FileIdentity { device: 1, inode, born })
    }

    /// A plain directory.
    fn folder(directory: &str, inode: u64, born: Option<i64>) -> DirectoryFacts {
        DirectoryFacts {
            directory: directory.into(),
            identity: identity(inode, born),
            ..DirectoryFacts::default()
        }
    }

    fn known(id: &str, facts: &DirectoryFacts) -> ProjectCandidate {
        ProjectCandidate {
            id: id.parse().expect("a project id"),
            aliases: facts.aliases(),
            roots: facts.recorded_root().into_iter().collect(),
        }
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
            match_project_in(&projects, &here),
            ProjectMatch::Same(id("one"), MatchReason::CommonDir)
        );
        let worktree = DirectoryFacts { directory: "/a-feature".into(), ..here.clone() };
        assert_eq!(
            match_project_in(&projects, &worktree),
            ProjectMatch::Same(id("one"), MatchReason::CommonDir)
        );
        let without_git = DirectoryFacts { directory: "/a".into(), ..DirectoryFacts::default() };
        assert_eq!(
            match_project_in(&projects, &without_git),
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
            match_project_in(&projects, &moved),
            ProjectMatch::Same(id("two"), MatchReason::CommonDir)
        );
    }

    /// Proves R31.
    #[test]
    fn root_commit_and_origin_join_a_clone() {
        let projects = [known("one", &clone_at("/a", Some("host/a")))];
        let second = clone_at("/b", Some("host/a"));
        assert_eq!(match_project_in(&projects, &second), ProjectMatch::Joined(id("one")));
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
        assert_eq!(match_project_in(&projects, &fork), expected);
        assert_eq!(match_project_in(&projects, &clone_at("/g", None)), expected);
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
        assert_eq!(match_project_in(&projects, &third), expected);
    }

    /// Proves R31.
    #[test]
    fn origin_alone_joins_nothing() {
        let projects = [known("one", &clone_at("/a", Some("host/a")))];
        let rewritten =
            DirectoryFacts { root_commits: vec!["ff".into()], ..clone_at("/b", Some("host/a")) };
        assert_eq!(match_project_in(&projects, &rewritten), ProjectMatch::New);
    }

    /// Proves R31.
    #[test]
    fn shallow_clone_has_no_root_commit() {
        let projects = [known("one", &clone_at("/a", Some("host/a")))];
        let shallow = DirectoryFacts { shallow: true, ..clone_at("/b", Some("host/a")) };
        assert_eq!(shallow.root_commit(), None);
        assert_eq!(match_project_in(&projects, &shallow), ProjectMatch::New);
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
        assert_eq!(match_project_in(&[one], &clone_of_b), expected);
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
        assert_eq!(match_project_in(&[one], &second), ProjectMatch::Joined(id("one")));
    }

    /// Proves R31.
    #[test]
    fn new_project_id_is_its_unique_root_commit() {
        let here = clone_at("/a", None);
        assert_eq!(new_project_id(&[], &here), Some(id(ROOT)));
        assert_eq!(new_project_id(&[known(ROOT, &here)], &clone_at("/b", None)), None);
        let two = DirectoryFacts { root_commits: vec![ROOT.into(), "ff".into()], ..here };
        assert_eq!(new_project_id(&[], &two), None);
        assert_eq!(match_project_in(&[], &DirectoryFacts::default()), ProjectMatch::New);
    }

    /// Proves R31.
    #[test]
    fn moved_directory_matches_by_identity() {
        let projects =
            [known("one", &folder("/a", 1, Some(7))), known("two", &folder("/b", 2, Some(7)))];
        let moved = ProjectMatch::Moved { id: id("one"), from: "/a".into() };
        assert_eq!(match_project_in(&projects, &folder("/new", 1, Some(7))), moved);
        // It took the place of another project.
        assert_eq!(match_project_in(&projects, &folder("/b", 1, Some(7))), moved);
        let here = ProjectMatch::Same(id("one"), MatchReason::Identity);
        assert_eq!(match_project_in(&projects, &folder("/a", 1, Some(7))), here);
    }

    /// Proves R31.
    #[test]
    fn another_directory_at_a_recorded_path_is_only_named() {
        let old = folder("/a", 1, Some(7));
        let named = ProjectMatch::Separate { hint: vec![id("one")] };
        assert_eq!(match_project_in(&[known("one", &old)], &folder("/a", 2, Some(8))), named);
        // A new repository there has the same path for its git directory.
        let repository = DirectoryFacts { identity: identity(1, Some(7)), ..clone_at("/a", None) };
        let fresh = DirectoryFacts {
            identity: identity(2, Some(8)),
            root_commits: Vec::new(),
            ..clone_at("/a", None)
        };
        assert_eq!(match_project_in(&[known("one", &repository)], &fresh), named);
        // A device may have another number after it was mounted again.
        let again = FileIdentity { device: 2, inode: 1, born: Some(7) };
        let mounted = DirectoryFacts { identity: Some(again), ..old.clone() };
        let same = ProjectMatch::Same(id("one"), MatchReason::Directory);
        assert_eq!(match_project_in(&[known("one", &old)], &mounted), same);
    }

    /// Proves R31.
    #[test]
    fn directory_that_is_still_in_place_has_not_moved() {
        let projects = [known("one", &folder("/a", 1, Some(7)))];
        let found = |state| match_project(&projects, &folder("/bound", 1, Some(7)), &|_| state);
        assert_eq!(found(RootState::InPlace), ProjectMatch::New);
        let unsure = ProjectMatch::Separate { hint: vec![id("one")] };
        assert_eq!(found(RootState::Unknown), unsure, "a missing answer is not a no");
        // A copy has an inode of its own.
        assert_eq!(match_project_in(&projects, &folder("/copy", 3, Some(9))), ProjectMatch::New);
    }

    /// Proves R31.
    #[test]
    fn reused_inode_is_not_a_move() {
        let projects = [known("one", &folder("/a", 1, Some(7)))];
        assert_eq!(match_project_in(&projects, &folder("/new", 1, Some(8))), ProjectMatch::New);
        // Without birth times nobody knows.
        let unsure = ProjectMatch::Separate { hint: vec![id("one")] };
        let without = [known("one", &folder("/a", 1, None))];
        for known in [&projects, &without] {
            assert_eq!(match_project_in(known, &folder("/new", 1, None)), unsure);
        }
        // The first commit decides it.
        let repository = DirectoryFacts { identity: identity(1, None), ..clone_at("/a", None) };
        let moved = DirectoryFacts { identity: identity(1, None), ..clone_at("/new", None) };
        let expected = ProjectMatch::Moved { id: id("one"), from: "/a".into() };
        assert_eq!(match_project_in(&[known("one", &repository)], &moved), expected);
    }

    /// Proves R31.
    #[test]
    fn several_moved_candidates_are_only_named() {
        let projects =
            [known("one", &folder("/a", 1, Some(7))), known("two", &folder("/b", 1, Some(7)))];
        let unsure = ProjectMatch::Separate { hint: vec![id("one"), id("two")] };
        assert_eq!(match_project_in(&projects, &folder("/new", 1, Some(7))), unsure);
        // What is known by its path needs no guess.
        let there = ProjectMatch::Same(id("two"), MatchReason::Identity);
        assert_eq!(match_project_in(&projects, &folder("/b", 1, Some(7))), there);
    }
}
