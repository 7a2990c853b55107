//! In whose name a command runs.

use turnstone_core::id::MessageId;
use turnstone_core::model::{ExtraFields, ModelRef, Session};

/// Provider and model of a command that runs in its own name.
const EXEC_MODEL: (&str, &str) = ("turnstone", "exec");

/// A command a person runs in a conversation with a model.
#[derive(Clone, Debug, PartialEq)]
pub struct ShellCommandOrigin {
    /// The id of the message that asks for it; nothing: a new one.
    pub message: Option<MessageId>,
    /// The agent of the conversation.
    pub agent: String,
    /// Its model.
    pub model: ModelRef,
    /// The root of the worktree, as clients see it.
    pub root: String,
}

/// In whose name a command runs.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum CommandOrigin {
    /// Its own.
    Exec,
    /// That of a person in a conversation.
    Shell(Box<ShellCommandOrigin>),
}

impl CommandOrigin {
    /// The id of the prompt, if the client chose one.
    pub(super) fn message(&self) -> Option<&MessageId> {
        match self {
            Self::Exec => None,
            Self::Shell(shell) => shell.message.as_ref(),
        }
    }

    /// True if a prompt with this model was written by a command that ran in its own name.
    pub(crate) fn is_exec_model(model: &ModelRef) -> bool {
        (model.provider.as_str(), model.model.as_str()) == EXEC_MODEL
    }

    pub(super) fn agent(&self) -> &str {
        match self {
            Self::Exec => "exec",
            Self::Shell(shell) => &shell.agent,
        }
    }

    pub(super) fn model(&self) -> ModelRef {
        match self {
            Self::Exec => ModelRef {
                provider: EXEC_MODEL.0.to_owned(),
                model: EXEC_MODEL.1.to_owned(),
                variant: None,
                extra: ExtraFields::new(),
            },
            Self::Shell(shell) => shell.model.clone(),
        }
    }

    pub(super) fn root<'a>(&'a self, session: &'a Session) -> &'a str {
        match self {
            Self::Exec => &session.directory,
            Self::Shell(shell) => &shell.root,
        }
    }
}
