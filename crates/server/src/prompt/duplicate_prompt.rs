//! The same prompt again: told by its id, and by saying the same.

use turnstone_core::model::{FilePart, MessageBody, PartBody};
use turnstone_store::MessageWithParts;

use super::prompt_input::{FileInput, PartInputKind, PromptInput};

/// True if a stored message is what this prompt would have stored, whatever was filled in since.
pub(super) fn is_same_prompt(stored: &MessageWithParts, asked: &PromptInput) -> bool {
    let MessageBody::User(user) = &stored.message.body else { return false };
    let wanted = &asked.requested_agent;
    let model = (user.model.provider.clone(), user.model.model.clone());
    let same_head = wanted.agent.as_ref().is_none_or(|agent| *agent == user.agent)
        && wanted.model.as_ref().is_none_or(|wanted| *wanted == model)
        && (wanted.variant.is_none() || wanted.variant == user.model.variant)
        && asked.system == user.system
        && asked.format == user.format
        && asked.tools == user.tools;
    same_head && has_same_parts(stored, asked)
}

/// Walks both lists; what the server added is between the parts of the client.
fn has_same_parts(stored: &MessageWithParts, asked: &PromptInput) -> bool {
    let mut left = stored.parts.iter().peekable();
    for part in &asked.parts {
        match &part.kind {
            PartInputKind::Plain(body) => {
                // Added text is passed over, unless it is what the client said itself.
                while left.next_if(|next| next.body != **body && is_synthetic(&next.body)).is_some()
                {
                }
                let Some(next) = left.next() else { return false };
                if next.body != **body || part.id.as_ref().is_some_and(|id| *id != next.id) {
                    return false;
                }
            }
            PartInputKind::File(file) => {
                while left.next_if(|next| is_synthetic(&next.body)).is_some() {}
                // A file that could not be read left only words behind.
                let _same = left.next_if(|next| is_same_file(&next.body, file));
            }
        }
    }
    left.all(|part| is_synthetic(&part.body))
}

fn is_synthetic(body: &PartBody) -> bool {
    matches!(body, PartBody::Text(text) if text.synthetic == Some(true))
}

fn is_same_file(body: &PartBody, file: &FileInput) -> bool {
    let PartBody::File(FilePart { filename, source, url, .. }) = body else { return false };
    // The bytes of a named file took the place of its name.
    let same_url = *url == file.url || (file.url.starts_with("file:") && url.starts_with("data:"));
    *filename == file.filename && *source == file.source && same_url
}
