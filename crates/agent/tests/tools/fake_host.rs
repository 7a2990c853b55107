//! A project on disk, an engine on it, a running turn, and a host for calls in it.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Map, Value, json};
use turnstone_agent::tool::{
    SubagentOutcome, SubagentTask, Tool, ToolAbort, ToolError, ToolHost, ToolReply, ToolScope,
};
use turnstone_core::call_context::{Actor, Context};
use turnstone_core::id::{PartId, SessionId};
use turnstone_core::model::{Message, Part, PermissionAsk, Question, Session};
use turnstone_core::permission::CallerRole;
use turnstone_core::time::EpochMillis;
use turnstone_core::turn::TurnOutcome;
use turnstone_engine::{
    Engine, EngineSettings, ModelStep, OperationReport, Prompt, ToolFileAccess, Turn, UndoOptions,
    UndoTarget,
};
use turnstone_store::ChangeSetRow;

pub(crate) const NOW: EpochMillis = EpochMillis(1_767_225_600_000);

pub(crate) fn ctx() -> Context {
    Context::new(Actor::new("ada").expect("actor"), NOW).with_role(CallerRole::Person)
}

/// What a host says to a request for permission.
type Decide = Box<dyn Fn(&PermissionAsk) -> Result<(), ToolError> + Send + Sync>;

/// A project with a running turn.
pub(crate) struct ToolFixture {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) engine: Engine,
    pub(crate) session: SessionId,
    pub(crate) turn: Turn,
    step: ModelStep,
    directory: PathBuf,
    calls: AtomicU32,
}

impl ToolFixture {
    pub(crate) fn new() -> Self {
        Self::in_directory("")
    }

    /// A session in a directory below the root.
    pub(crate) fn in_directory(below: &str) -> Self {
        let dir = tempfile::tempdir().expect("temp dir");
        let root = fs_err::canonicalize(dir.path()).expect("real").join("work");
        let directory = root.join(below);
        fs_err::create_dir_all(&directory).expect("made");
        let engine =
            Engine::open(EngineSettings::new(&dir.path().join("data")), NOW).expect("opens");
        let project = json!({"id": "p1", "worktree": root, "time": {"created": 1, "updated": 1}});
        let project = serde_json::from_value(project).expect("project");
        engine.store().write(&ctx(), move |tx| tx.projects().put(&project)).wait().expect("made");
        let session = json!({"id": "ses_a", "slug": "calm-otter", "projectID": "p1",
            "directory": directory, "title": "T", "version": "1",
            "time": {"created": 1, "updated": 1}});
        let session: Session = serde_json::from_value(session).expect("session");
        let id = session.id.clone();
        engine
            .store()
            .write(&ctx(), move |tx| tx.sessions().create(&session))
            .wait()
            .expect("made");
        let prompt = message(
            &id,
            "msg_1",
            json!({"role": "user", "time": {"created": 1},
            "agent": "build", "model": {"providerID": "p", "modelID": "m"}}),
        );
        let prompt = Prompt { message: prompt, parts: Vec::new() };
        let turn = engine.turns().begin(&ctx(), prompt).expect("begins");
        let answer = message(
            &id,
            "msg_2",
            json!({"role": "assistant", "time": {"created": 1},
            "parentID": "msg_1", "modelID": "m", "providerID": "p", "mode": "build",
            "path": {"cwd": "/", "root": "/"}, "cost": 0, "tokens": {"input": 0, "output": 0,
            "reasoning": 0, "cache": {"read": 0, "write": 0}}}),
        );
        let step = engine.turns().steps().begin(&ctx(), &turn, answer).expect("begins");
        Self { dir, engine, session: id, turn, step, directory, calls: AtomicU32::new(0) }
    }

    pub(crate) fn root(&self) -> PathBuf {
        fs_err::canonicalize(self.dir.path()).expect("real").join("work")
    }

    pub(crate) fn put(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.root().join(name);
        fs_err::create_dir_all(path.parent().expect("a parent")).expect("made");
        fs_err::write(path, content).expect("written");
    }

    pub(crate) fn text(&self, name: &str) -> Option<String> {
        fs_err::read_to_string(self.root().join(name)).ok()
    }

    /// The host of a call of a tool, which has begun to run.
    pub(crate) fn host(&self, tool: &str) -> FakeHost<'_> {
        let number = self.calls.fetch_add(1, Ordering::SeqCst);
        let id: PartId = format!("prt_{number:05}").parse().expect("an id");
        let body = json!({"type": "tool", "callID": format!("call_{number}"), "tool": tool,
            "state": {"status": "running", "input": {}, "time": {"start": 1}}});
        let part = Part {
            id: id.clone(),
            session: self.session.clone(),
            message: self.step.message.clone(),
            body: serde_json::from_value(body).expect("a part"),
        };
        let steps = self.engine.turns().steps();
        drop(
            steps.begin_tool(&ctx(), &self.turn, &part, &ToolFileAccess::Nothing).expect("begins"),
        );
        let scope = ToolScope {
            session: self.session.clone(),
            message: self.step.message.clone(),
            agent: "build".to_owned(),
            model: "p/m".to_owned(),
            directory: self.directory.clone(),
            worktree: self.root(),
            data_directory: self.dir.path().join("data"),
        };
        FakeHost {
            fixture: self,
            scope,
            part: id,
            abort: Arc::default(),
            decide: Box::new(|_| Ok(())),
            answers: Vec::new(),
            asks: Mutex::default(),
            displayed: Mutex::default(),
        }
    }

    /// Runs a call that may do everything.
    pub(crate) fn run(&self, tool: &dyn Tool, input: &Value) -> Result<ToolReply, ToolError> {
        tool.run(&self.host(&tool.schema().name), input)
    }

    /// Ends the turn and undoes it.
    pub(crate) fn undo(&self) -> OperationReport {
        self.engine.turns().end(&ctx(), &self.turn, TurnOutcome::Completed, None).expect("ends");
        let history = self.engine.history();
        let options = UndoOptions::default();
        let plan =
            history.plan_undo(&ctx(), &self.session, &UndoTarget::Last, &options).expect("a plan");
        history.apply(&ctx(), &plan).expect("applied")
    }

    /// The change sets of the turn.
    pub(crate) fn change_sets(&self) -> Vec<ChangeSetRow> {
        let read =
            |r: &turnstone_store::ReadTx<'_>| r.change_sets().of_turn(&self.session, &self.turn.id);
        self.engine.store().read(&ctx(), read).expect("read")
    }

    /// Every file below the root with its content, and links with their targets.
    pub(crate) fn files(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let mut found = Vec::new();
        list_files(&self.root(), &mut found);
        found.sort();
        found
    }
}

