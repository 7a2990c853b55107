//! Configuration as a program loads it: sources, trust, models.

mod fixture;
mod models;
mod sources;
mod trust;
