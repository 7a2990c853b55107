//! Servers of tools: the reference server as a program and over HTTP, and servers that misbehave.

mod fixture;
mod hostile;
mod lifecycle;
mod reference;
mod remote;
