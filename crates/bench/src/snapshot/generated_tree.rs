//! Generated worktrees: text files of about 2 KiB, fifty to a directory.

use std::path::{Path, PathBuf};

use super::git_process::run_git;
use crate::Fallible;

/// Files in a directory.
const PER_DIRECTORY: usize = 50;
/// Directories in a directory above.
const PER_FOLDER: usize = 20;
/// Lines in a file.
const LINES: usize = 40;

const WORDS: [&str; 16] = [
    "return", "value", "session", "index", "match", "option", "buffer", "path", "writer", "commit",
    "cursor", "length", "string", "error", "window", "change",
];

/// A worktree of generated files.
pub(crate) struct GeneratedTree {
    pub(crate) path: PathBuf,
    pub(crate) files: usize,
}

impl GeneratedTree {
    /// Writes `files` files below `path`.
    pub(crate) fn generate(path: &Path, files: usize) -> Fallible<Self> {
        let tree = Self { path: path.to_owned(), files };
        for directory in 0..files.div_ceil(PER_DIRECTORY) {
            let first = tree.path.join(tree.file_path(directory * PER_DIRECTORY));
            fs_err::create_dir_all(first.parent().ok_or("a file has a directory")?)?;
        }
        (0..files).try_for_each(|n| tree.write_version(n, 0))?;
        Ok(tree)
    }

    /// The path of a file, from the root.
    pub(crate) fn file_path(&self, n: usize) -> String {
        let directory = n / PER_DIRECTORY;
        format!("package{:03}/module{directory:04}/file{n:06}.txt", directory / PER_FOLDER)
    }

    /// Writes a version of a file over the one that is there; version 0 is the first.
    pub(crate) fn write_version(&self, n: usize, version: usize) -> Fallible {
        Ok(fs_err::write(self.path.join(self.file_path(n)), file_text(n, version))?)
    }

    /// Tells whether a file holds a version of its text.
    pub(crate) fn has_version(&self, n: usize, version: usize) -> Fallible<bool> {
        Ok(fs_err::read(self.path.join(self.file_path(n)))? == file_text(n, version).as_bytes())
    }

    /// `count` files, spread over the whole tree.
    pub(crate) fn spread_indexes(&self, count: usize) -> Vec<usize> {
        let count = count.min(self.files);
        (0..count).map(|n| n * self.files / count).collect()
    }

    /// Brings every file back to its first version, and the user's index up to date.
    pub(crate) fn reset(&self) -> Fallible {
        for n in 0..self.files {
            if !self.has_version(n, 0)? {
                self.write_version(n, 0)?;
            }
        }
        std::thread::sleep(std::time::Duration::from_millis(1100));
        run_git(&self.path, &["update-index", "-q", "--refresh"])
    }

    /// Makes it a git repository without a commit.
    pub(crate) fn init(&self) -> Fallible {
        run_git(&self.path, &["init", "-q"])
    }

    /// Commits everything and packs it, as in a checkout that was cloned.
    pub(crate) fn commit(&self) -> Fallible {
        // With this limit every file goes straight into one pack, not into a file of its own.
        run_git(&self.path, &["-c", "core.bigFileThreshold=1", "add", "-A"])?;
        let who = ["-c", "user.name=bench", "-c", "user.email=bench@example.com"];
        run_git(&self.path, &[&who[..], &["commit", "-q", "-m", "everything"]].concat())?;
        run_git(&self.path, &["repack", "-adq"])
    }
}

/// The text of a file. A change replaces the fourth line and appends one.
fn file_text(n: usize, version: usize) -> String {
    let mut seed = n as u64;
    let mut out = String::with_capacity(2300);
    for line in 0..LINES {
        if line == 3 && version > 0 {
            out.push_str(&format!("this line was changed, version {version}\n"));
            continue;
        }
        for _ in 0..7 {
            out.push_str(WORDS[(next_random(&mut seed) % 16) as usize]);
            out.push(' ');
        }
        out.push_str(&format!("{:08x}\n", next_random(&mut seed) as u32));
    }
    if version > 0 {
        out.push_str(&format!("this line was appended, version {version}\n"));
    }
    out
}

/// The next number of a fixed sequence (splitmix64).
fn next_random(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *seed;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
