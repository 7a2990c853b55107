//! The program as people and scripts use it, run on a data directory filled through the store.

mod abort;
mod answer;
mod case;
mod db;
mod doctor;
mod exchange;
mod exec;
mod gates;
mod history;
mod permission;
mod place;
mod program;
mod search;
mod serve;
mod serve_end;
mod serve_password;
mod serve_start;
mod session;
mod shell;
mod snapshot;
mod space;
mod stats;
mod terminal;
mod todo;
mod tour;
mod undo;
