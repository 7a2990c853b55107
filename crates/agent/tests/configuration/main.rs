//! The settings of the loop from real configuration files.

mod fixture;
mod instructions;
mod models;
mod tools;
