//! Anthropic's messages.

mod answer;
mod request;

pub(super) use request::AnthropicFormat;

#[cfg(test)]
mod tests;
