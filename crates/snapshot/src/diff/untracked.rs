//! The patch that adds a file git does not track, as git would write it.
//!
//! One read of the file itself: no link is followed, neither on the way to it nor at its end, and
//! nothing but a regular file is opened. No filter, attribute or conversion of line ends counts.

use std::io::{self, Read};
use std::path::Path;

use gix::objs::Kind as ObjectKind;

use super::patch::is_binary;
use super::path_quoting::quote_control;
use crate::object_store::hash_object;
use crate::path::RelPath;
use crate::stat_cache::leaf_mode_of;
use crate::worktree::{FileKind, FileStat, RootPolicy, Worktree};

/// Digits of an id in a patch, as git writes them in a small repository.
const SHORT_ID: usize = 7;

/// A worktree whose untracked files are shown.
#[derive(Debug)]
pub struct UntrackedFiles {
    worktree: Worktree,
    names_by_sha1: bool,
}

/// How a file would be added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UntrackedPatch {
    /// The patch.
    pub patch: Vec<u8>,
    /// Lines that it adds; none if the file is not text.
    pub additions: usize,
    /// Bytes of the file.
    pub size: usize,
}

impl UntrackedFiles {
    /// Opens the worktree at `root`. Ids are SHA-1; in a repository that names objects otherwise the
    /// patches have none.
    ///
    /// # Errors
    ///
    /// When it cannot be opened.
    pub fn open(root: &Path, names_by_sha1: bool) -> io::Result<Self> {
        let policy = RootPolicy { by_name: true, home: None };
        let worktree = Worktree::open(root, &policy).map_err(io::Error::other)?;
        Ok(Self { worktree, names_by_sha1 })
    }

    /// Makes the patch that adds the file or link at `path`, a path from the root.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::FileTooLarge`] beyond `limit` bytes; any other kind if there is no regular file
    /// and no link, or it cannot be read.
    pub fn patch(&self, path: &Path, limit: u64) -> io::Result<UntrackedPatch> {
        use std::os::unix::ffi::OsStrExt;
        let path = RelPath::new(path.as_os_str().as_bytes()).map_err(io::Error::other)?;
        let (stat, content) = self.read(&path, limit)?;
        let id = match self.names_by_sha1 {
            true => Some(hash_object(ObjectKind::Blob, &content)?.to_string()),
            false => None,
        };
        let id = id.as_deref().and_then(|id| id.get(..SHORT_ID));
        Ok(format_added(path.as_bytes(), leaf_mode_of(&stat).octal(), id, &content))
    }

    fn read(&self, path: &RelPath, limit: u64) -> io::Result<(FileStat, Vec<u8>)> {
        let dir = self.worktree.open_parent(path)?;
        let stat = dir.stat(path.name())?.ok_or(io::ErrorKind::NotFound)?;
        match stat.kind {
            FileKind::Link => Ok((stat, dir.read_link(path.name())?)),
            FileKind::Directory => Err(io::ErrorKind::IsADirectory.into()),
            FileKind::Special => Err(io::Error::other("neither a regular file nor a link")),
            FileKind::File if stat.size > limit => Err(io::ErrorKind::FileTooLarge.into()),
            // Only a regular file is opened, whatever is there by now.
            FileKind::File => {
                let (file, stat) = dir.open_file(path.name())?;
                let mut content = Vec::new();
                let count = file.take(limit.saturating_add(1)).read_to_end(&mut content)?;
                if count as u64 > limit {
                    return Err(io::ErrorKind::FileTooLarge.into());
                }
                Ok((stat, content))
            }
        }
    }
}

