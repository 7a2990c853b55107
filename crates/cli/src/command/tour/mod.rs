//! `turnstone tour`: demonstrates and checks undo.
//!
//! Runs this program in a temporary project as a user would, and compares file contents. A failed check
//! ends the tour with an error.

mod agent_scenario;
mod run;
mod sandbox;
mod scenarios;

pub(crate) use run::{TourArgs, run};
