//! OpenAI's responses.

mod answer;
mod request;

pub(super) use request::{ResponsesFormat, is_reasoning_model};

#[cfg(test)]
mod tests;
