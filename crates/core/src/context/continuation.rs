//! Text that makes the model continue after an automatic compaction.

use serde_json::json;

use super::model_messages::is_media;
use super::transcript::describe_file;
use crate::model::{Part, PartBody, TextPart};

/// Used when the work simply continues.
const CONTINUE_PROMPT: &str = "Go on with the next step if there is one. If the work is done, or something \
    is unclear, say so and stop.";
/// Used when the last prompt could not be kept.
const OVERFLOW_NOTICE: &str = "The last request was too large for the context, so what was attached to \
    it is not here any more. Say that attachments were too large if they were needed, and go on \
    with what can be done without them.";

/// A prompt that is asked again, after all before it was summarised.
///
/// Media, which may be what was too much, become a line each. Requests to compact are not repeated.
#[must_use]
pub fn replay_prompt_parts(parts: &[Part]) -> Vec<PartBody> {
    let again = |part: &Part| {
        #[expect(clippy::wildcard_enum_match_arm, reason = "everything else is asked as it was")]
        match &part.body {
            PartBody::Compaction(_) => None,
            PartBody::File(file) if is_media(&file.mime) => {
                Some(PartBody::Text(TextPart { text: describe_file(file), ..TextPart::default() }))
            }
            body => Some(body.clone()),
        }
    };
    parts.iter().filter_map(again).collect()
}

/// The text that makes a model continue; it differs if the last prompt was dropped.
#[must_use]
pub fn continuation_part(is_left_out: bool) -> PartBody {
    let text = if is_left_out {
        format!("{OVERFLOW_NOTICE}\n\n{CONTINUE_PROMPT}")
    } else {
        CONTINUE_PROMPT.to_owned()
    };
    PartBody::Text(TextPart {
        text,
        synthetic: Some(true),
        metadata: Some(json!({ "compaction_continue": true })),
        ..TextPart::default()
    })
}
