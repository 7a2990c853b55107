//! Finds the project and checkout that a directory belongs to.

use std::path::Path;

use turnstone_core::id::ProjectId;
use turnstone_core::model::{Project, ProjectAliasKind, Session};

/// Project and checkout of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProjectLocation {
    /// The project that contains the directory, if any.
    pub(crate) project: Option<ProjectId>,
    /// The checkout that contains the directory, or the directory itself.
    pub(crate) root: String,
}

impl ProjectLocation {
    /// Finds the project with the closest directory above `directory`.
    ///
    /// A project at the root of the file system collects everything that belongs to no other project.
    /// It is not used here: the location is then the directory itself.
    pub(crate) fn find(projects: &[Project], directory: &Path) -> Self {
        let real = fs_err::canonicalize(directory).unwrap_or_else(|_| directory.to_path_buf());
        let above = |root: &&str| {
            let root = Path::new(*root);
            root.parent().is_some() && (real.starts_with(root) || directory.starts_with(root))
        };
        let closest = projects
            .iter()
            .flat_map(|project| project_directories(project).map(move |root| (project, root)))
            .filter(|(_, root)| above(root))
            .max_by_key(|(_, root)| Path::new(*root).components().count());
        match closest {
            Some((project, root)) => {
                Self { project: Some(project.id.clone()), root: root.to_owned() }
            }
            None => Self { project: None, root: directory.to_string_lossy().into_owned() },
        }
    }

    /// True if a session belongs to this checkout.
    pub(crate) fn contains_session(&self, session: &Session) -> bool {
        let same = self.project.as_ref().is_none_or(|project| session.project == *project);
        same && !session.directory.is_empty()
            && Path::new(&session.directory).starts_with(&self.root)
    }

    /// True if a session belongs to this project.
    pub(crate) fn has_same_project(&self, session: &Session) -> bool {
        self.project.as_ref() == Some(&session.project)
    }
}

/// The directories of a project.
fn project_directories(project: &Project) -> impl Iterator<Item = &str> {
    let aliases = project.aliases.iter().filter(|alias| alias.kind == ProjectAliasKind::Directory);
    std::iter::once(project.worktree.as_str())
        .chain(project.sandboxes.iter().map(String::as_str))
        .chain(aliases.map(|alias| alias.value.as_str()))
        .filter(|root| !root.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn project(id: &str, worktree: &str, sandboxes: &[&str]) -> Project {
        let time = json!({ "created": 1, "updated": 1 });
        let value = json!({ "id": id, "worktree": worktree, "sandboxes": sandboxes, "time": time });
        serde_json::from_value(value).expect("project")
    }

    #[test]
    fn nearest_enclosing_project_wins() {
        let projects = [
            project("global", "/", &[]),
            project("outer", "/home/ada", &[]),
            project("inner", "/home/ada/p", &["/tmp/p-two"]),
        ];
        let find = |path: &str| ProjectLocation::find(&projects, Path::new(path));
        let project = |path: &str| find(path).project.map(|id| id.to_string());
        assert_eq!(project("/home/ada/p/src").as_deref(), Some("inner"));
        assert_eq!(find("/home/ada/p/src").root, "/home/ada/p");
        assert_eq!(project("/tmp/p-two").as_deref(), Some("inner"));
        assert_eq!(project("/home/ada/pq").as_deref(), Some("outer"));
        assert_eq!(project("/elsewhere"), None);
        assert_eq!(find("/elsewhere").root, "/elsewhere");
    }
}
