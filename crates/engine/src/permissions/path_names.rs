//! The names of a file that rules are compared with: the one that was written, and those that `..` and
//! links make of it.
//!
//! A rule names a file, a request names a path, and a repository can hold links. A denial counts for a
//! file, so every name on the way to it is judged, and one denied name is enough.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Component, Path, PathBuf};

use turnstone_core::model::PermissionAsk;
use turnstone_core::permission::PermissionRule;

/// More links on the way than any system follows.
const MAX_LINKS: usize = 40;
/// Permissions whose patterns are paths below the root.
const FILE_PERMISSIONS: [&str; 3] = ["edit", "read", "list"];
/// The permission whose patterns are absolute paths.
const DIRECTORY_PERMISSION: &str = "external_directory";

/// Where the paths of a session begin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PathOrigin {
    /// The directory of the session.
    pub(super) directory: PathBuf,
    /// The root of the project that holds it; patterns begin there.
    pub(super) root: PathBuf,
    /// All roots of the project.
    pub(super) roots: Vec<PathBuf>,
}

impl PathOrigin {
    /// Every name by which rules about files can mean `path`, a path as a tool of the session writes it.
    pub(super) fn list_names(&self, path: &Path) -> io::Result<BTreeSet<String>> {
        let all = list_paths(&self.directory.join(path))?;
        Ok(all.iter().map(|path| self.pattern_of(path)).collect())
    }

    /// A path as patterns write it: from the root that holds it, else absolute.
    fn pattern_of(&self, path: &Path) -> String {
        let own = path.strip_prefix(&self.root).ok();
        let roots = self.roots.iter().filter_map(|root| path.strip_prefix(root).ok());
        // What is left is shortest below the closest root.
        let below = own.or_else(|| roots.min_by_key(|rest| rest.components().count()));
        below.unwrap_or(path).to_string_lossy().into_owned()
    }

    /// A request with every name its patterns can mean, so that rules, and the person who is asked, see
    /// what it is about.
    pub(super) fn with_real_names(&self, ask: &PermissionAsk) -> io::Result<PermissionAsk> {
        let patterns = self.list_pattern_names(&ask.permission, &ask.patterns)?;
        Ok(PermissionAsk { patterns, ..ask.clone() })
    }

    /// The patterns of a request, and then the other names of what they can mean.
    pub(super) fn list_pattern_names(
        &self,
        permission: &str,
        asked: &[String],
    ) -> io::Result<Vec<String>> {
        let is_directory = permission == DIRECTORY_PERMISSION;
        let mut patterns = asked.to_vec();
        if !is_directory && !FILE_PERMISSIONS.contains(&permission) {
            return Ok(patterns);
        }
        for pattern in asked.iter().filter(|pattern| !pattern.is_empty()) {
            let mut names = BTreeSet::new();
            for path in self.candidates(pattern) {
                for path in list_paths(&path)? {
                    names.insert(match is_directory {
                        true => path.to_string_lossy().into_owned(),
                        false => self.pattern_of(&path),
                    });
                }
            }
            names.retain(|name| !patterns.contains(name));
            patterns.extend(names);
        }
        Ok(patterns)
    }

    /// What a pattern of a request can mean: a path from the root, as OpenCode writes it; one that leads up
    /// may also begin at the directory.
    fn candidates(&self, pattern: &str) -> Vec<PathBuf> {
        let path = Path::new(pattern);
        let leads_up = path.components().any(|part| part == Component::ParentDir);
        let is_marked = leads_up || pattern.starts_with("./");
        let mut found = vec![self.root.join(path)];
        if is_marked && self.directory != self.root {
            found.push(self.directory.join(path));
        }
        found
    }
}

/// Rules about absolute paths, each followed by itself with the links in its fixed part resolved: a rule
/// and a file may name the same directory differently.
pub(super) fn with_real_prefixes(rules: &[PermissionRule]) -> io::Result<Vec<PermissionRule>> {
    let mut all = Vec::with_capacity(rules.len());
    let mut known: BTreeMap<&str, PathBuf> = BTreeMap::new();
    for rule in rules {
        all.push(rule.clone());
        if !rule.pattern.starts_with('/') {
            continue;
        }
        let fixed = rule.pattern.find(['*', '?']).unwrap_or(rule.pattern.len());
        let Some((folder, _)) = rule.pattern.get(..fixed).and_then(|it| it.rsplit_once('/')) else {
            continue;
        };
        if folder.is_empty() {
            continue;
        }
        if !known.contains_key(folder) {
            known.insert(folder, resolve_path(Path::new(folder))?);
        }
        let Some(real) = known.get(folder).and_then(|real| real.to_str()) else { continue };
        if real != folder {
            let rest = rule.pattern.get(folder.len()..).unwrap_or_default();
            let pattern = format!("{}{rest}", real.trim_end_matches('/'));
            all.push(PermissionRule { pattern, ..rule.clone() });
        }
    }
    Ok(all)
}

/// The path that is left when all links and `..` are followed; names that do not exist are taken as they
/// are, and a circle of links ends somewhere in it.
///
/// # Errors
///
/// The system failed.
pub fn resolve_path(path: &Path) -> io::Result<PathBuf> {
    let mut walk = PathWalk::new(path);
    while walk.step()?.is_some() {}
    Ok(walk.at)
}

/// True if the links of a path lead in a circle, or through more than a system follows.
///
/// # Errors
///
/// The system failed.
pub(crate) fn is_link_circle(path: &Path) -> io::Result<bool> {
    let mut walk = PathWalk::new(path);
    while walk.step()?.is_some() {}
    Ok(walk.links > MAX_LINKS)
}

