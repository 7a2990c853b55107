//! Which calls of an answer run, and which wait for their turn.
//!
//! Calls that write nothing, or disjoint named paths, run together. A call that may write anything runs while
//! no other call writes. Calls that write start in the order in which the model made them.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Map, Number, Value, json};
use turnstone_core::id::PartId;
use turnstone_core::model::{ExtraFields, Part, PartBody, PermissionAsk, ToolState, ToolTime};
use turnstone_engine::{EngineError, Result, ToolFileAccess, ToolRun};

use super::call_host::CallHost;
use super::turn_run::RunSignal;
use super::turn_shared::TurnShared;
use crate::tool::{Tool, ToolAbort, ToolAttachment, ToolError, ToolHost, ToolReply, ToolScope};

/// The permission to repeat a call that was made with the same arguments before.
const REPEAT_PERMISSION: &str = "doom_loop";
/// The error of a call that an abort ended.
const INTERRUPTED: &str = "interrupted";

/// A call that can run.
pub(crate) struct ReadyCall {
    pub(crate) part: Part,
    pub(crate) call: String,
    pub(crate) tool: Arc<dyn Tool>,
    pub(crate) input: Value,
    /// The model makes the same call again and again: a person is asked first.
    pub(crate) is_repeated: bool,
}

struct QueuedCall {
    ready: ReadyCall,
    /// The paths it writes; `None` if they are not known.
    writes: Option<Vec<PathBuf>>,
    is_stored: bool,
}

struct ActiveCall {
    writes: Option<Vec<PathBuf>>,
    host: Arc<CallHost>,
    run: ToolRun,
    input: Value,
    started: Number,
}

/// The calls of one answer.
pub(crate) struct CallSchedule {
    shared: Arc<TurnShared>,
    scope: ToolScope,
    signals: Sender<RunSignal>,
    queued: VecDeque<QueuedCall>,
    running: Vec<ActiveCall>,
}

impl CallSchedule {
    pub(crate) fn new(
        shared: Arc<TurnShared>,
        scope: ToolScope,
        signals: Sender<RunSignal>,
    ) -> Self {
        Self { shared, scope, signals, queued: VecDeque::new(), running: Vec::new() }
    }

    /// True if no call runs or waits.
    pub(crate) fn is_idle(&self) -> bool {
        self.queued.is_empty() && self.running.is_empty()
    }

    /// True while a call runs.
    pub(crate) fn is_running(&self) -> bool {
        !self.running.is_empty()
    }

    /// Adds a call; it starts with [`Self::start_ready`].
    pub(crate) fn add(&mut self, ready: ReadyCall) {
        let writes = ready.tool.written_paths(&self.scope, &ready.input);
        self.queued.push_back(QueuedCall { ready, writes, is_stored: false });
    }

    /// Drops the calls that have not started.
    pub(crate) fn drop_queued(&mut self) {
        self.queued.clear();
    }

    /// Asks every running call to end.
    pub(crate) fn abort(&mut self) {
        self.queued.clear();
        for call in &self.running {
            call.host.abort.request();
        }
        self.shared.answers.notify();
    }

    /// Starts every call that can run together with the running ones.
    pub(crate) fn start_ready(&mut self) -> Result<()> {
        let mut waiting = VecDeque::new();
        while let Some(call) = self.queued.pop_front() {
            let earlier = waiting.iter().any(|it: &QueuedCall| is_writer(it.writes.as_deref()));
            let waits_for_earlier = earlier && is_writer(call.writes.as_deref());
            let running = self.running.iter().map(|it| it.writes.as_deref());
            if waits_for_earlier || !can_run_with(call.writes.as_deref(), running) {
                waiting.push_back(self.store_queued(call)?);
                continue;
            }
            self.start(call)?;
        }
        self.queued = waiting;
        Ok(())
    }

    /// Stores the input of a call that has to wait, so that it is not lost if the turn waits for a person.
    fn store_queued(&self, mut call: QueuedCall) -> Result<QueuedCall> {
        if !call.is_stored && !is_running(&call.ready.part) {
            if let PartBody::Tool(body) = &mut call.ready.part.body {
                let input = call.ready.input.clone();
                body.state =
                    ToolState::Pending { input, raw: String::new(), extra: ExtraFields::new() };
            }
            let (ctx, steps) = (self.shared.context(), self.shared.engine().turns().steps());
            steps.put_part(&ctx, &self.shared.turn, call.ready.part.clone())?;
            call.is_stored = true;
        }
        Ok(call)
    }