/// Writes the patch of a file that comes.
fn format_added(path: &[u8], mode: &str, id: Option<&str>, content: &[u8]) -> UntrackedPatch {
    let (a, b) = (quote_control("a/", path), quote_control("b/", path));
    let mut out = [b"diff --git ", &a[..], b" ", &b, b"\n"].concat();
    out.extend_from_slice(format!("new file mode {mode}\n").as_bytes());
    if let Some(id) = id {
        out.extend_from_slice(format!("index {}..{id}\n", "0".repeat(id.len())).as_bytes());
    }
    if is_binary(content) {
        out.extend_from_slice(&[b"Binary files /dev/null and ", &b[..], b" differ\n"].concat());
        return UntrackedPatch { patch: out, additions: 0, size: content.len() };
    }
    let additions = content.split_inclusive(|byte| *byte == b'\n').count();
    if additions > 0 {
        // Without the tab a reader could take what follows a blank for a date.
        let tab: &[u8] = if b.contains(&b' ') { b"\t" } else { b"" };
        out.extend_from_slice(&[b"--- /dev/null\n+++ ", &b[..], tab, b"\n"].concat());
        let count = if additions == 1 { String::new() } else { format!(",{additions}") };
        out.extend_from_slice(format!("@@ -0,0 +1{count} @@\n").as_bytes());
        out.reserve(content.len() + additions + 32);
    }
    for line in content.split_inclusive(|byte| *byte == b'\n') {
        out.push(b'+');
        out.extend_from_slice(line);
    }
    if content.last().is_some_and(|byte| *byte != b'\n') {
        out.extend_from_slice(b"\n\\ No newline at end of file\n");
    }
    UntrackedPatch { patch: out, additions, size: content.len() }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::os::unix::net::UnixListener;

    use super::*;

    const LIMIT: u64 = 1 << 20;

    #[expect(clippy::disallowed_methods, reason = "git as the judge")]
    fn git(dir: &Path, words: &[&str]) -> Vec<u8> {
        let mut command = std::process::Command::new("git");
        command.args(["-c", "core.quotePath=false", "-c", "core.autocrlf=false"]).args(words);
        command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_LITERAL_PATHSPECS", "1");
        let done = command.current_dir(dir).output().expect("git runs");
        assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
        done.stdout
    }

    fn files(dir: &Path) -> UntrackedFiles {
        UntrackedFiles::open(dir, true).expect("opens")
    }

    #[test]
    fn patches_of_untracked_files_equal_those_of_git() {
        let dir = tempfile::tempdir().expect("a directory");
        git(dir.path(), &["init", "-q"]);
        let many = "line\n".repeat(20_000);
        let late = [vec![b'x'; 8_000], vec![0], b"\n".to_vec()].concat();
        let early = [vec![b'x'; 7_999], vec![0]].concat();
        let contents: [&[u8]; 14] = [
            b"",
            b"\n",
            b"\n\n",
            b"one",
            b"one\n",
            b"one\ntwo",
            b"one\r\ntwo\r\n",
            b"a\rb\n",
            b"\0",
            b"\xff\xfe\n",
            "\u{e4}\n".as_bytes(),
            many.as_bytes(),
            &late,
            &early,
        ];
        let names: [&[u8]; 20] = [
            b"plain",
            b"-",
            b"--help",
            b"a b",
            b"tab\there",
            b"tab\t and blank",
            b"line\nbreak",
            b"quote\"",
            b"back\\slash",
            b"bell\x07\x08\x0b\x0c\r\x01\x1f\x7f",
            "\u{e4}".as_bytes(),
            "\u{e4} b".as_bytes(),
            "\u{e4}\t".as_bytes(),
            b"\xff\xfe",
            b"deep/er/file",
            b" lead",
            b"trail ",
            b":(glob)*",
            b"null",
            b"*",
        ];
        let mut all: Vec<Vec<u8>> = names.iter().map(|name| name.to_vec()).collect();
        all.extend((0..contents.len()).map(|number| format!("content {number}").into_bytes()));
        for (number, name) in all.iter().enumerate() {
            let path = dir.path().join(OsStr::from_bytes(name));
            fs_err::create_dir_all(path.parent().expect("a parent")).expect("made");
            let content = number.checked_sub(names.len()).map_or(&b"some\n"[..], |at| contents[at]);
            fs_err::write(&path, content).expect("written");
        }
        let run = dir.path().join("run");
        fs_err::write(&run, "#!/bin/sh\n").expect("written");
        fs_err::set_permissions(&run, std::fs::Permissions::from_mode(0o755)).expect("executable");
        symlink("/etc", dir.path().join("link to a directory")).expect("linked");
        symlink("plain", dir.path().join("link")).expect("linked");
        symlink("a\nb", dir.path().join("link to two lines")).expect("linked");
        let links = ["run", "link to a directory", "link", "link to two lines"];
        all.extend(links.map(|name| name.as_bytes().to_vec()));

        let files = files(dir.path());
        git(dir.path(), &["add", "-A"]);
        for name in all {
            let name = OsStr::from_bytes(&name);
            #[expect(clippy::disallowed_methods, reason = "git as the judge")]
            let wanted = std::process::Command::new("git")
                .args(["-c", "core.quotePath=false", "diff", "--cached", "--no-renames", "--"])
                .arg(name)
                .env("GIT_CONFIG_GLOBAL", "/dev/null")
                .env("GIT_LITERAL_PATHSPECS", "1")
                .current_dir(dir.path())
                .output()
                .expect("git runs");
            let made = files.patch(Path::new(name), LIMIT).expect("made");
            assert_eq!(
                made.patch.escape_ascii().to_string(),
                wanted.stdout.escape_ascii().to_string()
            );
            let in_hunk = made.patch.split_inclusive(|byte| *byte == b'\n');
            let added = in_hunk.filter(|line| line.starts_with(b"+") && !line.starts_with(b"+++ "));
            assert_eq!(added.count(), made.additions, "{name:?}");
        }
    }

    #[test]
    fn nothing_but_the_file_itself_is_opened() {
        let dir = tempfile::tempdir().expect("a directory");
        let outside = tempfile::tempdir().expect("a directory");
        let at = |name: &str| dir.path().join(name);
        fs_err::write(outside.path().join("null"), "secret\n").expect("written");
        symlink(outside.path(), at("link")).expect("linked");
        let fifo = rustix::fs::FileType::Fifo;
        let mode = rustix::fs::Mode::RWXU;
        for pipe in [at("pipe"), outside.path().join("pipe")] {
            rustix::fs::mknodat(rustix::fs::CWD, pipe, fifo, mode, 0).expect("a pipe");
        }
        let _socket = UnixListener::bind(at("socket")).expect("bound");
        fs_err::create_dir(at("folder")).expect("made");
        fs_err::write(at("large"), "12345").expect("written");
        let files = files(dir.path());
        let patch = |name: &str, limit| files.patch(Path::new(name), limit);
        for name in [
            "pipe",
            "socket",
            "folder",
            "folder/",
            "none",
            "link/null",
            "link/pipe",
            "..",
            "/etc/passwd",
        ] {
            assert!(patch(name, LIMIT).is_err(), "{name}");
        }
        let link = patch("link", LIMIT).expect("made").patch;
        assert!(link.windows(6).all(|piece| piece != b"secret"));
        assert_eq!(patch("large", 5).expect("made").additions, 1);
        assert_eq!(patch("large", 4).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
    }

    #[test]
    fn repositories_with_other_ids_get_patches_without() {
        let dir = tempfile::tempdir().expect("a directory");
        fs_err::write(dir.path().join("f"), "x\n").expect("written");
        let files = UntrackedFiles::open(dir.path(), false).expect("opens");
        let made = files.patch(Path::new("f"), LIMIT).expect("made");
        let wanted =
            "diff --git a/f b/f\nnew file mode 100644\n--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+x\n";
        assert_eq!(String::from_utf8_lossy(&made.patch), wanted);
    }
}
