//! Chat completions, as OpenAI introduced them and most services and local servers speak them.

mod answer;
mod request;

pub(super) use request::ChatFormat;

#[cfg(test)]
mod tests;
