//! `turnstone tour`: the promises of undo, kept before your eyes.
//!
//! Runs this very program in a temporary project, as a person would, and compares bytes. A claim
//! that does not hold ends the tour with an error.

mod run;
mod scene;
mod stage;

pub(crate) use run::{TourArgs, run};
