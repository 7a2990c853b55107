//! What an idle session costs a server: the growth of its resident memory over many sessions.

use super::ours::{greet, runtime, socket_url};
use super::peer::{Npm, Server};
use crate::Fallible;
use crate::table::line;
use capnweb::net::connect;
use capnweb::session::Options;

/// The floor of the issue.
const MOST_BYTES: f64 = 20_000.0;
/// Files a process needs besides the sockets.
const SPARE_FILES: u64 = 200;

/// Lets this process open as many files as it may; returns how many.
pub(super) fn raise_limit() -> Fallible<u64> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum;
    setrlimit(Resource::Nofile, Rlimit { current: most, maximum: most })?;
    Ok(most.unwrap_or(u64::MAX))
}

/// Opens `wanted` sessions to each server, makes one call on each, and looks at the server.
pub(super) fn run(wanted: usize) -> Fallible {
    let room = usize::try_from(raise_limit()?.saturating_sub(SPARE_FILES))?;
    let sessions = wanted.min(room);
    if sessions < wanted {
        println!("the limit of open files stops at {sessions} of {wanted} sessions");
    }
    println!("memory of one idle session: growth of the server's RSS over {sessions} WebSockets");
    let ours = per_session(&Server::ours()?, sessions)?;
    let npm = Npm::install()?;
    let theirs = per_session(&npm.server()?, sessions)?;
    let met = if ours <= MOST_BYTES { "met" } else { "MISSED" };
    line(
        "one call made, then idle",
        &[
            ("ours", format!("{:.1} KB (floor ≤ {:.0} KB, {met})", ours / 1e3, MOST_BYTES / 1e3)),
            ("npm", format!("{:.1} KB", theirs / 1e3)),
        ],
    );
    Ok(())
}

fn per_session(server: &Server, sessions: usize) -> Fallible<f64> {
    runtime()?.block_on(async {
        let url = socket_url(&server.url);
        let mut held = Vec::with_capacity(sessions);
        // The first ones pay for what all of them share.
        for _ in 0..100 {
            let main = connect(&url, None, Options::default()).await?;
            greet(&main).await?;
            held.push(main);
        }
        let before = server.resident()?;
        for _ in 0..sessions {
            let main = connect(&url, None, Options::default()).await?;
            greet(&main).await?;
            held.push(main);
        }
        let after = server.resident()?;
        Ok(after.saturating_sub(before) as f64 / sessions as f64)
    })
}
