//! A project on disk, an engine, a runner with a script, and a person who prompts and answers.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Map, Value, json};
use turnstone_agent::run::{
    AgentRunner, AgentRunnerOptions, RunAgent, RunLimits, RunModel, RunObserver, RunSettings,
    SettingsFailure,
};
use turnstone_agent::tool::Tool;
use turnstone_agent::wire::ScriptedProvider;
use turnstone_core::call_context::{Actor, Context};
use turnstone_core::context::ModelLimits;
use turnstone_core::id::{MessageId, PermissionId, SessionId};
use turnstone_core::model::{
    Message, MessageBody, MessageFailure, MessageFailureKind, ModelRef, Part, PartBody,
    PermissionReply, RequestId, ToolPart, UserRequest,
};
use turnstone_core::permission::CallerRole;
use turnstone_core::time::EpochMillis;
use turnstone_core::turn::TurnState;
use turnstone_engine::{
    Engine, EngineSettings, NewSession, Prompt, PromptDelivery, PromptRouting, PromptSubmission,
};

use crate::test_tools::test_tools;

/// How often a test looks for something that must come, and how long it waits in between.
const LOOKS: (u32, Duration) = (12_000, Duration::from_millis(10));

/// A clock that never stands still.
pub(crate) fn now() -> EpochMillis {
    static MILLIS: AtomicI64 = AtomicI64::new(1_767_225_600_000);
    EpochMillis(MILLIS.fetch_add(1, Ordering::SeqCst))
}

pub(crate) fn person() -> Context {
    Context::new(Actor::new("ada").expect("actor"), now()).with_role(CallerRole::Person)
}

/// Settings in which everything is answered by one script.
struct TestSettings {
    provider: Arc<ScriptedProvider>,
    limits: ModelLimits,
    steps: Option<u32>,
}

impl RunSettings for TestSettings {
    fn agent(&self, _: &Path, name: &str) -> Result<RunAgent, SettingsFailure> {
        match name {
            "build" | "compaction" | "title" | "helper" => Ok(RunAgent {
                name: name.to_owned(),
                steps: self.steps,
                is_subagent: name == "helper",
                ..RunAgent::default()
            }),
            other => Err(Box::new(MessageFailure::new(
                MessageFailureKind::UnknownError,
                &format!("there is no agent {other}"),
            ))),
        }
    }

    fn model(&self, _: &Path, model: &ModelRef, _: &RunAgent) -> Result<RunModel, SettingsFailure> {
        Ok(RunModel {
            provider: self.provider.clone(),
            name: model.clone(),
            wire_name: model.model.clone(),
            limits: self.limits,
            options: Map::new(),
            temperature: None,
            top_p: None,
            media_in_results: true,
            without_media: false,
            calls_tools: true,
            cost: Arc::new(|usage| Some(usage.output as f64 / 1_000.0)),
        })
    }

    fn small_model(&self, _: &Path, _: &ModelRef) -> Option<RunModel> {
        None
    }

    fn limits(&self, _: &Path) -> Result<RunLimits, SettingsFailure> {
        Ok(RunLimits::default())
    }

    fn instructions(&self, _: &Path, _: &Path) -> Vec<(String, String)> {
        Vec::new()
    }

    fn tools(&self, _: &Path) -> Vec<Arc<dyn Tool>> {
        test_tools()
    }
}

/// Says whether another program takes prompts, and remembers whose turns have ended.
#[derive(Default)]
pub(crate) struct TestObserver {
    pub(crate) is_taken: AtomicBool,
    ended: Mutex<Vec<SessionId>>,
}

impl TestObserver {
    pub(crate) fn ended(&self) -> Vec<SessionId> {
        self.ended.lock().expect("unlocked").clone()
    }
}

impl RunObserver for TestObserver {
    fn is_taken(&self, _: &Path) -> bool {
        self.is_taken.load(Ordering::SeqCst)
    }

    fn turn_ended(&self, session: &SessionId) {
        self.ended.lock().expect("unlocked").push(session.clone());
    }
}

/// A project, an engine and a runner.
pub(crate) struct RunFixture {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) engine: Arc<Engine>,
    pub(crate) runner: AgentRunner,
    pub(crate) observer: Arc<TestObserver>,
}

/// How a fixture differs from the usual one.
#[derive(Clone, Copy, Default)]
pub(crate) struct FixtureOptions {
    pub(crate) limits: ModelLimits,
    pub(crate) steps: Option<u32>,
}

impl RunFixture {
    /// A fixture whose model answers as `script` says.
    pub(crate) fn new(script: &Value) -> Self {
        Self::with(script, FixtureOptions::default())
    }

    pub(crate) fn with(script: &Value, options: FixtureOptions) -> Self {
        let dir = tempfile::tempdir().expect("temp dir");
        fs_err::create_dir(dir.path().join("work")).expect("made");
        let rules =
            json!({"permission": {"guarded": "ask", "doom_loop": "ask", "question": "allow"}});
        fs_err::write(dir.path().join("work/opencode.json"), rules.to_string()).expect("written");
        Self::open(dir, script, options)
    }

    fn open(dir: tempfile::TempDir, script: &Value, options: FixtureOptions) -> Self {
        let settings = EngineSettings::new(&dir.path().join("data"));
        let (engine, recovered) = Engine::open_recovered(settings, &person()).expect("opens");
        recovered.expect("recovered");
        let engine = Arc::new(engine);
        let provider = ScriptedProvider::from_json(&script.to_string()).expect("a script");
        let observer = Arc::new(TestObserver::default());
        let FixtureOptions { limits, steps } = options;
        let settings = TestSettings { provider: Arc::new(provider), limits, steps };
        let runner = AgentRunner::new(AgentRunnerOptions {
            engine: engine.clone(),
            settings: Arc::new(settings),
            observer: observer.clone(),
            data: dir.path().join("data"),
            clock: now,
        });
        Self { dir, engine, runner, observer }
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.dir.path().join("work")
    }

