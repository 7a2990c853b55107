//! Compaction, consumers and upkeep through the store's own doors (R24, R25).

mod consumer;
#[path = "../history/mod.rs"]
mod history;
mod property;
mod stream;
mod upkeep;
mod value;

use history::World;
use turnstone_core::time::Cursor;
use turnstone_store::{Budget, LogEvent, Maintained, Upkeep};

/// No grace, and nobody holds the log: everything may go at once.
fn at_once() -> Upkeep {
    Upkeep { grace_ms: 0, lag_ms: 0, ..Upkeep::default() }
}

fn maintain(world: &World, budget: Budget) -> Maintained {
    maintain_with(world, budget, &at_once())
}

fn maintain_with(world: &World, budget: Budget, upkeep: &Upkeep) -> Maintained {
    world.store.maintain_with(&world.ctx(), budget, upkeep).expect("maintained")
}

fn whole_log(world: &World) -> Vec<LogEvent> {
    world.store.read(&world.ctx(), |r| r.log_after(Cursor(0), 100_000)).expect("log").events
}
