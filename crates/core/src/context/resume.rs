//! What is said after a compaction nobody asked for, so that the model goes on with its work.

use serde_json::json;

use super::model::is_media;
use super::transcript::named;
use crate::model::{Part, PartBody, Text};

/// Said when the work simply goes on.
const GO_ON: &str = "Go on with the next step if there is one. If the work is done, or something \
    is unclear, say so and stop.";
/// Said when what was asked last could not be kept.
const TOO_MUCH: &str = "The last request was too large for the context, so what was attached to \
    it is not here any more. Say that attachments were too large if they were needed, and go on \
    with what can be done without them.";

/// A prompt that is asked again, after all before it was summarised.
///
/// Media, which may be what was too much, become a line each. Requests to compact are not repeated.
#[must_use]
pub fn ask_again(parts: &[Part]) -> Vec<PartBody> {
    let again = |part: &Part| {
        #[expect(clippy::wildcard_enum_match_arm, reason = "everything else is asked as it was")]
        match &part.body {
            PartBody::Compaction(_) => None,
            PartBody::File(file) if is_media(&file.mime) => {
                Some(PartBody::Text(Text { text: named(file), ..Text::default() }))
            }
            body => Some(body.clone()),
        }
    };
    parts.iter().filter_map(again).collect()
}

/// The words that make a model go on by itself; others if the last prompt had to be left out.
#[must_use]
pub fn go_on(is_left_out: bool) -> PartBody {
    let text = if is_left_out { format!("{TOO_MUCH}\n\n{GO_ON}") } else { GO_ON.to_owned() };
    PartBody::Text(Text {
        text,
        synthetic: Some(true),
        metadata: Some(json!({ "compaction_continue": true })),
        ..Text::default()
    })
}
