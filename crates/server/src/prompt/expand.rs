//! What a prompt names is put into it: files, directories, mentions of agents.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};
use turnstone_core::id::PartId;
use turnstone_core::model::{PartBody, TextPart};

use super::prompt_file::{self, FileUrl};
use super::prompt_input::{FileInput, PartInput, PartInputKind};

/// The media type of a directory.
const DIRECTORY_MIME: &str = "application/x-directory";

/// The parts of a message, and what could not be read for it.
#[derive(Debug, Default)]
pub(crate) struct ExpandedPrompt {
    /// The parts in order; those the client named have its ids.
    pub(crate) parts: Vec<(Option<PartId>, PartBody)>,
    /// What went wrong, in words for people.
    pub(crate) failures: Vec<String>,
}

/// Fills in what the parts name; files are read below `root` only.
pub(crate) fn expand_parts(root: &Path, parts: &[PartInput]) -> ExpandedPrompt {
    let mut done = ExpandedPrompt::default();
    for part in parts {
        let id = part.id.clone();
        match &part.kind {
            PartInputKind::Plain(body) => {
                done.parts.push((id, (**body).clone()));
                if let PartBody::Agent(agent) = &**body {
                    done.add_synthetic_text(format!(
                        " Use the above message and context to generate a prompt and call the task \
                         tool with subagent: {}",
                        agent.name
                    ));
                }
            }
            PartInputKind::File(file) => done.add_file(root, id, file),
        }
    }
    done
}

impl ExpandedPrompt {
    /// Adds a text that the person did not write.
    fn add_synthetic_text(&mut self, text: String) {
        let text = TextPart { text, synthetic: Some(true), ..TextPart::default() };
        self.parts.push((None, PartBody::Text(text)));
    }

    fn add_read_call(&mut self, input: &Value) {
        self.add_synthetic_text(format!("Called the Read tool with the following input: {input}"));
    }

    fn add_file(&mut self, root: &Path, id: Option<PartId>, file: &FileInput) {
        let named = FileUrl::parse(&file.url);
        match (named, decode_data_url(&file.url)) {
            (Some(named), _) => self.add_named_file(root, id, file, &named),
            (None, Some(bytes)) if file.mime == "text/plain" => {
                let name = file.filename.as_deref().unwrap_or("text");
                self.add_read_call(&json!({ "filePath": name }));
                self.add_synthetic_text(String::from_utf8_lossy(&bytes).into_owned());
                self.parts.push((id, file.body()));
            }
            // Images, documents and addresses elsewhere are the model's business.
            (None, _) => self.parts.push((id, file.body())),
        }
    }

    fn add_named_file(
        &mut self,
        root: &Path,
        id: Option<PartId>,
        file: &FileInput,
        named: &FileUrl,
    ) {
        self.add_read_call(&named.read_tool_input());
        if let Some(listing) = prompt_file::render_directory(root, named) {
            self.add_synthetic_text(listing);
            let file = FileInput { mime: DIRECTORY_MIME.to_owned(), ..file.clone() };
            self.parts.push((id, file.body()));
            return;
        }
        let is_text = file.mime == "text/plain" || file.mime == DIRECTORY_MIME;
        let read = if is_text {
            prompt_file::render_text(root, named).map(|text| {
                self.add_synthetic_text(text);
                file.clone()
            })
        } else {
            prompt_file::read_bytes(root, named).map(|bytes| {
                let url = format!("data:{};base64,{}", file.mime, STANDARD.encode(bytes));
                FileInput { url, ..file.clone() }
            })
        };
        match read {
            Ok(file) => self.parts.push((id, file.body())),
            Err(why) => {
                let path = named.display();
                self.add_synthetic_text(format!(
                    "Read tool failed to read {path} with the following error: {why}"
                ));
                self.failures.push(why);
            }
        }
    }
}

/// The bytes of a `data:` URL.
fn decode_data_url(url: &str) -> Option<Vec<u8>> {
    let (head, body) = url.strip_prefix("data:")?.split_once(',')?;
    if head.ends_with(";base64") {
        return STANDARD.decode(body.trim()).ok();
    }
    Some(percent_decode_str(body).collect())
}
