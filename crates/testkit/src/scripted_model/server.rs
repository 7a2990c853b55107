//! The server: reads a request, finds its turn, sends the answer in the words of its wire.

use std::collections::HashMap;
use std::io;
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

use super::conversation::{find_position, has_tools};
use super::rendering::render_answer;
use super::script::ScriptStep;
use crate::scripted_server::{RecordedRequest, ScriptedServer, ServerReply};

/// A wire that the server speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ServedWire {
    /// Chat completions.
    Chat,
    /// OpenAI's responses.
    Responses,
    /// Anthropic's messages.
    Anthropic,
    /// Gemini.
    Gemini,
}

impl ServedWire {
    /// All wires.
    pub const ALL: [Self; 4] = [Self::Chat, Self::Responses, Self::Anthropic, Self::Gemini];

    fn of(path: &str) -> Option<Self> {
        let path = path.split('?').next().unwrap_or_default();
        match path {
            path if path.ends_with("/chat/completions") => Some(Self::Chat),
            path if path.ends_with("/responses") => Some(Self::Responses),
            path if path.ends_with("/messages") => Some(Self::Anthropic),
            path if path.ends_with(":streamGenerateContent") => Some(Self::Gemini),
            _ => None,
        }
    }
}

/// A model that answers by the script in the prompt.
pub struct ScriptedModelServer {
    server: ScriptedServer,
}

/// How often each response of a script was given instead of an answer.
type GivenResponses = Mutex<HashMap<(String, usize, usize), u64>>;

impl ScriptedModelServer {
    /// Starts the server. Answers arrive in pieces of `piece_size` bytes, or event by event.
    pub fn start(piece_size: Option<usize>) -> io::Result<Self> {
        let given = GivenResponses::default();
        let server = ScriptedServer::start(move |request| {
            let reply = answer(request, &given);
            match piece_size {
                Some(size) => reply.in_pieces_of(size),
                None => reply,
            }
        })?;
        Ok(Self { server })
    }

    /// Returns the address that a provider's configuration needs.
    #[must_use]
    pub fn url(&self) -> String {
        format!("{}/v1", self.server.url())
    }

    /// Returns every request so far.
    #[must_use]
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.server.requests()
    }

    /// Returns how many connections are being served.
    #[must_use]
    pub fn open_connections(&self) -> usize {
        self.server.open_connections()
    }
}

fn answer(request: &RecordedRequest, given: &GivenResponses) -> ServerReply {
    let Some(wire) = ServedWire::of(&request.path) else {
        return ServerReply::json(404, "{\"error\":{\"message\":\"no such route\"}}");
    };
    let body: Value = serde_json::from_slice(&request.body).unwrap_or(Value::Null);
    if !has_tools(&body) {
        let title = [ScriptStep::Text("Scripted answer".to_owned(), None)];
        return render_answer(wire, &title, 0);
    }
    let Some(position) = find_position(wire, &body) else {
        let text = "There is no script in the prompt.".to_owned();
        return render_answer(wire, &[ScriptStep::Text(text, None)], 0);
    };
    let Some(steps) = position.script.turns.get(position.turn) else {
        let text = "The script has ended.".to_owned();
        return render_answer(wire, &[ScriptStep::Text(text, None)], position.turn);
    };
    for (place, step) in steps.iter().enumerate() {
        let ScriptStep::Http { status, headers, body, times } = step else { continue };
        let key = (format!("{:?}", position.script), position.turn, place);
        let mut given = given.lock().unwrap_or_else(PoisonError::into_inner);
        let count = given.entry(key).or_default();
        *count += 1;
        if *count <= *times {
            let reply = ServerReply::json(*status, body);
            let add = |reply: ServerReply, (name, value): &(String, String)| {
                reply.with_header(name, value)
            };
            return headers.iter().fold(reply, add);
        }
    }
    render_answer(wire, steps, position.turn)
}
