//! Ours against the limit and against OpenCode's settings, measured in one run (R36).
//!
//! `ledger` measures acknowledged writes and reads, `growth` the bytes one turn adds, `snapshot`
//! captures, diffs and restores, `turn` what a tool call costs, `capnweb` calls over Cap'n Web,
//! `server` the HTTP API; `headline` plays the headline test on many files.

mod capnweb;
mod data;
mod growth;
mod headline;
mod limit;
mod opencode;
mod read;
mod server;
mod snapshot;
mod table;
mod turn;
mod write;

use std::process::ExitCode;

type Fallible<T = ()> = Result<T, Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let quick = words.iter().any(|w| w == "--quick");
    let what = words.iter().find(|w| !w.starts_with('-')).map(String::as_str);
    let done = match what {
        Some("ledger") => ledger(quick),
        Some("growth") => growth::run(),
        Some("capnweb") => crate::capnweb::run(quick),
        // The other end of `capnweb`, in a process of its own.
        Some("capnweb-server") => crate::capnweb::serve(),
        Some("server") => server::run(&words[1..]),
        Some("snapshot") => snapshot::run(&words[1..]),
        Some("turn") => turn::run(&words[1..]),
        Some("headline") => headline::run(&words[1..]),
        // One size in a process of its own.
        Some("snapshot-memory") => snapshot::measure_memory(&words[1..]),
        _ => {
            eprintln!("usage: turnstone-bench ledger [--quick] | growth | capnweb [--quick]");
            eprintln!("       turnstone-bench snapshot [--quick] [--files N] [--limit SECONDS]");
            eprintln!(
                "       turnstone-bench server [--quick] [--turnstone PATH] [--opencode PATH]"
            );
            eprintln!("       turnstone-bench turn [--quick] [--files N]");
            eprintln!("       turnstone-bench headline [--files N] [--steps N] [--seeds N]");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn ledger(quick: bool) -> Fallible {
    if cfg!(debug_assertions) {
        return Err("figures of a debug build mean nothing: run with --release".into());
    }
    write::run(quick)?;
    read::run(quick)?;
    println!("memory of this process at the end: {}", table::resident()?);
    Ok(())
}
