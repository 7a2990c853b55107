//! `turnstone tour`: the promises of undo, kept before your eyes.
//!
//! Runs this very program in a temporary project, as a person would, and compares bytes. A claim
//! that does not hold ends the tour with an error.

mod run;
mod sandbox;
mod scenarios;

pub(crate) use run::{TourArgs, run};
