//! Ours against the limit and against OpenCode's settings, measured in one run (R36).
//!
//! `ledger` measures acknowledged writes and reads, `growth` the bytes one turn adds, `snapshot`
//! captures, diffs and restores, `turn` what a tool call costs, `capnweb` calls over Cap'n Web,
//! `server` the HTTP API; `headline` plays the headline test on many files.

mod capnweb;
mod concurrent_agents;
mod database_growth;
mod measurement;
mod opencode_baseline;
mod raw_sqlite;
mod read_benchmark;
mod sample_data;
mod server;
mod snapshot;
mod turn_benchmark;
mod write_benchmark;

use std::process::ExitCode;

type Fallible<T = ()> = Result<T, Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let quick = words.iter().any(|w| w == "--quick");
    let what = words.iter().find(|w| !w.starts_with('-')).map(String::as_str);
    let done = match what {
        Some("ledger") => run_ledger(quick),
        Some("growth") => database_growth::run(),
        Some("capnweb") => crate::capnweb::run(quick),
        // The other end of `capnweb`, in a process of its own.
        Some("capnweb-server") => crate::capnweb::serve(),
        Some("server") => server::run(&words[1..]),
        Some("snapshot") => snapshot::run(&words[1..]),
        Some("turn") => turn_benchmark::run(&words[1..]),
        Some("headline") => concurrent_agents::run(&words[1..]),
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

fn run_ledger(quick: bool) -> Fallible {
    if cfg!(debug_assertions) {
        return Err("figures of a debug build mean nothing: run with --release".into());
    }
    write_benchmark::run(quick)?;
    read_benchmark::run(quick)?;
    println!("memory of this process at the end: {}", measurement::describe_memory()?);
    Ok(())
}
