//! `/proc`: which processes there are, and what tells one from another that got the same number.

use std::io;

use rustix::fs::{Mode, OFlags, open};
use rustix::io::{Errno, read, retry_on_intr};

/// One line of `/proc/<pid>/stat`, the fields needed for identity and progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProcessStat {
    pub(crate) pid: i32,
    pub(crate) state: u8,
    pub(crate) parent: i32,
    pub(crate) pgrp: i32,
    pub(crate) session: i32,
    /// Pages that were not in memory, and clock ticks of processor time.
    pub(crate) usage: [u64; 4],
    /// Clock ticks after boot. A number that is used again has another start.
    pub(crate) start_time: u64,
}

impl ProcessStat {
    /// Returns what the system knows of a process, or `None` if it does not exist.
    pub(crate) fn find(pid: i32) -> io::Result<Option<Self>> {
        match read_stat(pid) {
            Ok(text) => Self::parse(&text).map(Some),
            // A process that ends between the open and the read answers ESRCH.
            Err(Errno::NOENT | Errno::SRCH) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Lists every process that can be seen; one that ends meanwhile is left out.
    pub(crate) fn list() -> io::Result<Vec<Self>> {
        let mut all = Vec::new();
        for entry in fs_err::read_dir("/proc")? {
            let name = entry?.file_name();
            let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
            all.extend(Self::find(pid)?);
        }
        if all.is_empty() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "/proc lists no process"));
        }
        Ok(all)
    }

    /// Whether it still runs or can run: a zombie only waits to be counted.
    pub(crate) fn is_alive(&self) -> bool {
        !matches!(self.state, b'Z' | b'X' | b'x')
    }

    fn parse(text: &[u8]) -> io::Result<Self> {
        Self::parse_fields(text).ok_or_else(|| {
            let text = String::from_utf8_lossy(text).into_owned();
            io::Error::new(io::ErrorKind::InvalidData, format!("unreadable stat: {text}"))
        })
    }

    /// The name of the program is in brackets and may contain anything, brackets included.
    fn parse_fields(text: &[u8]) -> Option<Self> {
        let open = text.iter().position(|byte| *byte == b'(')?;
        let close = text.iter().rposition(|byte| *byte == b')')?;
        let number = |text: &str| text.parse::<i32>().ok();
        let count = |text: &str| text.parse::<u64>().ok();
        let pid = number(std::str::from_utf8(text.get(..open)?).ok()?.trim())?;
        let rest = std::str::from_utf8(text.get(close + 1..)?).ok()?;
        let mut fields = rest.split_ascii_whitespace();
        let state = *fields.next()?.as_bytes().first()?;
        let parent = number(fields.next()?)?;
        let pgrp = number(fields.next()?)?;
        let session = number(fields.next()?)?;
        let (small_faults, large_faults) = (count(fields.nth(3)?)?, count(fields.nth(1)?)?);
        let (user, system) = (count(fields.nth(1)?)?, count(fields.next()?)?);
        let start_time = count(fields.nth(6)?)?;
        let usage = [small_faults, large_faults, user, system];
        Some(Self { pid, state, parent, pgrp, session, usage, start_time })
    }
}

/// Reads the line, which is far shorter than the buffer: a name has 16 bytes, the rest is numbers.
fn read_stat(pid: i32) -> Result<Vec<u8>, Errno> {
    let file = open(format!("/proc/{pid}/stat"), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mut text = vec![0; 4096];
    let count = retry_on_intr(|| read(&file, &mut text[..]))?;
    text.truncate(count);
    Ok(text)
}

/// Names this run of the machine: after a reboot no process of before lives.
pub(crate) fn boot_id() -> io::Result<String> {
    let text = fs_err::read_to_string("/proc/sys/kernel/random/boot_id")?;
    Ok(text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_names_with_brackets_are_parsed() {
        let line = b"42 (a) R (b c) S 1 40 39 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 987654 1 1\n";
        let stat = ProcessStat::parse(line).unwrap();
        assert_eq!((stat.pid, stat.state, stat.parent), (42, b'S', 1));
        assert_eq!((stat.pgrp, stat.session, stat.start_time), (40, 39, 987_654));
        assert_eq!(stat.usage, [1, 3, 5, 6]);
    }

    #[test]
    fn truncated_stat_line_is_an_error() {
        assert!(ProcessStat::parse(b"42 (a) S 1 40").is_err());
        assert!(ProcessStat::parse(b"").is_err());
    }

    #[test]
    fn list_contains_this_process() {
        let me = i32::try_from(std::process::id()).unwrap();
        let own = ProcessStat::find(me).unwrap().unwrap();
        assert!(own.is_alive() && own.start_time > 0);
        assert!(ProcessStat::list().unwrap().iter().any(|one| one.pid == me));
        assert_eq!(boot_id().unwrap().len(), 36);
    }
}
