//! Tidy: the rules of the repository that the compiler does not know, as tests.
//!
//! Each rule is one pure function from text to [`finding::TidyFinding`]s. One test runs it over the
//! whole repository; a companion test runs it over a small bad sample, so that no rule can pass
//! because it looks at nothing. A finding names file, line, rule and remedy.

mod advisories;
mod banned_code;
mod banned_words;
mod ci_gates;
mod code_walks;
mod constant_sql;
mod crate_boundaries;
mod crate_graph;
mod crate_table;
mod finding;
mod machine_paths;
mod method_counts;
mod openapi_types;
mod repository_files;
mod required_documents;
mod row_numbers;
mod rule_citations;
mod rust_tokens;
mod serde_types;
mod server_boundary;
mod size_limits;
mod source_layout;
mod type_names;
