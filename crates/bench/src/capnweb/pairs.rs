//! The four pairs, measured in turns.

use std::time::Duration;

use super::peer::{Mode, Npm, NpmClient, Server, processor};
use super::{bytes, memory, ours};
use crate::Fallible;
use crate::table::{line, median};

/// Floors of the issue, against npm–npm.
const IN_FLIGHT_FLOOR: f64 = 5.0;
const SEQUENTIAL_FLOOR: f64 = 1.5;

type Error = Box<dyn std::error::Error>;

/// Who calls whom.
pub(super) struct Pairs {
    npm: Npm,
    pub(super) ours: Server,
    pub(super) theirs: Server,
    pub(super) client: NpmClient,
}

/// Calls per second of the four pairs in one round.
struct Round {
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
    let mut pairs = Pairs::start()?;
    println!("Cap'n Web calls per second: greet(\"bob\"), two processes of one thread, loopback");
    println!("ours = Rust client and server; npm = capnweb 0.12 on Node {}", pairs.npm.node);
    for mode in [Mode::Sequential, Mode::Flight, Mode::Batch] {
        // Both sides are warm before anything counts: Node compiles as it runs.
        pairs.round(mode, span)?;
        let measured: Result<Vec<_>, _> = (0..rounds).map(|_| pairs.round(mode, span)).collect();
        report(mode, &measured?);
    }
    bytes::run(&mut pairs)?;
    drop(pairs);
    memory::run(if quick { 2_000 } else { 10_000 })
}

impl Pairs {
    fn start() -> Fallible<Self> {
        let npm = Npm::install()?;
        let theirs = npm.server()?;
        let client = npm.client()?;
        Ok(Self { ours: Server::ours()?, theirs, client, npm })
    }

    /// Measures every pair once, one after the other.
    fn round(&mut self, mode: Mode, span: Duration) -> Fallible<Round> {
        let spent = |pairs: &Self| Ok::<_, Error>(processor("self")? + pairs.ours.processor()?);
        let before = spent(self)?;
        let ours = ours::calls(mode, &self.ours.url, span)?;
        let ours_processor = (spent(self)? - before) / ours.calls;
        let spent =
            |pairs: &Self| Ok::<_, Error>(pairs.client.processor()? + pairs.theirs.processor()?);
        let before = spent(self)?;
        let npm = self.client.calls(mode, &self.theirs.url, span)?;
        let npm_processor = (spent(self)? - before) / npm.calls;
        Ok(Round {
            ours: ours.per_second(),
            npm: npm.per_second(),
            ours_processor,
            npm_processor,
            npm_to_ours: self.client.calls(mode, &self.ours.url, span)?.per_second(),
            ours_to_npm: ours::calls(mode, &self.theirs.url, span)?.per_second(),
        })
    }
}

fn report(mode: Mode, rounds: &[Round]) {
    let middle = |pick: fn(&Round) -> f64| median(rounds.iter().map(pick).collect());
    let ratio = middle(|round| round.ours / round.npm);
    let floor = match mode {
        Mode::Sequential => {
            format!(" (floor {SEQUENTIAL_FLOOR}, {})", met(ratio, SEQUENTIAL_FLOOR))
        }
        Mode::Flight => format!(" (floor {IN_FLIGHT_FLOOR}, {})", met(ratio, IN_FLIGHT_FLOOR)),
        Mode::Batch => String::new(),
    };
    line(
        &format!("{}, {} rounds, medians", mode.shown(), rounds.len()),
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

fn met(figure: f64, floor: f64) -> &'static str {
    if figure >= floor { "met" } else { "MISSED" }
}
