//! Tidy: the rules of the repository that the compiler does not know, as tests.
//!
//! Each rule is one pure function from text to [`finding::Finding`]s. One test runs it over the
//! whole repository; a companion test runs it over a small bad sample, so that no rule can pass
//! because it looks at nothing. A finding names file, line, rule and remedy.

mod advisory;
mod ban;
mod document;
mod finding;
mod gate;
mod graph;
mod limit;
mod machine;
mod shape;
mod sql;
mod token;
mod tree;
