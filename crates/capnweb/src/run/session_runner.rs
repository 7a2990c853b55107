//! A session together with the calls it started.

use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Context;

use super::call_tasks::CallTasks;
use crate::error::{CallFailure, RpcError};
use crate::session::{CallReply, RpcSession, RpcTarget, SessionEvent, SessionOptions, Stub};

/// A failure of which the peer got only the id.
#[derive(Debug)]
pub struct Incident {
    /// What the peer got.
    pub id: String,
    /// What happened.
    pub error: Box<dyn Error + Send + Sync>,
}

/// Runs one session inside the task that polls it.
pub struct SessionRunner {
    session: RpcSession,
    tasks: CallTasks,
    incidents: Vec<Incident>,
}

impl SessionRunner {
    /// Starts a session that offers `main` to the peer.
    pub fn new(main: Option<Arc<dyn RpcTarget>>, options: SessionOptions) -> Self {
        Self {
            session: RpcSession::new(main, options),
            tasks: CallTasks::default(),
            incidents: Vec::new(),
        }
    }

    /// Returns the main object of the peer.
    pub fn main(&mut self) -> Stub {
        self.session.main()
    }

    /// Returns the session.
    pub fn session(&mut self) -> &mut RpcSession {
        &mut self.session
    }

    /// Takes a message from the peer.
    pub fn receive(&mut self, text: &str) {
        self.session.receive(text);
        self.start_calls();
    }

    /// Does everything that can be done now; the task is woken when there is more.
    pub fn poll(&mut self, context: &Context<'_>) {
        loop {
            self.session.advance();
            self.start_calls();
            let done = self.tasks.poll(context.waker());
            if done.is_empty() {
                break;
            }
            for (call, result) in done {
                self.session.finish_call(call, result);
            }
        }
        self.session.register_waker(context.waker());
    }

    /// Returns the next message for the peer.
    pub fn poll_text(&mut self) -> Option<String> {
        self.session.poll_text()
    }

    /// Tells why the session is over, if it is.
    pub fn close_reason(&self) -> Option<&RpcError> {
        self.session.close_reason()
    }

    /// Tells whether calls are under way.
    pub fn has_running_calls(&self) -> bool {
        !self.tasks.is_empty()
    }

    /// Returns the failures whose text did not leave.
    pub fn take_incidents(&mut self) -> Vec<Incident> {
        std::mem::take(&mut self.incidents)
    }

    /// Starts calls in the order in which the peer made them.
    fn start_calls(&mut self) {
        while let Some(event) = self.session.poll_event() {
            match event {
                SessionEvent::Call(call) => {
                    let id = call.id;
                    let started = catch_unwind(AssertUnwindSafe(|| call.start().1));
                    let result = match started {
                        Ok(CallReply::Ready(result)) => Some(result),
                        Ok(CallReply::Pending(future)) => self.tasks.start(id, future),
                        Err(_) => Some(Err(CallFailure::internal("a method panicked"))),
                    };
                    if let Some(result) = result {
                        self.session.finish_call(id, result);
                    }
                }
                SessionEvent::Incident { id, error } => self.incidents.push(Incident { id, error }),
                SessionEvent::Closed(_) => self.tasks.clear(),
            }
        }
    }
}
