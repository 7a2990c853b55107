//! Gemini's `streamGenerateContent`.

mod answer;
mod request;

pub(super) use request::GeminiFormat;

#[cfg(test)]
mod tests;
