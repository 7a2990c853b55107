//! The server: a thread for each connection, and a list of what was asked.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::connection::{RecordedRequest, serve_connection};
use super::reply::ServerReply;

type AnswerFn = dyn Fn(&RecordedRequest) -> ServerReply + Send + Sync;

/// A server on a port of its own. It ends when it is dropped.
pub struct ScriptedServer {
    address: SocketAddr,
    shared: Arc<SharedServer>,
}

struct SharedServer {
    answer: Box<AnswerFn>,
    requests: Mutex<Vec<RecordedRequest>>,
    open: AtomicUsize,
    is_stopped: AtomicBool,
}

impl ScriptedServer {
    /// Starts a server that answers every request by `answer`.
    pub fn start(
        answer: impl Fn(&RecordedRequest) -> ServerReply + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let address = listener.local_addr()?;
        let shared = Arc::new(SharedServer {
            answer: Box::new(answer),
            requests: Mutex::default(),
            open: AtomicUsize::new(0),
            is_stopped: AtomicBool::new(false),
        });
        let accepting = Arc::clone(&shared);
        std::thread::Builder::new()
            .name("scripted-server".to_owned())
            .spawn(move || accept(&listener, &accepting))?;
        Ok(Self { address, shared })
    }

    /// Starts a server that gives `replies` one after the other, and 404 after the last.
    pub fn start_with(replies: Vec<ServerReply>) -> io::Result<Self> {
        let replies = Mutex::new(replies.into_iter());
        Self::start(move |_| {
            let mut replies = replies.lock().unwrap_or_else(PoisonError::into_inner);
            replies.next().unwrap_or_else(|| ServerReply::json(404, "{}"))
        })
    }

    /// Returns the address, such as `http://127.0.0.1:1234`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the port.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.address.port()
    }

    /// Returns every request so far.
    #[must_use]
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.shared.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns how many connections are being served.
    #[must_use]
    pub fn open_connections(&self) -> usize {
        self.shared.open.load(Ordering::Acquire)
    }
}

impl Drop for ScriptedServer {
    fn drop(&mut self) {
        self.shared.is_stopped.store(true, Ordering::Release);
        // Wakes the thread that accepts; if it has ended, nothing is left to wake.
        drop(TcpStream::connect(self.address));
    }
}

fn accept(listener: &TcpListener, shared: &Arc<SharedServer>) {
    for stream in listener.incoming() {
        if shared.is_stopped.load(Ordering::Acquire) {
            return;
        }
        let Ok(mut stream) = stream else { continue };
        let serving = Arc::clone(shared);
        shared.open.fetch_add(1, Ordering::AcqRel);
        let serve = move || {
            let answer = |request: RecordedRequest| {
                let mut requests = serving.requests.lock().unwrap_or_else(PoisonError::into_inner);
                requests.push(request.clone());
                drop(requests);
                (serving.answer)(&request)
            };
            // A client may close its connection at any moment: that is what some tests are about.
            drop(stream.set_nodelay(true).and_then(|()| serve_connection(&mut stream, answer)));
            serving.open.fetch_sub(1, Ordering::AcqRel);
        };
        if std::thread::Builder::new().spawn(serve).is_err() {
            shared.open.fetch_sub(1, Ordering::AcqRel);
        }
    }
}
