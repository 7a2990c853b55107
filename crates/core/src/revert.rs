//! Reverts: the head of a session after a revert to a message, by OpenCode's rules.
//!
//! Owns the boundary: which message and part the head is moved to. What happens to files follows
//! from change sets, and is not decided here.

use crate::id::{MessageId, PartId};
use crate::operation::SessionHead;

/// A message with the ids and types of its parts, as input for the boundary search.
#[derive(Clone, Copy, Debug)]
pub struct MessageOutline<'a> {
    /// The message.
    pub message: &'a MessageId,
    /// True if a person wrote it.
    pub is_user: bool,
    /// Its parts and their types, in order.
    pub parts: &'a [(PartId, String)],
}

/// Finds the first reverted message or part when a session is reverted to a message or a part.
///
/// Messages and parts are walked in order, ids are never compared for order (they wrap). A part is
/// kept only if an earlier part of its message is a text or a tool call: otherwise nothing of the
/// message would be left worth keeping. Without a part the head is the last message of a person at
/// or before the boundary, so that an answer is reverted together with its prompt. Returns `None` for
/// a message without parts.
#[must_use]
pub fn find_revert_boundary<'a>(
    messages: impl IntoIterator<Item = MessageOutline<'a>>,
    message: &MessageId,
    part: Option<&PartId>,
) -> Option<SessionHead> {
    let mut asked = None;
    for outline in messages {
        if outline.is_user {
            asked = Some(outline.message);
        }
        let is_boundary = |(id, _): &(PartId, String)| match part {
            Some(part) => id == part,
            None => outline.message == message,
        };
        let Some(at) = outline.parts.iter().position(is_boundary) else { continue };
        let is_kept = outline.parts[..at].iter().any(|(_, kind)| kind == "text" || kind == "tool");
        let part = part.filter(|_| is_kept).cloned();
        let message = match (&part, asked) {
            (None, Some(asked)) => asked,
            (Some(_), _) | (None, None) => outline.message,
        };
        return Some(SessionHead { message: message.clone(), part });
    }
    None
}

/// Merges a to-do list when a session moves from one point to another; `None` if it does not change.
///
/// `there` is the list at the target, `here` the list at the current position, `now` the current list:
/// a list that was edited since the session reached its position is kept.
#[must_use]
pub fn merge_todos<'t, T: PartialEq>(there: &'t [T], here: &[T], now: &[T]) -> Option<&'t [T]> {
    (there != here && here == now).then_some(there)
}

#[cfg(test)]
mod tests {
    use super::*;

    type OwnedOutline = (MessageId, bool, Vec<(PartId, String)>);

    fn outline(id: &str, is_user: bool, parts: &[(&str, &str)]) -> OwnedOutline {
        let part = |(id, kind): &(&str, &str)| {
            (format!("prt_{id}").parse().expect("an id"), (*kind).to_owned())
        };
        (format!("msg_{id}").parse().expect("an id"), is_user, parts.iter().map(part).collect())
    }

    /// Two turns; ids are not in the order of time.
    fn session() -> Vec<OwnedOutline> {
        vec![
            outline("z", true, &[("z1", "text")]),
            outline("y", false, &[("y1", "step-start"), ("y2", "tool"), ("y3", "text")]),
            outline("b", true, &[("b1", "text"), ("b2", "file")]),
            outline("a", false, &[("a1", "step-start"), ("a2", "tool")]),
            outline("empty", true, &[]),
        ]
    }

    fn boundary(message: &str, part: Option<&str>) -> Option<(String, Option<String>)> {
        let all = session();
        let outlines = all.iter().map(|(message, is_user, parts)| MessageOutline {
            message,
            is_user: *is_user,
            parts,
        });
        let part = part.map(|part| format!("prt_{part}").parse().expect("an id"));
        let message = format!("msg_{message}").parse().expect("an id");
        let head = find_revert_boundary(outlines, &message, part.as_ref())?;
        Some((head.message.to_string(), head.part.map(|part| part.to_string())))
    }

    fn whole(message: &str) -> Option<(String, Option<String>)> {
        Some((format!("msg_{message}"), None))
    }

    #[test]
    fn answer_reverts_with_its_prompt() {
        assert_eq!(boundary("b", None), whole("b"));
        assert_eq!(boundary("a", None), whole("b"));
        assert_eq!(boundary("y", None), whole("z"));
    }

    #[test]
    fn part_boundary_needs_text_or_tool_before_it() {
        assert_eq!(boundary("y", Some("y2")), whole("z"), "only a step began before it");
        let kept = Some(("msg_y".to_owned(), Some("prt_y3".to_owned())));
        assert_eq!(boundary("y", Some("y3")), kept);
        assert_eq!(boundary("other", Some("y3")), kept, "the part alone decides");
        let file = Some(("msg_b".to_owned(), Some("prt_b2".to_owned())));
        assert_eq!(boundary("b", Some("b2")), file);
    }

    #[test]
    fn empty_or_unknown_message_is_no_boundary() {
        assert_eq!(boundary("empty", None), None);
        assert_eq!(boundary("none", None), None);
        assert_eq!(boundary("y", Some("none")), None);
    }

    #[test]
    fn todos_follow_unless_changed_since() {
        assert_eq!(merge_todos(&[1], &[1, 2], &[1, 2]), Some(&[1][..]));
        assert_eq!(merge_todos(&[1], &[1, 2], &[1, 2, 3]), None, "changed since");
        assert_eq!(merge_todos(&[1], &[1], &[1]), None, "nothing happened to them");
    }
}
