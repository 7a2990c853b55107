//! Ours against the limit and against OpenCode's settings, measured in one run (R36).
//!
//! `ledger` measures acknowledged writes and reads, `growth` the bytes one turn adds, `snapshot`
//! captures, diffs and restores, `walk` captures that look at every file, `turn` what a tool call costs,
//! `exec` what a command costs, `trace` what tracing adds to it, `capnweb` calls over Cap'n Web,
//! `server` the HTTP API; `headline` plays the headline test on many files.

mod capnweb;
mod concurrent_agents;
mod database_growth;
mod exec_benchmark;
mod measurement;
mod opencode_baseline;
mod raw_sqlite;
mod read_benchmark;
mod sample_data;
mod server;
mod snapshot;
mod trace_benchmark;
mod turn_benchmark;
mod turn_over_http;
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
        Some("walk") => snapshot::compare_walks(&words[1..]),
        Some("exec") => exec_benchmark::run(&words[1..]),
        Some("trace") => trace_benchmark::run(&words[1..]),
        // What `trace` measures, and what measures it, in processes of their own.
        Some("trace-measure") => trace_benchmark::measure_command(&words[1..]),
        Some("trace-calls") => trace_benchmark::make_calls(&words[1..]),
        Some("supervise") => std::process::exit(turnstone_process::run_supervisor()),
        Some("turn") => turn_benchmark::run(&words[1..]),
        Some("headline") => concurrent_agents::run(&words[1..]),
        // One size in a process of its own.
        Some("snapshot-memory") => snapshot::measure_memory(&words[1..]),
        _ => {
            eprintln!("usage: turnstone-bench ledger [--quick] | growth | capnweb [--quick]");
            eprintln!("       turnstone-bench walk [--quick] [--files N]");
            eprintln!("       turnstone-bench snapshot [--quick] [--files N] [--limit SECONDS]");
            eprintln!(
                "       turnstone-bench server [--quick] [--turnstone PATH] [--opencode PATH]"
            );
            eprintln!("       turnstone-bench turn [--quick] [--http] [--files N]");
            eprintln!("       turnstone-bench exec [--quick] [--files N] [--turnstone PATH]");
            eprintln!("       turnstone-bench trace [--quick] [CASE…]");
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
