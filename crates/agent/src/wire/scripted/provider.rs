//! Plays the answers of a script.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::script::{ChosenTurn, Script, ScriptedStep, ScriptedText, ScriptedTurn, turn_metadata};
use super::script_file::ScriptError;
use crate::model::{
    FinishReason, ModelCall, ModelError, ModelErrorKind, ModelEvent, ModelEventSink, ModelRequest,
    Provider,
};
use crate::wire::answer_delivery::AnswerDelivery;

/// How often a script looks for a file that it waits for.
const FILE_POLL: Duration = Duration::from_millis(5);

/// A model whose answers are written down in advance.
pub struct ScriptedProvider {
    script: Arc<Script>,
    /// How often each error of the script was given, so that a retry can succeed.
    failures: Arc<FailureCounts>,
}

/// Errors that were given, counted by session, answer and place in the answer.
type FailureCounts = Mutex<HashMap<(String, u64, usize), u64>>;

impl ScriptedProvider {
    /// Reads a script.
    pub fn from_json(text: &str) -> Result<Self, ScriptError> {
        let script = Arc::new(Script::from_json(text)?);
        Ok(Self { script, failures: Arc::default() })
    }
}

impl Provider for ScriptedProvider {
    fn start(&self, request: ModelRequest, sink: ModelEventSink) -> ModelCall {
        let delivery = AnswerDelivery::new(sink);
        let (script, failures) = (Arc::clone(&self.script), Arc::clone(&self.failures));
        delivery.clone().spawn(move |delivery| match script.choose(&request) {
            Ok(chosen) => {
                let number = chosen.number;
                ScriptedAnswer { delivery, failures: &failures, session: &request.session, number }
                    .play(chosen);
            }
            Err(turns) => {
                let message = format!("the script has ended: it has {turns} turns");
                delivery.fail(ModelError::new(ModelErrorKind::Rejected, message));
            }
        });
        delivery.into_call(|| {})
    }
}

/// One answer on its way.
struct ScriptedAnswer<'a> {
    delivery: &'a AnswerDelivery,
    failures: &'a FailureCounts,
    session: &'a str,
    number: u64,
}

impl ScriptedAnswer<'_> {
    fn play(&self, chosen: ChosenTurn<'_>) {
        let ScriptedTurn { steps, finish, usage } = chosen.turn;
        for (place, step) in steps.iter().enumerate() {
            if !self.play_step(place, step) {
                return;
            }
        }
        let has_calls = steps.iter().any(|step| matches!(step, ScriptedStep::Call { .. }));
        let derived = if has_calls { FinishReason::ToolCalls } else { FinishReason::Stop };
        let reason = finish.unwrap_or(derived);
        self.delivery.send(ModelEvent::Finished { reason, usage: *usage });
    }

    /// Plays one event. Returns false if the answer has ended.
    fn play_step(&self, place: usize, step: &ScriptedStep) -> bool {
        match step {
            ScriptedStep::Text(text) => self.play_text(place, text),
            ScriptedStep::Reasoning(text) => self.play_reasoning(place, text),
            ScriptedStep::Call { call, tool, arguments } => {
                let made_up = || format!("call_{}_{}", self.number, place + 1);
                self.play_call(call.clone().unwrap_or_else(made_up), tool, arguments)
            }
            ScriptedStep::Error { error, times } => {
                let must_fail = self.count_failure(place) < *times;
                if must_fail {
                    self.delivery.fail(error.clone());
                }
                !must_fail
            }
            ScriptedStep::Pause(time) => self.delivery.wait(*time),
            ScriptedStep::WaitForFile(path) => self.wait_for_file(path),
        }
    }

    fn play_text(&self, place: usize, text: &ScriptedText) -> bool {
        let id = || format!("text-{}", place + 1);
        let metadata = || Some(turn_metadata(self.number));
        self.delivery.send(ModelEvent::TextStarted { id: id(), metadata: metadata() })
            && self.play_deltas(text, |text| ModelEvent::TextDelta { id: id(), text })
            && self.delivery.send(ModelEvent::TextEnded { id: id(), metadata: metadata() })
    }

    fn play_reasoning(&self, place: usize, text: &ScriptedText) -> bool {
        let id = || format!("reasoning-{}", place + 1);
        let metadata = || Some(turn_metadata(self.number));
        self.delivery.send(ModelEvent::ReasoningStarted { id: id(), metadata: metadata() })
            && self.play_deltas(text, |text| ModelEvent::ReasoningDelta { id: id(), text })
            && self.delivery.send(ModelEvent::ReasoningEnded { id: id(), metadata: metadata() })
    }

    fn play_call(&self, call: String, tool: &str, arguments: &ScriptedText) -> bool {
        let tool = tool.to_owned();
        let started = ModelEvent::ToolInputStarted { call: call.clone(), tool: tool.clone() };
        let delta = |text| ModelEvent::ToolInputDelta { call: call.clone(), text };
        if !(self.delivery.send(started) && self.play_deltas(arguments, delta)) {
            return false;
        }
        let arguments = arguments.text.clone();
        let metadata = Some(turn_metadata(self.number));
        self.delivery.send(ModelEvent::ToolCalled { call, tool, arguments, metadata })
    }

    fn play_deltas(&self, text: &ScriptedText, event: impl Fn(String) -> ModelEvent) -> bool {
        let mut rest = text.text.as_str();
        while !rest.is_empty() {
            let cut = text.delta_chars.and_then(|count| rest.char_indices().nth(count));
            let (delta, others) = rest.split_at(cut.map_or(rest.len(), |(at, _)| at));
            rest = others;
            if !self.delivery.send(event(delta.to_owned())) {
                return false;
            }
            if !(text.delta_pause.is_zero() || self.delivery.wait(text.delta_pause)) {
                return false;
            }
        }
        true
    }

    /// Counts an error that is about to be given. Returns how often it was given before.
    fn count_failure(&self, place: usize) -> u64 {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let count = failures.entry((self.session.to_owned(), self.number, place)).or_default();
        let before = *count;
        *count += 1;
        before
    }

    fn wait_for_file(&self, path: &Path) -> bool {
        while !path.exists() {
            if !self.delivery.wait(FILE_POLL) {
                return false;
            }
        }
        !self.delivery.is_cancelled()
    }
}
