//! Our name for a directory that a process reaches by mounts of its own.

use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, fstatfs, openat};

use crate::resolve::call_location::{FileState, ResolveError, open_directory, path_of};
use crate::resolve::caller_view::CallerView;

/// File systems that store their files in another one: overlay, FUSE, eCryptfs.
const STACKED: [u64; 3] = [0x794c_7630, 0x6573_5546, 0xf15f];

/// File systems that hold no files of anybody: proc, sysfs, cgroup2, devpts. A sandbox may keep one open that it has
/// mounted nowhere any more.
const PSEUDO: [u64; 4] = [0x9fa0, 0x6265_6572, 0x6367_7270, 0x1cd1];

/// One line of `mountinfo`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct MountLine {
    id: u64,
    device: String,
    /// What of the file system is mounted.
    root: PathBuf,
    point: PathBuf,
}

/// Returns our path of a directory that was opened through the view of another process.
pub(crate) fn translate_path(
    view: CallerView,
    directory: BorrowedFd<'_>,
    state: &FileState,
) -> Result<PathBuf, ResolveError> {
    if find_magic(directory).is_some_and(|magic| PSEUDO.contains(&magic)) {
        return Err(ResolveError::Nameless);
    }
    let text = PathBuf::from(path_of(directory)?);
    if leads_to(&text, state) {
        return Ok(text);
    }
    let ours = read_mounts("self").ok_or(ResolveError::Unresolved)?;
    let theirs = read_mounts(&view.pid.to_string()).ok_or(ResolveError::Unresolved)?;
    let Some(mount) = theirs.iter().find(|mount| mount.id == state.mount()) else {
        return Err(ResolveError::Unresolved);
    };
    let same: Vec<_> = ours.iter().filter(|one| one.device == mount.device).collect();
    if same.is_empty() {
        return Err(name_invisible(directory));
    }
    let top = path_of(find_mount_root(directory, state)?.as_fd())?;
    let below = text.strip_prefix(&top).map_err(|_| ResolveError::Unresolved)?;
    let in_file_system = mount.root.join(below);
    let candidates = same.iter().filter_map(|one| {
        let below = in_file_system.strip_prefix(&one.root).ok()?;
        Some(one.point.join(below))
    });
    let found = candidates.into_iter().find(|candidate| leads_to(candidate, state));
    found.ok_or(ResolveError::Unresolved)
}

fn leads_to(path: &Path, state: &FileState) -> bool {
    let found = open_directory(path).and_then(FileState::of);
    found.is_ok_and(|found| found.is_same_file(state))
}

/// A device that is not mounted here shows no file of ours, unless it only passes files on.
fn name_invisible(directory: BorrowedFd<'_>) -> ResolveError {
    match find_magic(directory) {
        Some(magic) if !STACKED.contains(&magic) => ResolveError::Nameless,
        _ => ResolveError::NestedFileSystem,
    }
}

/// The number of the type of a file system.
fn find_magic(directory: BorrowedFd<'_>) -> Option<u64> {
    u64::try_from(fstatfs(directory).ok()?.f_type).ok()
}

/// Goes up to the directory at which the mount begins.
fn find_mount_root(directory: BorrowedFd<'_>, state: &FileState) -> Result<OwnedFd, ResolveError> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut current = directory.try_clone_to_owned().map_err(|_| ResolveError::Unresolved)?;
    let mut current_state = *state;
    loop {
        let parent = openat(&current, "..", flags, Mode::empty())?;
        let parent_state = FileState::of(&parent)?;
        if parent_state.mount() != state.mount() || parent_state.is_same_file(&current_state) {
            return Ok(current);
        }
        (current, current_state) = (parent, parent_state);
    }
}

fn read_mounts(pid: &str) -> Option<Vec<MountLine>> {
    let text = fs_err::read(format!("/proc/{pid}/mountinfo")).ok()?;
    Some(text.split(|byte| *byte == b'\n').filter_map(parse_mount).collect())
}

/// `36 35 98:0 /root /point options…`; spaces in paths are written in octal.
fn parse_mount(line: &[u8]) -> Option<MountLine> {
    let mut fields = line.split(|byte| *byte == b' ');
    let id = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
    let device = std::str::from_utf8(fields.nth(1)?).ok()?.to_owned();
    let root = PathBuf::from(unescape(fields.next()?));
    let point = PathBuf::from(unescape(fields.next()?));
    Some(MountLine { id, device, root, point })
}

fn unescape(field: &[u8]) -> OsString {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..3).filter(|_| *first == b'\\');
        let code = digits
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code {
            Some(code) => {
                bytes.push(code);
                rest = after.get(3..).unwrap_or_default();
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    OsString::from_vec(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_lines_are_parsed_with_escaped_spaces() {
        let line = br"36 35 98:0 /mnt1 /mnt\0402 rw,noatime master:1 - ext3 /dev/root rw";
        let mount = parse_mount(line).unwrap();
        assert_eq!((mount.id, mount.device.as_str()), (36, "98:0"));
        assert_eq!(mount.root, Path::new("/mnt1"));
        assert_eq!(mount.point, Path::new("/mnt 2"));
        assert_eq!(parse_mount(b"36 35"), None);
        assert_eq!(unescape(b"a\\b\\0"), "a\\b\\0");
    }

    proptest::proptest! {
        /// The tree names its mounts.
        #[test]
        fn any_lines_are_parsed(line: Vec<u8>, id: u64, field in "[^ ]*") {
            parse_mount(&line);
            unescape(&line);
            let mount = parse_mount(format!("{id} 1 0:1 /{field} {field} rw").as_bytes());
            proptest::prop_assert_eq!(mount.map(|mount| mount.id), Some(id));
        }
    }

    #[test]
    fn own_mounts_are_listed() {
        assert!(read_mounts("self").unwrap().iter().any(|mount| mount.point == Path::new("/")));
    }
}
