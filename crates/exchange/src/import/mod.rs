//! Writing what a source holds through the store: counted, repeatable, one bad thing never in the way.
//!
//! Every imported session gets a proper history: it is created, its messages follow with their parts in
//! order, then to-dos, share and diff, then the session once more with its exact figures. Everything is
//! written by the actor [`ACTOR`], which is how a later import tells its own writing from everybody
//! else's: what the source changed since is updated, what somebody changed or removed here is kept and
//! reported, a session deleted here stays deleted. A killed import is finished by running it again.

mod batch;
mod local;
mod run;
mod session;

pub use run::{ACTOR, Import, ImportError, Progress};
