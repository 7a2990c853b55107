//! What each session saw of each file, kept in the data directory: one file for each session, one
//! line for each stamp.
//!
//! It is a hint and no history: no event is written and nothing is synced. A line that a power cut
//! took, or a file that is gone, means that something is read again, never that a save is missed: an
//! older look is compared with what is there like a newer one.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{
    Read, Seek, SeekFrom, Write, {self},
};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use fs_err::File;
use fs_err::os::unix::fs::OpenOptionsExt;
use serde::{Deserialize, Serialize};
use turnstone_core::id::SessionId;
use turnstone_store::BlobHash;

use super::read::FileStamp;

/// More files of one session are not remembered: those seen longest ago are to be read again.
const MAX_FILES: usize = 10_000;
/// The longest first line a file may have.
const MAX_HEADER_BYTES: u64 = 256;

/// The folder in the data directory.
const FOLDER: &str = "sight";

/// The file with what a session saw, in a data directory.
pub(crate) fn stamp_file_path(data: &Path, session: &SessionId) -> PathBuf {
    data.join(FOLDER).join(stamp_file_name(session))
}

fn stamp_file_name(session: &SessionId) -> String {
    BlobHash::of(session.as_str().as_bytes()).hex()
}

/// What the sessions of a data directory saw, shared by all its processes.
#[derive(Debug)]
pub(crate) struct ReadStamps {
    folder: PathBuf,
    /// So many files of a session are remembered, and its file has at most twice as many lines.
    limit: usize,
    by_session: Mutex<BTreeMap<SessionId, SessionStamps>>,
}

/// What is known of one session's file.
#[derive(Debug, Default)]
struct SessionStamps {
    /// The version of the file; a rewritten file has another number.
    edition: Option<u64>,
    /// How many bytes were taken in.
    read_bytes: u64,
    lines: usize,
    files: BTreeMap<PathBuf, FileStamp>,
}

/// One recorded stamp.
#[derive(Serialize, Deserialize)]
struct StampLine {
    path: StampPath,
    stamp: FileStamp,
}

/// Whether a stamp is the first one of its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StampOrder {
    First,
    Later,
}

/// A path: text where it is UTF-8, otherwise bytes.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum StampPath {
    Text(String),
    Bytes(Vec<u8>),
}

impl ReadStamps {
    pub(crate) fn new(data: &Path) -> Self {
        Self::with_limit(data, MAX_FILES)
    }

