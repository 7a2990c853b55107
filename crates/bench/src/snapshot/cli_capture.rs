//! The same from end to end: the command line, a process for each capture.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::benchmark_case::measure_millis;
use crate::Fallible;
use crate::measurement::median;

/// Finds `turnstone` next to this program, if it has the command.
fn find_turnstone() -> Fallible<Option<PathBuf>> {
    let program = std::env::current_exe()?.with_file_name("turnstone");
    if !program.try_exists()? {
        return Ok(None);
    }
    let mut help = Command::new(&program);
    help.args(["snapshot", "track", "--help"]).stdout(Stdio::null()).stderr(Stdio::null());
    Ok(help.status()?.success().then_some(program))
}

/// Times `turnstone snapshot track`: the first, and then with nothing changed.
pub(crate) fn measure_cli_track(tree: &Path, data: &Path, rounds: usize) -> Fallible<String> {
    let Some(program) = find_turnstone()? else {
        return Ok("`turnstone snapshot track` is not built next to this program".to_owned());
    };
    let run = || -> Fallible {
        let mut track = Command::new(&program);
        track.arg("--data").arg(data).args(["snapshot", "track"]).arg(tree).arg("--json");
        let done = track.stdin(Stdio::null()).output()?;
        match done.status.success() {
            true => Ok(()),
            false => Err(String::from_utf8_lossy(&done.stderr).into_owned().into()),
        }
    };
    let (first, ()) = measure_millis(run)?;
    let mut again = Vec::new();
    for _ in 0..rounds {
        again.push(measure_millis(run)?.0);
    }
    Ok(format!(
        "`turnstone snapshot track`, a process each: first {first:.0} ms, nothing changed {:.0} ms",
        median(again)
    ))
}
