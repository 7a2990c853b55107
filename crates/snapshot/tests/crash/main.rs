//! Sudden death and pulled plugs: no returned id is lost, no file of the user is lost or truncated.

mod io_faults;
mod kill;
mod maintenance_crash;
mod powerloss;
mod store_process;
