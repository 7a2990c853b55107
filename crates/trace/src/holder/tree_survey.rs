//! What of the tree lives on, and what it has open for writing.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io;
use std::path::{Path, PathBuf};

use crate::log::RemainingProcess;

/// Lists the living processes below this one, but for the given ones of ours.
///
/// Orphans of the tree are below this process because it is their subreaper.
pub(crate) fn list_tree(excluded: &[i32]) -> io::Result<Vec<RemainingProcess>> {
    let parents = read_parents()?;
    let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for (pid, (parent, _)) in &parents {
        children.entry(*parent).or_default().push(*pid);
    }
    let mut found = Vec::new();
    let mut seen = HashSet::new();
    let mut pending = vec![i32::try_from(std::process::id()).unwrap_or_default()];
    while let Some(parent) = pending.pop() {
        for pid in children.get(&parent).into_iter().flatten().filter(|pid| seen.insert(**pid)) {
            pending.push(*pid);
            if excluded.contains(pid) {
                continue;
            }
            if let Some((_, name)) = parents.get(pid) {
                let (name, open_for_writing) = (name.clone(), list_written_files(*pid));
                found.push(RemainingProcess { pid: *pid, name, open_for_writing });
            }
        }
    }
    Ok(found)
}

/// Returns parent and name of every process that is not dead.
fn read_parents() -> io::Result<BTreeMap<i32, (i32, String)>> {
    let mut parents = BTreeMap::new();
    for entry in fs_err::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
        // A process that ends meanwhile has no entry any more.
        let Ok(text) = fs_err::read(format!("/proc/{pid}/stat")) else { continue };
        if let Some((parent, name)) = parse_stat(&String::from_utf8_lossy(&text)) {
            parents.insert(pid, (parent, name));
        }
    }
    Ok(parents)
}

/// Takes parent and name out of a line of `stat`; nothing for the dead.
fn parse_stat(text: &str) -> Option<(i32, String)> {
    let (before, after) = text.rsplit_once(')')?;
    let (_, name) = before.split_once('(')?;
    let mut fields = after.split_ascii_whitespace();
    let is_dead = matches!(fields.next()?, "Z" | "X" | "x");
    let parent = fields.next()?.parse().ok()?;
    (!is_dead).then(|| (parent, name.to_owned()))
}

/// Lists the files that a process can write without another call that would be reported.
fn list_written_files(pid: i32) -> Option<Vec<PathBuf>> {
    let mut files = BTreeSet::new();
    for entry in fs_err::read_dir(format!("/proc/{pid}/fd")).ok()? {
        let fd = entry.ok()?.file_name();
        let path = Path::new("/proc").join(pid.to_string()).join("fd").join(&fd);
        // A descriptor closed meanwhile cannot be written.
        let Ok(target) = fs_err::read_link(&path) else { continue };
        let is_file = fs_err::metadata(&path).is_ok_and(|found| found.is_file());
        if is_file && is_writable(pid, &fd.to_string_lossy()) {
            files.insert(target);
        }
    }
    let maps = fs_err::read(format!("/proc/{pid}/maps")).ok()?;
    files.extend(String::from_utf8_lossy(&maps).lines().filter_map(parse_shared_mapping));
    Some(files.into_iter().collect())
}

fn is_writable(pid: i32, fd: &str) -> bool {
    let info = fs_err::read_to_string(format!("/proc/{pid}/fdinfo/{fd}")).unwrap_or_default();
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| i32::from_str_radix(flags.trim(), 8).ok());
    flags.is_some_and(|flags| flags & libc::O_ACCMODE != libc::O_RDONLY)
}

/// The file of a writable shared mapping: `7f…-7f… rw-s 00000000 08:01 1234   /path`.
fn parse_shared_mapping(line: &str) -> Option<PathBuf> {
    let mut fields = line.splitn(6, ' ');
    let access = fields.nth(1)?;
    let path = fields.nth(3)?.trim_start();
    let is_shared = access.get(1..2) == Some("w") && access.get(3..4) == Some("s");
    (is_shared && path.starts_with('/') && !path.starts_with("/dev/zero")).then(|| path.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_lines_name_parent_and_program() {
        let line = "42 (a) R (b c) S 1 40 39 0";
        assert_eq!(parse_stat(line), Some((1, "a) R (b c".to_owned())));
        assert_eq!(parse_stat("42 (a) Z 1 40"), None);
        assert_eq!(parse_stat("42"), None);
    }

    #[test]
    fn only_shared_writable_mappings_count() {
        let path = |access: &str| {
            parse_shared_mapping(&format!("7f00-7f10 {access} 00000000 08:01 12     /a b"))
        };
        assert_eq!(path("rw-s"), Some(PathBuf::from("/a b")));
        assert_eq!(path("rw-p"), None);
        assert_eq!(path("r--s"), None);
        assert_eq!(parse_shared_mapping("7f00-7f10 rw-s 00000000 00:00 0"), None);
    }

    proptest::proptest! {
        /// Programs choose their names, and files theirs.
        #[test]
        fn any_lines_are_parsed(line in ".*", name in ".*") {
            parse_stat(&line);
            parse_shared_mapping(&line);
            let named = parse_stat(&format!("42 ({name}) S 7 0"));
            proptest::prop_assert_eq!(named, Some((7, name)));
        }
    }

    #[test]
    fn files_that_this_process_writes_are_listed() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let pid = i32::try_from(std::process::id()).unwrap();
        let files = list_written_files(pid).unwrap();
        assert!(files.iter().any(|path| path == file.path()), "{files:?}");
    }
}
