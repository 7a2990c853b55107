//! Any directory can be captured, whatever kind of repository it belongs to, and also a hostile one.

#[cfg(test)]
mod git_index_forms;
#[cfg(test)]
mod hostile_environment;
#[cfg(test)]
mod repository_layouts;
#[cfg(test)]
#[expect(dead_code, reason = "shared by several test programs")]
#[path = "../support/mod.rs"]
mod support;
