//! What a prompt names is put into it: files, directories, mentions of agents.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};
use turnstone_core::id::PartId;
use turnstone_core::model::{PartBody, Text};

use super::file::{self, Named};
use super::input::{FileInput, PartInput, PartKind};

/// The media type of a directory.
const DIRECTORY: &str = "application/x-directory";

/// The parts of a message, and what could not be read for it.
#[derive(Debug, Default)]
pub(crate) struct Expanded {
    /// The parts in order; those the client named have its ids.
    pub(crate) parts: Vec<(Option<PartId>, PartBody)>,
    /// What went wrong, in words for people.
    pub(crate) failures: Vec<String>,
}

/// Fills in what the parts name; files are read below `root` only.
pub(crate) fn expand(root: &Path, parts: &[PartInput]) -> Expanded {
    let mut done = Expanded::default();
    for part in parts {
        let id = part.id.clone();
        match &part.kind {
            PartKind::Plain(body) => {
                done.parts.push((id, (**body).clone()));
                if let PartBody::Agent(agent) = &**body {
                    done.say(format!(
                        " Use the above message and context to generate a prompt and call the task \
                         tool with subagent: {}",
                        agent.name
                    ));
                }
            }
            PartKind::File(file) => done.file(root, id, file),
        }
    }
    done
}

impl Expanded {
    /// Adds a text nobody wrote.
    fn say(&mut self, text: String) {
        let text = Text { text, synthetic: Some(true), ..Text::default() };
        self.parts.push((None, PartBody::Text(text)));
    }

    fn call(&mut self, input: &Value) {
        self.say(format!("Called the Read tool with the following input: {input}"));
    }

    fn file(&mut self, root: &Path, id: Option<PartId>, file: &FileInput) {
        let named = Named::of(&file.url);
        match (named, data(&file.url)) {
            (Some(named), _) => self.named(root, id, file, &named),
            (None, Some(bytes)) if file.mime == "text/plain" => {
                let name = file.filename.as_deref().unwrap_or("text");
                self.call(&json!({ "filePath": name }));
                self.say(String::from_utf8_lossy(&bytes).into_owned());
                self.parts.push((id, file.body()));
            }
            // Images, documents and addresses elsewhere are the model's business.
            (None, _) => self.parts.push((id, file.body())),
        }
    }

    fn named(&mut self, root: &Path, id: Option<PartId>, file: &FileInput, named: &Named) {
        self.call(&named.call());
        if let Some(listing) = file::directory(root, named) {
            self.say(listing);
            let file = FileInput { mime: DIRECTORY.to_owned(), ..file.clone() };
            self.parts.push((id, file.body()));
            return;
        }
        let is_text = file.mime == "text/plain" || file.mime == DIRECTORY;
        let read = if is_text {
            file::text(root, named).map(|text| {
                self.say(text);
                file.clone()
            })
        } else {
            file::bytes(root, named).map(|bytes| {
                let url = format!("data:{};base64,{}", file.mime, STANDARD.encode(bytes));
                FileInput { url, ..file.clone() }
            })
        };
        match read {
            Ok(file) => self.parts.push((id, file.body())),
            Err(why) => {
                let path = named.shown();
                self.say(format!(
                    "Read tool failed to read {path} with the following error: {why}"
                ));
                self.failures.push(why);
            }
        }
    }
}

/// The bytes of a `data:` URL.
fn data(url: &str) -> Option<Vec<u8>> {
    let (head, body) = url.strip_prefix("data:")?.split_once(',')?;
    if head.ends_with(";base64") {
        return STANDARD.decode(body.trim()).ok();
    }
    Some(percent_decode_str(body).collect())
}