    fn start(&mut self, QueuedCall { ready, writes, .. }: QueuedCall) -> Result<()> {
        let ReadyCall { mut part, call, tool, input, is_repeated } = ready;
        let ctx = self.shared.context();
        let started = Number::from(ctx.now.0);
        if let PartBody::Tool(body) = &mut part.body {
            body.state = running_state(&input, &started, &body.state);
        }
        let steps = self.shared.engine().turns().steps();
        let run = steps.begin_tool(&ctx, &self.shared.turn, &part, &ToolFileAccess::Nothing)?;
        self.shared.gate.begin_call(&ctx)?;
        let abort = Arc::new(ToolAbort::default());
        let answers = self.shared.answers.clone();
        abort.on_request(move || answers.notify());
        let host = Arc::new(CallHost {
            shared: self.shared.clone(),
            scope: self.scope.clone(),
            call,
            abort,
            id: part.id.clone(),
            part: Mutex::new(part),
        });
        let thread = CallThread {
            host: host.clone(),
            tool,
            input: input.clone(),
            writes: writes.clone().unwrap_or_default(),
            is_repeated,
        };
        let (signals, id) = (self.signals.clone(), host.id.clone());
        let spawned = std::thread::Builder::new().name("tool".to_owned()).spawn(move || {
            let ended = thread.run();
            // The receiver is gone only if the turn is over.
            let _sent = signals.send(RunSignal::CallEnded(id, Box::new(ended)));
        });
        self.running.push(ActiveCall { writes, host, run, input, started });
        spawned.map(drop).map_err(EngineError::Io)
    }

    /// Stores the end of a call; returns what became of it.
    pub(crate) fn finish(
        &mut self,
        part: &PartId,
        ended: Result<ToolReply, ToolError>,
    ) -> Result<Option<CallOutcome>> {
        let Some(at) = self.running.iter().position(|call| call.host.id == *part) else {
            return Ok(None);
        };
        let ActiveCall { host, run, input, started, .. } = self.running.swap_remove(at);
        let ctx = self.shared.context();
        let time = ToolTime {
            start: started,
            end: Some(Number::from(ctx.now.0)),
            compacted: None,
            extra: ExtraFields::new(),
        };
        let outcome = CallOutcome::of(&ended);
        let state = match ended {
            Ok(reply) => completed_state(&host, reply, input, time),
            Err(error) => error_state(&host, error, input, time),
        };
        let steps = self.shared.engine().turns().steps();
        steps.end_tool(&ctx, &self.shared.turn, run, state)?;
        self.shared.gate.end_call(&ctx)?;
        Ok(Some(outcome))
    }
}

/// What a call means for its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallOutcome {
    /// The model reads the result and goes on.
    Continue,
    /// A person refused: the turn stops.
    Refused,
    /// The turn was aborted.
    Aborted,
}

impl CallOutcome {
    const fn of(ended: &Result<ToolReply, ToolError>) -> Self {
        match ended {
            Ok(_)
            | Err(ToolError::Failed { .. } | ToolError::Denied(_) | ToolError::Corrected(_)) => {
                Self::Continue
            }
            Err(ToolError::Rejected(_)) => Self::Refused,
            Err(ToolError::Aborted) => Self::Aborted,
        }
    }
}

/// What the thread of a call does.
struct CallThread {
    host: Arc<CallHost>,
    tool: Arc<dyn Tool>,
    input: Value,
    writes: Vec<PathBuf>,
    is_repeated: bool,
}

impl CallThread {
    fn run(&self) -> Result<ToolReply, ToolError> {
        // A defect of one tool must not take the turn with it.
        catch_unwind(AssertUnwindSafe(|| self.run_checked()))
            .unwrap_or_else(|_| Err(ToolError::failed("the tool failed with an internal error")))
    }

    fn run_checked(&self) -> Result<ToolReply, ToolError> {
        let name = self.tool.schema().name;
        let (ctx, session) = (self.host.context(), &self.host.scope.session);
        let permissions = self.host.engine().permissions();
        match permissions.check_tool(&ctx, session, (&name, &self.writes)) {
            Ok(()) => {}
            Err(error @ EngineError::ToolDenied { .. }) => {
                return Err(ToolError::Denied(format!(
                    "The user has specified a rule which prevents this tool call: {error}"
                )));
            }
            Err(error) => return Err(super::call_host::engine_failure(error)),
        }
        if self.is_repeated {
            self.host.ask(repeat_ask(&name, &self.input))?;
        }
        self.tool.run(&*self.host, &self.input)
    }
}