    fn with_limit(data: &Path, limit: usize) -> Self {
        Self { folder: data.join(FOLDER), limit, by_session: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<SessionId, SessionStamps>> {
        self.by_session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The name of a session's file is made of its id and is not the id (R46).
    fn path_of(&self, session: &SessionId) -> PathBuf {
        self.folder.join(stamp_file_name(session))
    }

    /// What a session saw of a file last, in whichever process.
    pub(super) fn find(&self, session: &SessionId, file: &Path) -> io::Result<Option<FileStamp>> {
        let mut all = self.lock();
        let known = all.entry(session.clone()).or_default();
        match File::open(self.path_of(session)) {
            Ok(mut open) => {
                open.file().lock_shared()?;
                known.read_new_lines(&mut open)?;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        Ok(known.files.get(file).cloned())
    }

    /// Records what a session saw of a file.
    ///
    /// # Errors
    ///
    /// This process remembers it; others may have to read the file again.
    pub(super) fn record(
        &self,
        session: &SessionId,
        file: PathBuf,
        stamp: FileStamp,
    ) -> io::Result<StampOrder> {
        let mut all = self.lock();
        let known = all.entry(session.clone()).or_default();
        let opened = self.open(session);
        let taken = match &opened {
            Ok(open) => known.read_new_lines(&mut open.file()),
            Err(_) => Ok(()),
        };
        let line = encode_line(&file, &stamp);
        known.remember(file, stamp, self.limit);
        let mut open = opened?;
        taken?;
        let is_first = known.edition.is_none();
        if is_first || known.lines >= 2 * self.limit {
            known.rewrite(&mut open, session)?;
        } else {
            known.append(&mut open, &line)?;
        }
        Ok(if is_first { StampOrder::First } else { StampOrder::Later })
    }

    /// The file of a session, created if it does not exist, under an exclusive lock.
    fn open(&self, session: &SessionId) -> io::Result<File> {
        // The data directory around it is closed to others.
        fs_err::create_dir_all(&self.folder)?;
        let mut options = fs_err::OpenOptions::new();
        options.read(true).append(true).create(true).mode(0o600);
        let open = options.open(self.path_of(session))?;
        open.file().lock()?;
        Ok(open)
    }

    /// Removes what is known of sessions that are gone.
    pub(super) fn remove_deleted_sessions<E: From<io::Error>>(
        &self,
        is_there: impl Fn(&SessionId) -> Result<bool, E>,
    ) -> Result<(), E> {
        for entry in fs_err::read_dir(&self.folder)? {
            let path = entry?.path();
            let Some((_, session, _)) = read_header(&mut File::open(&path)?)? else { continue };
            if !is_there(&session)? {
                fs_err::remove_file(&path)?;
                self.lock().remove(&session);
            }
        }
        Ok(())
    }
}

impl SessionStamps {
    /// Reads what others wrote since; half a line at the end is left for later.
    fn read_new_lines(&mut self, file: &mut (impl Read + Seek)) -> io::Result<()> {
        file.seek(SeekFrom::Start(0))?;
        let Some((edition, _, begin)) = read_header(file)? else {
            self.edition = None;
            return Ok(());
        };
        if self.edition != Some(edition) {
            *self = Self { edition: Some(edition), read_bytes: begin, ..Self::default() };
        }
        file.seek(SeekFrom::Start(self.read_bytes))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let whole = bytes.get(..end).unwrap_or_default().split(|byte| *byte == b'\n');
        for line in whole.filter(|line| !line.is_empty()) {
            // What cannot be read was cut off: its file is read again.
            if let Ok(StampLine { path, stamp }) = serde_json::from_slice(line) {
                self.files.insert(path.into(), stamp);
            }
            self.lines += 1;
        }
        self.read_bytes += end as u64;
        Ok(())
    }

    fn remember(&mut self, file: PathBuf, stamp: FileStamp, limit: usize) {
        self.files.insert(file, stamp);
        while self.files.len() > limit {
            let oldest = self.files.iter().min_by_key(|(_, stamp)| stamp.seen);
            let Some(oldest) = oldest.map(|(path, _)| path.clone()) else { return };
            self.files.remove(&oldest);
        }
    }

    /// Appends a line; a half-written line of a crash becomes a separate line.
    fn append(&mut self, file: &mut File, line: &[u8]) -> io::Result<()> {
        let length = file.metadata()?.len();
        let rest: &[u8] = if length > self.read_bytes { b"\n" } else { b"" };
        file.write_all(&[rest, line].concat())?;
        self.read_bytes = length + (rest.len() + line.len()) as u64;
        self.lines += 1;
        Ok(())
    }

    /// Writes the file again with what is remembered. Killed half way, it has fewer lines.
    fn rewrite(&mut self, file: &mut File, session: &SessionId) -> io::Result<()> {
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(io::Error::other)?;
        let edition = u64::from_ne_bytes(random);
        let mut text = format!("{edition:016x} {session}\n").into_bytes();
        for (path, stamp) in &self.files {
            text.extend(encode_line(path, stamp));
        }
        file.set_len(0)?;
        file.write_all(&text)?;
        (self.edition, self.lines, self.read_bytes) =
            (Some(edition), self.files.len(), text.len() as u64);
        Ok(())
    }
}

fn encode_line(path: &Path, stamp: &FileStamp) -> Vec<u8> {
    let line = StampLine { path: path.into(), stamp: stamp.clone() };
    // It has no map with keys that are no texts, so it can always be written.
    let mut text = serde_json::to_vec(&line).unwrap_or_default();
    text.push(b'\n');
    text
}

/// The number and the session in the first line, and where the second begins.
fn read_header(file: &mut impl Read) -> io::Result<Option<(u64, SessionId, u64)>> {
    let mut bytes = Vec::new();
    file.take(MAX_HEADER_BYTES).read_to_end(&mut bytes)?;
    let end = bytes.iter().position(|byte| *byte == b'\n');
    let first = end.and_then(|end| std::str::from_utf8(bytes.get(..end)?).ok());
    let read = first.and_then(|first| {
        let (edition, session) = first.split_once(' ')?;
        let edition = u64::from_str_radix(edition, 16).ok()?;
        Some((edition, session.parse().ok()?, first.len() as u64 + 1))
    });
    Ok(read)
}

impl From<&Path> for StampPath {
    fn from(path: &Path) -> Self {
        match path.to_str() {
            Some(text) => Self::Text(text.to_owned()),
            None => Self::Bytes(path.as_os_str().as_bytes().to_vec()),
        }
    }
}

impl From<StampPath> for PathBuf {
    fn from(name: StampPath) -> Self {
        match name {
            StampPath::Text(text) => text.into(),
            StampPath::Bytes(bytes) => OsString::from_vec(bytes).into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use turnstone_core::change::PathImage;
    use turnstone_core::time::EpochMillis;

    use super::*;

    fn stamp_at(at: i64) -> FileStamp {
        FileStamp { image: PathImage::Absent, modified: None, seen: EpochMillis(at) }
    }

    fn id(name: &str) -> SessionId {
        format!("ses_{name}").parse().expect("an id")
    }

    /// Two processes with a file that is rewritten again and again agree with a plain table.
    #[test]
    fn processes_share_stamps_across_rewrites() {
        let dir = tempfile::tempdir().expect("temp dir");
        let two = [ReadStamps::with_limit(dir.path(), 4), ReadStamps::with_limit(dir.path(), 4)];
        let (mut table, mut rng) = (BTreeMap::new(), 7_u64);
        for at in 0..400 {
            rng = rng.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let path = PathBuf::from(format!("/w/{}", (rng >> 33) % 4));
            let who = &two[(rng >> 40) as usize % 2];
            who.record(&id("a"), path.clone(), stamp_at(at)).expect("recorded");
            table.insert(path, stamp_at(at));
            for (path, stamp) in &table {
                let found = two[at as usize % 2].find(&id("a"), path).expect("read");
                assert_eq!(found.as_ref(), Some(stamp), "{at}");
            }
        }
        let text = fs_err::read_to_string(two[0].path_of(&id("a"))).expect("text");
        assert!(text.lines().count() <= 9, "{text}");
    }

    #[test]
    fn oldest_stamp_is_evicted_first() {
        let dir = tempfile::tempdir().expect("temp dir");
        let stamps = ReadStamps::with_limit(dir.path(), 2);
        for (at, path) in ["/a", "/b", "/c"].iter().enumerate() {
            stamps.record(&id("a"), PathBuf::from(path), stamp_at(at as i64)).expect("recorded");
        }
        assert_eq!(stamps.find(&id("a"), Path::new("/a")).expect("read"), None);
        assert_eq!(stamps.find(&id("a"), Path::new("/c")).expect("read"), Some(stamp_at(2)));
    }

    #[test]
    fn truncated_line_loses_one_stamp_and_non_utf8_paths_survive() {
        let dir = tempfile::tempdir().expect("temp dir");
        let odd = PathBuf::from(OsString::from_vec(b"/w/\xff".to_vec()));
        let stamps = ReadStamps::new(dir.path());
        stamps.record(&id("a"), odd.clone(), stamp_at(1)).expect("recorded");
        let path = stamps.path_of(&id("a"));
        let mut text = fs_err::read(&path).expect("read");
        text.extend(br#"{"path":"/w/half","sta"#);
        fs_err::write(&path, text).expect("written");
        let other = ReadStamps::new(dir.path());
        assert_eq!(other.find(&id("a"), &odd).expect("read"), Some(stamp_at(1)));
        other.record(&id("a"), PathBuf::from("/w/next"), stamp_at(2)).expect("recorded");
        for (path, wanted) in [("/w/half", None), ("/w/next", Some(stamp_at(2)))] {
            for stamps in [&stamps, &other, &ReadStamps::new(dir.path())] {
                assert_eq!(stamps.find(&id("a"), Path::new(path)).expect("read"), wanted, "{path}");
            }
        }
        // An invalid first line makes all stamps unreadable; the next stamp writes the file again.
        fs_err::write(&path, "nonsense").expect("written");
        let third = ReadStamps::new(dir.path());
        assert_eq!(third.find(&id("a"), &odd).expect("read"), None);
        third.record(&id("a"), odd.clone(), stamp_at(3)).expect("recorded");
        assert_eq!(stamps.find(&id("a"), &odd).expect("read"), Some(stamp_at(3)));
    }

    #[test]
    fn stamps_of_deleted_sessions_are_removed() {
        let dir = tempfile::tempdir().expect("temp dir");
        let stamps = ReadStamps::new(dir.path());
        let record = |session: &str, path: &str| {
            stamps.record(&id(session), PathBuf::from(path), stamp_at(1)).expect("recorded")
        };
        assert_eq!(record("a", "/f"), StampOrder::First);
        assert_eq!(record("a", "/g"), StampOrder::Later);
        assert_eq!(record("b", "/f"), StampOrder::First);
        stamps
            .remove_deleted_sessions(|session| Ok::<_, io::Error>(*session == id("b")))
            .expect("swept");
        assert_eq!(stamps.find(&id("a"), Path::new("/f")).expect("read"), None);
        assert_eq!(stamps.find(&id("b"), Path::new("/f")).expect("read"), Some(stamp_at(1)));
        assert_eq!(fs_err::read_dir(dir.path().join("sight")).expect("listed").count(), 1);
    }
}