    pub(crate) fn session(&self) -> SessionId {
        let new = NewSession { title: Some("T".to_owned()), ..NewSession::default() };
        self.engine.projects().create_session(&person(), &self.root(), &new).expect("made").id
    }

    /// Sends a prompt and lets the runner take it.
    pub(crate) fn prompt(&self, session: &SessionId, text: &str) -> MessageId {
        self.prompt_with(session, text, &json!({}), PromptDelivery::Steer)
    }

    pub(crate) fn prompt_with(
        &self,
        session: &SessionId,
        text: &str,
        more: &Value,
        delivery: PromptDelivery,
    ) -> MessageId {
        let ctx = person();
        let turns = self.engine.turns();
        let id = turns.new_message_id(&ctx, session).expect("an id");
        let mut body = json!({"role": "user", "time": {"created": ctx.now.0}, "agent": "build",
            "model": {"providerID": "scripted", "modelID": "script"}});
        for (key, value) in more.as_object().expect("an object") {
            body[key] = value.clone();
        }
        let body: MessageBody = serde_json::from_value(body).expect("a message");
        let message = Message { id: id.clone(), session: session.clone(), body };
        let text = serde_json::from_value(json!({"type": "text", "text": text})).expect("a part");
        let part = Part {
            id: turns.new_part_id(&ctx).expect("an id"),
            session: session.clone(),
            message: id.clone(),
            body: text,
        };
        let prompt = Prompt { message, parts: vec![part] };
        let routing = PromptRouting::Inbox(delivery);
        let new = PromptSubmission { prompt, rules: Vec::new(), routing };
        turns.admit_prompt(&ctx, &new).expect("stored");
        self.runner.wake(session);
        id
    }

    /// Waits until `is_there` holds.
    pub(crate) fn wait_until(&self, what: &str, mut is_there: impl FnMut(&Self) -> bool) {
        for _ in 0..LOOKS.0 {
            if is_there(self) {
                return;
            }
            std::thread::sleep(LOOKS.1);
        }
        panic!("waited for {what}");
    }

    /// Waits until the session has nothing to do; returns how its turns ended.
    pub(crate) fn wait_for_idle(&self, session: &SessionId) -> Vec<TurnState> {
        self.wait_until("an idle session", |it| {
            let read = |r: &turnstone_store::ReadTx<'_>| {
                Ok((r.prompts().waiting(session)?, r.turns().list(session)?))
            };
            let (waiting, turns) = it.engine.store().read(&person(), read).expect("reads");
            let is_open = turns.iter().any(|turn| turn.state.is_open());
            waiting.is_empty() && !is_open && !it.runner.is_running(session)
        });
        let turns = self.engine.store().read(&person(), |r| r.turns().list(session));
        turns.expect("reads").iter().map(|turn| turn.state).collect()
    }

    /// Waits until the session asks for something; returns the newest request.
    pub(crate) fn wait_for_request(&self, session: &SessionId) -> UserRequest {
        self.wait_until("a request", |it| !it.pending(session).is_empty());
        self.pending(session).pop().expect("a request")
    }

    pub(crate) fn pending(&self, session: &SessionId) -> Vec<UserRequest> {
        self.engine.permissions().pending(&person(), Some(session)).expect("reads")
    }

    /// Waits until the turn of the session waits for a person: a crash from here on loses nothing.
    pub(crate) fn wait_until_suspended(&self, session: &SessionId) {
        self.wait_until("a waiting turn", |it| {
            let turns = it.engine.store().read(&person(), |r| r.turns().list(session));
            turns.expect("reads").iter().any(|turn| turn.state == TurnState::Waiting)
        });
    }

    pub(crate) fn reply(&self, request: &UserRequest, reply: PermissionReply, words: Option<&str>) {
        let RequestId::Permission(id) = &request.id else { panic!("no permission: {request:?}") };
        let id: &PermissionId = id;
        self.engine.permissions().reply(&person(), id, reply, words).expect("replied");
        self.runner.wake(&request.session);
    }

    pub(crate) fn messages(&self, session: &SessionId) -> Vec<(Message, Vec<Part>)> {
        let page = self.engine.store().read(&person(), |r| r.messages().list(session, None, 100));
        page.expect("reads").items.into_iter().map(|it| (it.message, it.parts)).collect()
    }

    /// The texts of the answers of a session.
    pub(crate) fn answers(&self, session: &SessionId) -> Vec<String> {
        let answers = self.messages(session).into_iter();
        let answers = answers.filter(|it| matches!(it.0.body, MessageBody::Assistant(_)));
        let text = |part: Part| {
            if let PartBody::Text(text) = part.body { Some(text.text) } else { None }
        };
        answers.flat_map(|(_, parts)| parts.into_iter().filter_map(text)).collect()
    }

    /// The tool calls of a session.
    pub(crate) fn calls(&self, session: &SessionId) -> Vec<ToolPart> {
        let call = |part: Part| {
            if let PartBody::Tool(tool) = part.body { Some(*tool) } else { None }
        };
        self.messages(session).into_iter().flat_map(|it| it.1).filter_map(call).collect()
    }

    /// The failure of the newest answer.
    pub(crate) fn failure(&self, session: &SessionId) -> Option<MessageFailure> {
        let newest = self.messages(session).pop().expect("a message");
        match newest.0.body {
            MessageBody::Assistant(said) => said.error,
            MessageBody::User(_) => None,
        }
    }
}
