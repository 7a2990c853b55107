//! What an idle session costs a server: the growth of its resident memory over many sessions.

use super::endpoint_process::{NpmInstall, ServerProcess};
use super::rust_endpoint::{greet, runtime, socket_url};
use crate::Fallible;
use crate::measurement::print_figures;
use capnweb::net::connect;
use capnweb::session::SessionOptions;

/// The floor of the issue.
const MAX_SESSION_BYTES: f64 = 20_000.0;
/// Files a process needs besides the sockets.
const RESERVED_FILES: u64 = 200;

/// Lets this process open as many files as it may; returns how many.
pub(super) fn raise_open_file_limit() -> Fallible<u64> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum;
    setrlimit(Resource::Nofile, Rlimit { current: most, maximum: most })?;
    Ok(most.unwrap_or(u64::MAX))
}

/// Opens `wanted` sessions to each server, makes one call on each, and looks at the server.
pub(super) fn run(wanted: usize) -> Fallible {
    let room = usize::try_from(raise_open_file_limit()?.saturating_sub(RESERVED_FILES))?;
    let sessions = wanted.min(room);
    if sessions < wanted {
        println!("the limit of open files stops at {sessions} of {wanted} sessions");
    }
    println!("memory of one idle session: growth of the server's RSS over {sessions} WebSockets");
    let ours = bytes_per_session(&ServerProcess::start_own()?, sessions)?;
    let npm = NpmInstall::install()?;
    let theirs = bytes_per_session(&npm.start_server()?, sessions)?;
    let met = if ours <= MAX_SESSION_BYTES { "met" } else { "MISSED" };
    print_figures(
        "one call made, then idle",
        &[
            (
                "ours",
                format!("{:.1} KB (floor ≤ {:.0} KB, {met})", ours / 1e3, MAX_SESSION_BYTES / 1e3),
            ),
            ("npm", format!("{:.1} KB", theirs / 1e3)),
        ],
    );
    Ok(())
}

fn bytes_per_session(server: &ServerProcess, sessions: usize) -> Fallible<f64> {
    runtime()?.block_on(async {
        let url = socket_url(&server.url);
        let mut held = Vec::with_capacity(sessions);
        // The first ones pay for what all of them share.
        for _ in 0..100 {
            let main = connect(&url, None, SessionOptions::default()).await?;
            greet(&main).await?;
            held.push(main);
        }
        let before = server.resident_bytes()?;
        for _ in 0..sessions {
            let main = connect(&url, None, SessionOptions::default()).await?;
            greet(&main).await?;
            held.push(main);
        }
        let after = server.resident_bytes()?;
        Ok(after.saturating_sub(before) as f64 / sessions as f64)
    })
}