/// The question whether a call may be repeated.
fn repeat_ask(tool: &str, input: &Value) -> PermissionAsk {
    let mut metadata = ExtraFields::new();
    metadata.insert("tool".to_owned(), json!(tool));
    metadata.insert("input".to_owned(), input.clone());
    PermissionAsk {
        permission: REPEAT_PERMISSION.to_owned(),
        patterns: vec![tool.to_owned()],
        metadata,
        always: vec![tool.to_owned()],
        tool: None,
        extra: ExtraFields::new(),
    }
}

/// True for a call that writes something, or may.
fn is_writer(writes: Option<&[PathBuf]>) -> bool {
    writes.is_none_or(|paths| !paths.is_empty())
}

/// True if a call can run together with the others, whose paths are `running`.
fn can_run_with<'p>(
    writes: Option<&[PathBuf]>,
    mut running: impl Iterator<Item = Option<&'p [PathBuf]>>,
) -> bool {
    match writes {
        Some([]) => true,
        None => !running.any(is_writer),
        Some(paths) => running.all(|other| {
            other.is_some_and(|other| {
                !other.iter().any(|one| {
                    paths.iter().any(|path| path.starts_with(one) || one.starts_with(path))
                })
            })
        }),
    }
}

/// True for a call that an earlier process has started: its input is stored.
fn is_running(part: &Part) -> bool {
    matches!(&part.body, PartBody::Tool(tool) if matches!(tool.state, ToolState::Running { .. }))
}

/// A call that starts. One that an earlier process has started keeps what it showed: it names the session of its
/// subagent, which goes on.
fn running_state(input: &Value, started: &Number, before: &ToolState) -> ToolState {
    let (title, metadata) = match before {
        ToolState::Running { title, metadata, .. } => (title.clone(), metadata.clone()),
        ToolState::Pending { .. } | ToolState::Completed { .. } | ToolState::Error { .. } => {
            (None, None)
        }
    };
    ToolState::Running {
        input: input.clone(),
        title,
        metadata,
        time: ToolTime {
            start: started.clone(),
            end: None,
            compacted: None,
            extra: ExtraFields::new(),
        },
        extra: ExtraFields::new(),
    }
}

fn completed_state(host: &CallHost, reply: ToolReply, input: Value, time: ToolTime) -> ToolState {
    let attachments: Vec<Value> =
        reply.attachments.into_iter().filter_map(|file| attachment(host, file)).collect();
    ToolState::Completed {
        input,
        output: reply.output,
        title: reply.title,
        metadata: Value::Object(reply.metadata),
        time,
        attachments: (!attachments.is_empty()).then_some(attachments),
        extra: ExtraFields::new(),
    }
}

/// A file that a tool returned, as a part of its own; without an id it is left out.
fn attachment(host: &CallHost, file: ToolAttachment) -> Option<Value> {
    let id = host.engine().turns().new_part_id(&host.context()).ok()?;
    let mut part = json!({
        "id": id, "sessionID": host.scope.session, "messageID": host.scope.message,
        "type": "file", "mime": file.mime, "url": file.url,
    });
    if let Some(name) = file.filename {
        part["filename"] = json!(name);
    }
    Some(part)
}

/// A call that failed keeps what it showed while it ran.
fn error_state(host: &CallHost, error: ToolError, input: Value, time: ToolTime) -> ToolState {
    let part = host.part.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let mut metadata = Map::new();
    if let PartBody::Tool(tool) = part.body
        && let ToolState::Running { metadata: Some(Value::Object(shown)), .. } = tool.state
    {
        metadata = shown;
    }
    let text = error.to_string();
    match error {
        ToolError::Failed { metadata: more, .. } => metadata.extend(more),
        ToolError::Aborted => {
            metadata.insert(INTERRUPTED.to_owned(), Value::Bool(true));
        }
        ToolError::Denied(_) | ToolError::Rejected(_) | ToolError::Corrected(_) => {}
    }
    let metadata = (!metadata.is_empty()).then_some(Value::Object(metadata));
    ToolState::Error { input, error: text, metadata, time, extra: ExtraFields::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_write_the_same_path_or_anything_do_not_run_together() {
        let (a, b, below) = (["/p/a".into()], ["/p/b".into()], ["/p/a/x".into()]);
        let together = |one: Option<&[PathBuf]>, other: Option<&[PathBuf]>| {
            can_run_with(one, std::iter::once(other))
        };
        assert!(together(Some(&a), Some(&b)), "disjoint paths");
        assert!(!together(Some(&a), Some(&a)), "the same path");
        assert!(!together(Some(&below), Some(&a)), "a path below another");
        assert!(together(Some(&[]), None), "a reader and a command");
        assert!(together(None, Some(&[])), "a command and a reader");
        assert!(!together(None, None), "two commands");
        assert!(!together(Some(&a), None), "a write and a command");
    }
}