fn list_files(folder: &Path, found: &mut Vec<(PathBuf, Vec<u8>)>) {
    use std::os::unix::ffi::OsStrExt;
    for entry in fs_err::read_dir(folder).expect("listed") {
        let path = entry.expect("an entry").path();
        let kind = fs_err::symlink_metadata(&path).expect("there").file_type();
        if kind.is_symlink() {
            let target = fs_err::read_link(&path).expect("a link");
            found.push((path, target.as_os_str().as_bytes().to_vec()));
        } else if kind.is_dir() {
            list_files(&path, found);
        } else if kind.is_file() {
            let bytes = fs_err::read(&path).expect("read");
            found.push((path, bytes));
        }
    }
}

fn message(session: &SessionId, id: &str, body: Value) -> Message {
    Message {
        id: id.parse().expect("an id"),
        session: session.clone(),
        body: serde_json::from_value(body).expect("a body"),
    }
}

/// A host that records what a call asks and shows.
pub(crate) struct FakeHost<'f> {
    fixture: &'f ToolFixture,
    scope: ToolScope,
    part: PartId,
    abort: Arc<ToolAbort>,
    decide: Decide,
    answers: Vec<Vec<String>>,
    asks: Mutex<Vec<PermissionAsk>>,
    displayed: Mutex<Vec<Map<String, Value>>>,
}

impl FakeHost<'_> {
    /// Answers requests for permission.
    pub(crate) fn deciding(
        mut self,
        decide: impl Fn(&PermissionAsk) -> Result<(), ToolError> + Send + Sync + 'static,
    ) -> Self {
        self.decide = Box::new(decide);
        self
    }

    /// Answers questions.
    pub(crate) fn answering(mut self, answers: &[&[&str]]) -> Self {
        let words = |all: &&[&str]| all.iter().map(|one| (*one).to_owned()).collect();
        self.answers = answers.iter().map(words).collect();
        self
    }

    pub(crate) fn asks(&self) -> Vec<PermissionAsk> {
        self.asks.lock().expect("not poisoned").clone()
    }

    /// What clients were shown while the call ran.
    pub(crate) fn displayed(&self) -> Vec<Value> {
        self.displayed
            .lock()
            .expect("not poisoned")
            .iter()
            .map(|metadata| json!(metadata))
            .collect()
    }

    /// Permission and patterns of every request, as `edit: a.txt, b.txt`.
    pub(crate) fn asked(&self) -> Vec<String> {
        let words =
            |ask: &PermissionAsk| format!("{}: {}", ask.permission, ask.patterns.join(", "));
        self.asks().iter().map(words).collect()
    }
}

impl ToolHost for FakeHost<'_> {
    fn engine(&self) -> &Engine {
        &self.fixture.engine
    }

    fn context(&self) -> Context {
        ctx()
    }

    fn turn(&self) -> &Turn {
        &self.fixture.turn
    }

    fn scope(&self) -> &ToolScope {
        &self.scope
    }

    fn part(&self) -> &PartId {
        &self.part
    }

    fn call(&self) -> &str {
        "call"
    }

    fn ask(&self, ask: PermissionAsk) -> Result<(), ToolError> {
        self.asks.lock().expect("not poisoned").push(ask.clone());
        (self.decide)(&ask)
    }

    fn ask_questions(&self, _questions: Vec<Question>) -> Result<Vec<Vec<String>>, ToolError> {
        match self.answers.is_empty() {
            true => Err(ToolError::Rejected("The user dismissed this question".to_owned())),
            false => Ok(self.answers.clone()),
        }
    }

    fn show(&self, _title: Option<String>, metadata: Map<String, Value>) {
        self.displayed.lock().expect("not poisoned").push(metadata);
    }

    fn abort(&self) -> &Arc<ToolAbort> {
        &self.abort
    }

    fn run_subagent(&self, task: SubagentTask) -> Result<SubagentOutcome, ToolError> {
        let text = format!("{} did: {}", task.agent, task.prompt);
        let session = task.session.as_deref().unwrap_or("ses_child");
        let session = session.parse().map_err(|_| ToolError::failed("no such session"))?;
        Ok(SubagentOutcome { session, text, model: "p/m".to_owned() })
    }
}

/// The words of a call that failed.
pub(crate) fn failure(result: Result<ToolReply, ToolError>) -> String {
    match result {
        Err(ToolError::Failed { message, .. }) => message,
        other => panic!("not a failure: {other:?}"),
    }
}
