//! Real processes under a real supervisor.

mod case;
mod exit;
mod fault;
mod group;
mod keeper;
mod output;
mod owner;
mod terminal;
