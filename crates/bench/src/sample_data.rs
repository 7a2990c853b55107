//! What the benchmarks write: one project, sessions, messages and parts of a usual size.

use serde_json::json;
use turnstone_core::id::{MessageId, PartId, SessionId};
use turnstone_core::model::{Message, Part, Project, Session};
use turnstone_core::time::EpochMillis;
use turnstone_store::{Actor, Context, DataLayout, Options, Store};

use crate::Fallible;

/// The text of a part: about 120 bytes, as a sentence of a model is.
pub(crate) const SAMPLE_TEXT: &str = "The function reads the file, checks each line against the pattern, \
and returns those that match, in the order they were found.";

pub(crate) fn context() -> Fallible<Context> {
    Ok(Context::new(Actor::new("bench")?, EpochMillis(1_794_728_448_904)))
}

pub(crate) fn open_store(dir: &std::path::Path) -> Fallible<Store> {
    Ok(Store::open(&Options::new(DataLayout::new(dir), EpochMillis(1_794_728_448_904)))?)
}

pub(crate) fn project() -> Fallible<Project> {
    Ok(serde_json::from_value(json!({
        "id": "39a93880b0bb47938bba96c764a073c0740b06a8", "worktree": "/home/ada/project",
        "vcs": "git", "time": {"created": 1, "updated": 1},
    }))?)
}

pub(crate) fn session(n: usize) -> Fallible<Session> {
    Ok(serde_json::from_value(json!({
        "id": format!("ses_e21d92c7{n:04x}0123456789ABCD"), "slug": "kind-sailor",
        "projectID": "39a93880b0bb47938bba96c764a073c0740b06a8",
        "directory": "/home/ada/project", "path": "", "title": format!("Session number {n}"),
        "version": "0.1.0", "time": {"created": 1_794_728_448_904_u64 + n as u64,
                                     "updated": 1_794_728_448_904_u64 + n as u64},
    }))?)
}

pub(crate) fn session_id(n: usize) -> Fallible<SessionId> {
    Ok(format!("ses_e21d92c7{n:04x}0123456789ABCD").parse()?)
}

pub(crate) fn message_id(n: usize) -> Fallible<MessageId> {
    Ok(format!("msg_{n:012x}0123456789ABCD").parse()?)
}

pub(crate) fn part_id(n: usize) -> Fallible<PartId> {
    Ok(format!("prt_{n:012x}0123456789ABCD").parse()?)
}

pub(crate) fn assistant_message(n: usize, session: &SessionId) -> Fallible<Message> {
    let body = serde_json::from_value(json!({
        "role": "assistant", "time": {"created": 1_794_728_452_664_u64, "completed": 1_794_728_453_046_u64},
        "parentID": message_id(n.saturating_sub(1))?, "modelID": "model-1", "providerID": "provider",
        "mode": "build", "agent": "build", "path": {"cwd": "/home/ada/project", "root": "/home/ada/project"},
        "cost": 0.00129, "finish": "stop",
        "tokens": {"total": 1340, "input": 1200, "output": 40, "reasoning": 0, "cache": {"read": 100, "write": 0}},
    }))?;
    Ok(Message { id: message_id(n)?, session: session.clone(), body })
}

pub(crate) fn user_message(n: usize, session: &SessionId) -> Fallible<Message> {
    let body = serde_json::from_value(json!({
        "role": "user", "time": {"created": 1_794_728_449_001_u64}, "agent": "build",
        "model": {"providerID": "provider", "modelID": "model-1"},
    }))?;
    Ok(Message { id: message_id(n)?, session: session.clone(), body })
}

pub(crate) fn text_part(n: usize, message: &Message, text: &str) -> Fallible<Part> {
    let body = json!({"type": "text", "text": text,
        "time": {"start": 1_794_728_452_868_u64, "end": 1_794_728_452_873_u64}});
    part(n, message, body)
}

pub(crate) fn part(n: usize, message: &Message, body: serde_json::Value) -> Fallible<Part> {
    Ok(Part {
        id: part_id(n)?,
        session: message.session.clone(),
        message: message.id.clone(),
        body: serde_json::from_value(body)?,
    })
}

/// A store with a project and `sessions` sessions, each with one assistant message.
pub(crate) fn create_filled_store(dir: &std::path::Path, sessions: usize) -> Fallible<Store> {
    let store = open_store(dir)?;
    let ctx = context()?;
    let first = project()?;
    store.write(&ctx, move |tx| tx.projects().put(&first)).wait()?;
    for n in 0..sessions {
        let (session, message) = (session(n)?, assistant_message(n, &session_id(n)?)?);
        store
            .write(&ctx, move |tx| {
                tx.sessions().create(&session)?;
                tx.messages().put(&message)
            })
            .wait()?;
    }
    Ok(store)
}
