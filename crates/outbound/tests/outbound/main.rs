//! Tests of outgoing HTTP against servers on this machine.

#[cfg(test)]
mod requests;
