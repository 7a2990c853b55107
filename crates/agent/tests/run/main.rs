//! The loop on a real engine, a real project and a scripted model.

mod aborts;
mod fixture;
mod inbox;
mod permissions;
mod steps;
mod subagents;
mod test_tools;
