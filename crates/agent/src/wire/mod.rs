//! How models are reached: one module for each wire, and the scripted model.

mod answer_delivery;
mod scripted;

pub use scripted::{ScriptError, ScriptedProvider};
