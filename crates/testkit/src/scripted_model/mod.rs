//! A model that answers by a script in the prompt, over all four wires.
//!
//! A prompt that contains a JSON list of turns, `[[{"text": "Hi"}], …]`, is its own script: the n-th
//! request after it gets the n-th turn. So one client can ask any agent the same questions, and nothing
//! has to be set up. `docs/models.md` describes the events; here they may also be:
//!
//! - `"redacted": "DATA"`: reasoning that cannot be read (Anthropic only);
//! - `"signature": "S"` in a `reasoning` or a `tool`: what must return to the model;
//! - `"http": {"status", "headers", "body", "times"}`: this response instead of an answer, so many times;
//! - `"cut": true`: the connection breaks here; `"end": true`: the stream ends here without a reason;
//! - `"stream_error": {…}`: an error of the wire within the stream.

mod conversation;
mod rendering;
mod script;
mod server;

pub use script::{ModelScript, ScriptStep};
pub use server::{ScriptedModelServer, ServedWire};
