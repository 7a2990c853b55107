//! A server without a socket, spoken to in raw text.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use capnweb::run::SessionRunner;
use capnweb::session::{RpcTarget, SessionOptions, Stub};

use crate::service;

/// One end of a session.
pub(crate) struct RawPeer {
    pub(crate) runner: SessionRunner,
}

impl RawPeer {
    /// A server that offers the service.
    pub(crate) fn server(options: SessionOptions) -> Self {
        let main: Arc<dyn RpcTarget> = Arc::new(service::main_object());
        let runner = SessionRunner::new(Some(main), options);
        Self { runner }
    }

    pub(crate) fn poll(&mut self) {
        self.runner.poll(&Context::from_waker(Waker::noop()));
    }

    /// Says something and returns the answers.
    pub(crate) fn say(&mut self, lines: &[&str]) -> Vec<String> {
        for line in lines {
            self.runner.receive(line);
            self.poll();
        }
        self.take_output()
    }

    /// Returns what was said since.
    pub(crate) fn take_output(&mut self) -> Vec<String> {
        self.poll();
        std::iter::from_fn(|| self.runner.poll_text()).collect()
    }
}

/// A client and a server, and the texts between them.
pub(crate) struct SessionPair {
    pub(crate) client: RawPeer,
    pub(crate) server: RawPeer,
    pub(crate) log: Vec<String>,
}

impl SessionPair {
    pub(crate) fn new(options: SessionOptions) -> (Self, Stub) {
        let mut client = RawPeer { runner: SessionRunner::new(None, options.clone()) };
        let main = client.runner.main();
        let server = RawPeer::server(options);
        let log = Vec::new();
        let pair = Self { client, server, log };
        (pair, main)
    }

    /// Carries texts until both are silent; tells whether anything was said.
    pub(crate) fn exchange(&mut self) -> bool {
        let mut any = false;
        loop {
            let mut texts = self.client.take_output();
            let said = texts.len();
            texts.iter().for_each(|text| self.server.runner.receive(text));
            let answers = self.server.take_output();
            answers.iter().for_each(|text| self.client.runner.receive(text));
            texts.extend(answers);
            self.client.poll();
            any |= !texts.is_empty();
            self.log.append(&mut texts);
            if said == 0 && self.client.is_quiet() {
                return any;
            }
        }
    }

    /// Runs until the future is done.
    pub(crate) fn wait<F: IntoFuture>(&mut self, future: F) -> F::Output {
        let mut future = pin!(future.into_future());
        for _ in 0..10_000 {
            let mut context = Context::from_waker(Waker::noop());
            if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
                return output;
            }
            self.exchange();
        }
        panic!("nothing happens any more; said so far: {:#?}", self.log);
    }
}

impl RawPeer {
    fn is_quiet(&mut self) -> bool {
        // What the client says next is heard in the next round.
        self.poll();
        self.runner.session().is_outgoing_empty()
    }
}
