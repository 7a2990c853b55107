//! Sudden death and pulled plugs: no returned id is lost, no file of the user is lost or truncated.

mod fault;
mod kill;
mod powerloss;
mod upkeep;
mod vault;
