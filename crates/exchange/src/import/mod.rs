//! Writing what a source holds through the store: counted, repeatable, one bad thing never in the way.
//!
//! Every imported session gets a proper history: it is created, its messages follow with their parts in
//! order, then to-dos, share and diff, then the session once more with its exact figures. Everything is
//! written by the actor [`IMPORT_ACTOR`], which is how a later import tells its own writing from everybody
//! else's: what the source changed since is updated, what somebody changed or removed here is kept and
//! reported, a session deleted here stays deleted. A killed import is finished by running it again.
//!
//! A source may come from anybody. It adds sessions, and changes those an import brought and nobody
//! continued; it changes no project that is here, and no session that was made or continued here. Rules,
//! approvals and commands it carries are stored and not in effect, see [`PlannedImport::with_trust`].

mod import_run;
mod imported_turns;
mod local_changes;
mod project_import;
mod rule_trust;
mod session_extras;
mod session_import;
mod write_batch;

pub use import_run::{IMPORT_ACTOR, ImportError, ImportProgress, PlannedImport};
