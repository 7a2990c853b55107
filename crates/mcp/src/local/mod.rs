//! Servers that are programs of this machine.

mod line_transport;
mod server_program;

pub(crate) use line_transport::LineTransport;
pub(crate) use server_program::{ProgramLine, start_program};
