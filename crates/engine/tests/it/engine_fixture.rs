//! A project on disk, an engine on it, sessions that run turns and people who edit.

use std::path::{Path, PathBuf};

use serde_json::json;
use turnstone_config::TrustedFiles;
use turnstone_core::id::{SessionId, TurnId};
use turnstone_core::model::{Message, Part, Session};
use turnstone_core::permission::CallerRole;
use turnstone_core::time::EpochMillis;
use turnstone_core::turn::TurnOutcome;
use turnstone_engine::{
    ClosedCall, Engine, EngineSettings, OperationReport, Prompt, Turn, UndoOptions, UndoPlan,
    UndoTarget,
};
use turnstone_store::{
    Actor, Context, MessageWithParts, PromptDelivery, PromptReceipt, StoreError, Tx,
};

pub(crate) const NOW: EpochMillis = EpochMillis(1_767_225_600_000);

pub(crate) fn ctx() -> Context {
    Context::new(Actor::new("ada").expect("actor"), NOW).with_role(CallerRole::Person)
}

pub(crate) struct EngineFixture {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) engine: Engine,
    prompts: std::cell::Cell<u32>,
}

impl EngineFixture {
    pub(crate) fn new() -> Self {
        Self::in_dir(tempfile::tempdir().expect("temp dir"))
    }

    fn in_dir(dir: tempfile::TempDir) -> Self {
        fs_err::create_dir(dir.path().join("work")).expect("made");
        let engine = open(dir.path());
        let case = Self { dir, engine, prompts: std::cell::Cell::new(0) };
        let project =
            json!({"id": "p1", "worktree": case.root(), "time": {"created": 1, "updated": 1}});
        let project = serde_json::from_value(project).expect("project");
        let made = case.engine.store().write(&ctx(), move |tx| tx.projects().put(&project)).wait();
        made.expect("a project");
        case
    }

    /// A project whose data directory is `data`, for example on a disk of its own.
    pub(crate) fn with_data(data: &Path) -> Self {
        let dir = tempfile::tempdir().expect("temp dir");
        std::os::unix::fs::symlink(data, dir.path().join("data")).expect("linked");
        Self::in_dir(dir)
    }

    /// Opens the data directory again, as a new process would.
    pub(crate) fn reopen(self) -> Self {
        let Self { dir, engine, prompts } = self;
        drop(engine);
        let engine = open(dir.path());
        Self { dir, engine, prompts }
    }

    /// Writes the user's own configuration.
    pub(crate) fn configure_user(&self, text: &str) {
        fs_err::write(self.dir.path().join("user.json"), text).expect("written");
    }

