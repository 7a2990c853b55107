//! Real processes under a real supervisor.

mod exit;
mod fault_injection;
mod group;
mod output;
mod output_recorder;
mod owner;
mod process_fixture;
mod terminal;
mod trace;
