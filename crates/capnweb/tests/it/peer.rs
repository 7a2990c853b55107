//! A server without a socket, spoken to in raw text.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use capnweb::run::Runner;
use capnweb::session::{Options, Stub, Target};

use crate::service;

/// One end of a session.
pub(crate) struct Peer {
    pub(crate) runner: Runner,
}

impl Peer {
    /// A server that offers the service.
    pub(crate) fn server(options: Options) -> Self {
        let main: Arc<dyn Target> = Arc::new(service::main_object());
        let runner = Runner::new(Some(main), options);
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
        self.heard()
    }

    /// Returns what was said since.
    pub(crate) fn heard(&mut self) -> Vec<String> {
        self.poll();
        std::iter::from_fn(|| self.runner.poll_text()).collect()
    }
}

/// A client and a server, and the texts between them.
pub(crate) struct Pair {
    pub(crate) client: Peer,
    pub(crate) server: Peer,
    pub(crate) log: Vec<String>,
}

impl Pair {
    pub(crate) fn new(options: Options) -> (Self, Stub) {
        let mut client = Peer { runner: Runner::new(None, options.clone()) };
        let main = client.runner.main();
        let server = Peer::server(options);
        let log = Vec::new();
        let pair = Self { client, server, log };
        (pair, main)
    }

    /// Carries texts until both are silent; tells whether anything was said.
    pub(crate) fn carry(&mut self) -> bool {
        let mut any = false;
        loop {
            let mut texts = self.client.heard();
            let said = texts.len();
            texts.iter().for_each(|text| self.server.runner.receive(text));
            let answers = self.server.heard();
            answers.iter().for_each(|text| self.client.runner.receive(text));
            texts.extend(answers);
            self.client.poll();
            any |= !texts.is_empty();
            self.log.append(&mut texts);
            if said == 0 && self.client.heard_nothing() {
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
            self.carry();
        }
        panic!("nothing happens any more; said so far: {:#?}", self.log);
    }
}

impl Peer {
    fn heard_nothing(&mut self) -> bool {
        // What the client says next is heard in the next round.
        self.poll();
        self.runner.session().is_silent()
    }
}
