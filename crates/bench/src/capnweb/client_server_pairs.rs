//! The four pairs, measured in turns.

use std::time::Duration;

use super::endpoint_process::{CallMode, NpmClient, NpmInstall, ServerProcess, processor_seconds};
use super::{call_bytes, rust_endpoint, session_memory};
use crate::Fallible;
use crate::measurement::{median, print_figures};

/// Floors of the issue, against npm–npm.
const IN_FLIGHT_FLOOR: f64 = 5.0;
const SEQUENTIAL_FLOOR: f64 = 1.5;

type Error = Box<dyn std::error::Error>;

/// Who calls whom.
pub(super) struct ClientServerPairs {
    npm: NpmInstall,
    pub(super) own_server: ServerProcess,
    pub(super) npm_server: ServerProcess,
    pub(super) client: NpmClient,
}

/// Calls per second of the four pairs in one round.
struct PairRates {
    ours: f64,
    npm: f64,
    npm_to_ours: f64,
    ours_to_npm: f64,
    /// Seconds of both processes for one call: other load on the machine hardly changes it.
    ours_processor: f64,
    npm_processor: f64,
}

/// Measures calls, bytes and memory.
pub(crate) fn run(quick: bool) -> Fallible {
    if cfg!(debug_assertions) {
        return Err("figures of a debug build mean nothing: run with --release".into());
    }
    let (rounds, span) =
        if quick { (5, Duration::from_millis(400)) } else { (9, Duration::from_millis(1_500)) };
    let mut pairs = ClientServerPairs::start()?;
    println!("Cap'n Web calls per second: greet(\"bob\"), two processes of one thread, loopback");
    println!(
        "ours = Rust client and server; npm = capnweb 0.12 on Node {}",
        pairs.npm.node_version
    );
    for mode in [CallMode::Sequential, CallMode::InFlight, CallMode::Batch] {
        // Both sides are warm before anything counts: Node compiles as it runs.
        pairs.measure_round(mode, span)?;
        let measured: Result<Vec<_>, _> =
            (0..rounds).map(|_| pairs.measure_round(mode, span)).collect();
        print_rates(mode, &measured?);
    }
    call_bytes::run(&mut pairs)?;
    drop(pairs);
    session_memory::run(if quick { 2_000 } else { 10_000 })
}

impl ClientServerPairs {
    fn start() -> Fallible<Self> {
        let npm = NpmInstall::install()?;
        let theirs = npm.start_server()?;
        let client = npm.start_client()?;
        Ok(Self { own_server: ServerProcess::start_own()?, npm_server: theirs, client, npm })
    }

    /// Measures every pair once, one after the other.
    fn measure_round(&mut self, mode: CallMode, span: Duration) -> Fallible<PairRates> {
        let spent = |pairs: &Self| {
            Ok::<_, Error>(processor_seconds("self")? + pairs.own_server.processor_seconds()?)
        };
        let before = spent(self)?;
        let ours = rust_endpoint::make_calls(mode, &self.own_server.url, span)?;
        let ours_processor = (spent(self)? - before) / ours.calls;
        let spent = |pairs: &Self| {
            Ok::<_, Error>(
                pairs.client.processor_seconds()? + pairs.npm_server.processor_seconds()?,
            )
        };
        let before = spent(self)?;
        let npm = self.client.make_calls(mode, &self.npm_server.url, span)?;
        let npm_processor = (spent(self)? - before) / npm.calls;
        Ok(PairRates {
            ours: ours.per_second(),
            npm: npm.per_second(),
            ours_processor,
            npm_processor,
            npm_to_ours: self.client.make_calls(mode, &self.own_server.url, span)?.per_second(),
            ours_to_npm: rust_endpoint::make_calls(mode, &self.npm_server.url, span)?.per_second(),
        })
    }
}

fn print_rates(mode: CallMode, rounds: &[PairRates]) {
    let middle = |pick: fn(&PairRates) -> f64| median(rounds.iter().map(pick).collect());
    let ratio = middle(|round| round.ours / round.npm);
    let floor = match mode {
        CallMode::Sequential => {
            format!(" (floor {SEQUENTIAL_FLOOR}, {})", goal_label(ratio, SEQUENTIAL_FLOOR))
        }
        CallMode::InFlight => {
            format!(" (floor {IN_FLIGHT_FLOOR}, {})", goal_label(ratio, IN_FLIGHT_FLOOR))
        }
        CallMode::Batch => String::new(),
    };
    print_figures(
        &format!("{}, {} rounds, medians", mode.label(), rounds.len()),
        &[
            ("ours", format!("{:.0}/s", middle(|round| round.ours))),
            ("npm–npm", format!("{:.0}/s", middle(|round| round.npm))),
            ("ratio", format!("{ratio:.2}{floor}")),
            ("processor", format!("{:.1} µs a call", middle(|round| round.ours_processor) * 1e6)),
            ("npm–npm", format!("{:.1} µs", middle(|round| round.npm_processor) * 1e6)),
            ("npm to ours", format!("{:.0}/s", middle(|round| round.npm_to_ours))),
            ("ours to npm", format!("{:.0}/s", middle(|round| round.ours_to_npm))),
        ],
    );
}

fn goal_label(figure: f64, floor: f64) -> &'static str {
    if figure >= floor { "met" } else { "MISSED" }
}