    /// The user's own configuration asks about every command.
    pub(crate) fn ask_about_bash(&self) {
        self.configure_user(r#"{"permission": {"bash": "ask"}}"#);
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.dir.path().join("work")
    }

    pub(crate) fn session(&self, id: &str, parent: Option<&str>) -> SessionId {
        let session = json!({"id": id, "slug": "calm-otter", "projectID": "p1",
            "directory": self.root(), "title": "T", "version": "1", "parentID": parent,
            "time": {"created": 1, "updated": 1}});
        let session: Session = serde_json::from_value(session).expect("session");
        let made = session.clone();
        self.engine
            .store()
            .write(&ctx(), move |tx| tx.sessions().create(&made))
            .wait()
            .expect("made");
        session.id
    }

    /// Puts a prompt into the inbox, as a submission to a busy session does.
    pub(crate) fn enqueue_prompt(
        &self,
        prompt: Prompt,
        delivery: PromptDelivery,
    ) -> Result<PromptReceipt, StoreError> {
        let Prompt { message, parts } = prompt;
        let admit = move |tx: &Tx<'_>| tx.prompts().admit(&message, &parts, delivery);
        self.engine.store().write(&ctx(), admit).wait()
    }

    pub(crate) fn begin(&self, session: &SessionId) -> Turn {
        let number = self.prompts.get() + 1;
        self.prompts.set(number);
        let body = json!({"role": "user", "time": {"created": number}, "agent": "build",
            "model": {"providerID": "p", "modelID": "m"}});
        let message = Message {
            id: format!("msg_{number}").parse().expect("an id"),
            session: session.clone(),
            body: serde_json::from_value(body).expect("user"),
        };
        self.engine.turns().begin(&ctx(), Prompt { message, parts: Vec::new() }).expect("begins")
    }

    pub(crate) fn end(&self, turn: &Turn) {
        self.engine.turns().end(&ctx(), turn, TurnOutcome::Completed, None).expect("ends");
    }

    /// A tool that names the file it writes; no content means it removes it.
    pub(crate) fn edit(&self, turn: &Turn, name: &str, content: Option<&str>) -> ClosedCall {
        let paths = [PathBuf::from(name)];
        let call = self.engine.tool_calls().open_named(&ctx(), turn, None, &paths).expect("opens");
        self.put(name, content);
        self.engine.tool_calls().close(&ctx(), turn, &call).expect("closes")
    }

    /// A tool that names nothing.
    pub(crate) fn shell(&self, turn: &Turn, work: impl FnOnce()) -> ClosedCall {
        let call = self.engine.tool_calls().open_window(&ctx(), turn, None).expect("opens");
        work();
        self.engine.tool_calls().close(&ctx(), turn, &call).expect("closes")
    }

    /// A turn of one edit.
    pub(crate) fn turn(&self, session: &SessionId, name: &str, content: Option<&str>) -> TurnId {
        let turn = self.begin(session);
        self.edit(&turn, name, content);
        self.end(&turn);
        turn.id
    }

    pub(crate) fn put(&self, name: &str, content: Option<&str>) {
        let path = self.root().join(name);
        match content {
            Some(content) => {
                fs_err::create_dir_all(path.parent().expect("a parent")).expect("made");
                fs_err::write(path, content).expect("written");
            }
            None => fs_err::remove_file(path).expect("removed"),
        }
    }

    /// Trusts a file of the project as it is now.
    pub(crate) fn trust(&self, name: &str) {
        let (data, path) = (self.dir.path().join("data"), self.root().join(name));
        let mut trusted = TrustedFiles::read(&data).expect("read");
        trusted.add(&path, &fs_err::read_to_string(&path).expect("readable"));
        trusted.write(&data).expect("written");
    }

    pub(crate) fn read(&self, name: &str) -> Option<String> {
        fs_err::read_to_string(self.root().join(name)).ok()
    }

    pub(crate) fn plan(&self, session: &SessionId, which: &UndoTarget) -> UndoPlan {
        let options = UndoOptions::default();
        self.engine.history().plan_undo(&ctx(), session, which, &options).expect("a plan")
    }

    pub(crate) fn undo(&self, session: &SessionId, which: &UndoTarget) -> OperationReport {
        self.engine.history().apply(&ctx(), &self.plan(session, which)).expect("applied")
    }

    pub(crate) fn redo(&self, session: &SessionId) -> OperationReport {
        let options = UndoOptions::default();
        let plan = self
            .engine
            .history()
            .plan_redo(&ctx(), session, &UndoTarget::Last, &options)
            .expect("a plan");
        self.engine.history().apply(&ctx(), &plan).expect("applied")
    }
}

fn open(dir: &Path) -> Engine {
    Engine::open(settings(dir), NOW).expect("opens")
}

/// The settings of the engines of a case, whose user may have a configuration file.
pub(crate) fn settings(dir: &Path) -> EngineSettings {
    let mut settings = EngineSettings::new(&dir.join("data"));
    settings.rules.user_files = vec![dir.join("user.json")];
    settings
}

/// A message of a person.
pub(crate) fn user(session: &SessionId, id: &str) -> Message {
    let body = json!({"role": "user", "time": {"created": 1}, "agent": "build",
        "model": {"providerID": "p", "modelID": "m"}});
    let body = serde_json::from_value(body).expect("user");
    Message { id: format!("msg_{id}").parse().expect("an id"), session: session.clone(), body }
}

/// An answer to one.
pub(crate) fn answer(session: &SessionId, id: &str, parent: &str) -> Message {
    let body = json!({"role": "assistant", "time": {"created": 1},
        "parentID": format!("msg_{parent}"), "modelID": "m", "providerID": "p", "mode": "build",
        "path": {"cwd": "/", "root": "/"}, "cost": 0,
        "tokens": {"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}}});
    let body = serde_json::from_value(body).expect("assistant");
    Message { id: format!("msg_{id}").parse().expect("an id"), session: session.clone(), body }
}

/// A part of a message.
pub(crate) fn part(message: &Message, id: &str, body: serde_json::Value) -> Part {
    Part {
        id: format!("prt_{id}").parse().expect("an id"),
        session: message.session.clone(),
        message: message.id.clone(),
        body: serde_json::from_value(body).expect("a part"),
    }
}

/// A prompt of one text.
pub(crate) fn prompt(session: &SessionId, id: &str) -> Prompt {
    let message = user(session, id);
    let parts = vec![part(&message, id, json!({"type": "text", "text": id}))];
    Prompt { message, parts }
}

/// Every message of a session with its parts.
pub(crate) fn messages(case: &EngineFixture, session: &SessionId) -> Vec<MessageWithParts> {
    let read = case.engine.store().read(&ctx(), |r| r.messages().list(session, None, 1000));
    read.expect("reads").items
}