/// An absolute path, the same without `..`, and what each link on the way makes of it, to the last.
fn list_paths(path: &Path) -> io::Result<BTreeSet<PathBuf>> {
    let mut found = BTreeSet::from([path.components().collect(), remove_dots(path)]);
    let mut walk = PathWalk::new(path);
    while let Some(link) = walk.step()? {
        found.insert(link);
        found.insert(remove_dots(&walk.rest_from_here()));
    }
    found.insert(walk.at);
    Ok(found)
}

/// A path with every `..` taken as text.
fn remove_dots(path: &Path) -> PathBuf {
    let mut clean = PathBuf::from("/");
    for part in path.components() {
        match part {
            Component::ParentDir => drop(clean.pop()),
            Component::Normal(name) => clean.push(name),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    clean
}

/// Follows a path as the system does, link by link; where nothing exists, by its names.
struct PathWalk {
    at: PathBuf,
    /// Components that are left, the next one last.
    left: Vec<OsString>,
    links: usize,
}

impl PathWalk {
    fn new(path: &Path) -> Self {
        let mut walk = Self { at: PathBuf::from("/"), left: Vec::new(), links: 0 };
        walk.enter(path);
        walk
    }

    fn enter(&mut self, path: &Path) {
        let parts = path.components().rev().filter_map(|part| match part {
            Component::Normal(name) => Some(name.to_owned()),
            Component::ParentDir => Some(OsStr::new("..").to_owned()),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
        });
        self.left.extend(parts);
        if path.is_absolute() {
            self.at = PathBuf::from("/");
        }
    }

    /// The place reached, and what is left of the path.
    fn rest_from_here(&self) -> PathBuf {
        self.left.iter().rev().fold(self.at.clone(), |path, name| path.join(name))
    }

    /// Goes on up to the next link and returns the path with the link in it; nothing at the end.
    fn step(&mut self) -> io::Result<Option<PathBuf>> {
        while let Some(name) = self.left.pop() {
            if name == ".." {
                self.at.pop();
                continue;
            }
            let next = self.at.join(&name);
            let Some(target) = read_link(&next)? else {
                self.at = next;
                continue;
            };
            self.links += 1;
            if self.links > MAX_LINKS {
                // Nobody gets any further, in a circle or not.
                self.left.clear();
                self.at = next;
                return Ok(None);
            }
            let whole = self.left.iter().rev().fold(next, |path, name| path.join(name));
            self.enter(&target);
            return Ok(Some(remove_dots(&whole)));
        }
        Ok(None)
    }
}

/// The target of a link; nothing if this is none, or if nothing is there.
fn read_link(path: &Path) -> io::Result<Option<PathBuf>> {
    use io::ErrorKind::{InvalidFilename, InvalidInput, NotADirectory, NotFound, PermissionDenied};
    match fs_err::read_link(path) {
        Ok(target) => Ok(Some(target)),
        Err(error) => {
            // Not a link, no such file, something below a file, or a name no file can have. Who cannot search
            // a folder cannot write to what is in it either.
            let has_none =
                [InvalidInput, NotFound, NotADirectory, InvalidFilename, PermissionDenied];
            if has_none.contains(&error.kind()) { Ok(None) } else { Err(error) }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use turnstone_core::permission::RuleAction;

    use super::*;

    #[test]
    fn every_name_on_the_way_to_a_file_is_listed() {
        let dir = tempfile::tempdir().expect("a directory");
        let root = fs_err::canonicalize(dir.path()).expect("real");
        fs_err::create_dir(root.join("sub")).expect("made");
        fs_err::write(root.join("f"), "").expect("written");
        for (target, name) in
            [("f", "one"), ("./self/one", "two"), (".", "self"), ("gone", "dangling")]
        {
            symlink(target, root.join(name)).expect("linked");
        }
        let origin = PathOrigin {
            directory: root.join("sub"),
            root: root.clone(),
            roots: vec![root.clone()],
        };
        let names = |path: &str| {
            origin.list_names(Path::new(path)).expect("read").into_iter().collect::<Vec<_>>()
        };
        assert_eq!(names("x"), ["sub/x"]);
        assert_eq!(names("../f"), ["f", "sub/../f"]);
        assert_eq!(names("../two"), ["f", "one", "self/one", "sub/../two", "two"]);
        assert_eq!(names("../dangling"), ["dangling", "gone", "sub/../dangling"]);
        assert_eq!(names("no/../x"), ["sub/no/../x", "sub/x"]);
        assert_eq!(names("/etc/../f"), ["/etc/../f", "/f"]);
        symlink("loop", root.join("loop")).expect("linked");
        assert_eq!(names("../loop"), ["loop", "sub/../loop"]);
    }

    #[test]
    fn rules_about_directories_count_under_their_real_name() {
        let dir = tempfile::tempdir().expect("a directory");
        let root = fs_err::canonicalize(dir.path()).expect("real");
        fs_err::create_dir(root.join("real")).expect("made");
        symlink("real", root.join("named")).expect("linked");
        let root = root.display();
        let rule = |pattern: &str| PermissionRule::new("edit", pattern, RuleAction::Deny);
        let rules = ["*", "src/*", "/*", &format!("{root}/named/*.md"), &format!("{root}/real/*")];
        let found = with_real_prefixes(&rules.map(rule)).expect("read");
        let patterns: Vec<&str> = found.iter().map(|rule| rule.pattern.as_str()).collect();
        let (named, real) = (format!("{root}/named/*.md"), format!("{root}/real/*.md"));
        assert_eq!(patterns, ["*", "src/*", "/*", &named, &real, &format!("{root}/real/*")]);
    }
}
