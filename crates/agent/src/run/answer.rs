//! The answer of a model before it has said anything.

use serde_json::Number;
use turnstone_core::id::MessageId;
use turnstone_core::model::{
    AssistantMessage, AssistantTime, ExtraFields, Message, MessageBody, MessagePath, ModelRef,
    TokenCounts,
};
use turnstone_engine::Result;

use super::turn_shared::TurnShared;

/// Returns the next answer to a prompt, with nothing in it.
pub(crate) fn new_answer(
    shared: &TurnShared,
    prompt: &Message,
    agent: &str,
    model: &ModelRef,
) -> Result<Message> {
    let ctx = shared.context();
    let id = shared.engine().turns().new_message_id(&ctx, &prompt.session)?;
    Ok(empty_answer(shared, (id, prompt), agent, model, Number::from(ctx.now.0)))
}

fn empty_answer(
    shared: &TurnShared,
    (id, prompt): (MessageId, &Message),
    agent: &str,
    model: &ModelRef,
    created: Number,
) -> Message {
    let path = |path: &std::path::Path| path.to_string_lossy().into_owned();
    let body = AssistantMessage {
        time: AssistantTime { created, completed: None, extra: ExtraFields::new() },
        error: None,
        parent: prompt.id.clone(),
        model: model.model.clone(),
        provider: model.provider.clone(),
        mode: agent.to_owned(),
        agent: Some(agent.to_owned()),
        path: MessagePath {
            cwd: path(&shared.directory),
            root: path(&shared.worktree),
            extra: ExtraFields::new(),
        },
        summary: None,
        cost: Number::from(0),
        tokens: TokenCounts::default(),
        structured: None,
        variant: model.variant.clone(),
        finish: None,
        extra: ExtraFields::new(),
    };
    Message { id, session: prompt.session.clone(), body: MessageBody::Assistant(Box::new(body)) }
}
