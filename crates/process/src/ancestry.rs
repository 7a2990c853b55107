//! Whether this process was started by a command that a supervisor of this program watches over.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::proc_stat::ProcessStat;

/// How many processes above this one are looked at.
const MAX_LEVELS: usize = 64;

/// True if a process above this one is a supervisor: the same program with exactly these arguments.
///
/// A command cannot avoid this by changing its variables. What has left its parents (`setsid`, a daemon) is not found
/// any more. A process above this one that cannot be read belongs to another user and is no supervisor of ours.
#[must_use]
pub fn is_below_supervisor(program: &Path, args: &[&str]) -> bool {
    let Ok(mut process) = i32::try_from(std::process::id()) else { return true };
    for _ in 0..MAX_LEVELS {
        let parent = ProcessStat::find(process).ok().flatten().map(|stat| stat.parent);
        let Some(parent) = parent.filter(|parent| *parent > 1) else { return false };
        if is_supervisor(parent, program, args) {
            return true;
        }
        process = parent;
    }
    // So deep a tree is not that of a person at a terminal.
    true
}

fn is_supervisor(process: i32, program: &Path, args: &[&str]) -> bool {
    let Ok(line) = fs_err::read(format!("/proc/{process}/cmdline")) else { return false };
    let mut words = line.strip_suffix(b"\0").unwrap_or(&line).split(|byte| *byte == 0);
    let name = words.next().map(|word| Path::new(OsStr::from_bytes(word)));
    let is_same = name.and_then(Path::file_name) == program.file_name();
    is_same && words.eq(args.iter().map(|arg| arg.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_programs_above_are_no_supervisors() {
        assert!(!is_below_supervisor(Path::new("/x/turnstone"), &["supervise"]));
        let own = std::env::current_exe().expect("own path");
        let pid = i32::try_from(std::process::id()).expect("a process");
        let args: Vec<String> = std::env::args().skip(1).collect();
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        assert!(is_supervisor(pid, &own, &args), "the same program with the same arguments");
        assert!(!is_supervisor(pid, &own, &["supervise"]));
    }
}
