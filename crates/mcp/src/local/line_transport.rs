//! One message a line, through the standard input and output of a program.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::service::{RoleClient, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use turnstone_process::RunningCommand;

use super::server_program::ServerProgram;
use crate::ToolServerError;
use crate::inbox::{FaultSlot, InboxSender, MAX_MESSAGE_BYTES, ServerMessage, open_inbox};
use crate::safe_text::clean_text;

/// Messages that wait for a program which does not read.
const WAITING_MESSAGES: usize = 16;
/// How much of a program's complaints is kept.
const STDERR_BYTES: usize = 4 << 10;
/// How much of them an error shows.
const SHOWN_STDERR_BYTES: usize = 500;

/// Speaks with a program. Dropping it ends the program.
pub(crate) struct LineTransport {
    outgoing: Sender<Vec<u8>>,
    incoming: Receiver<ServerMessage>,
    command: Option<RunningCommand>,
}

/// The last that a program wrote to its standard error.
#[derive(Clone, Default)]
struct StderrTail(Arc<Mutex<Vec<u8>>>);

impl LineTransport {
    /// Starts the threads that read and write.
    pub(crate) fn new(program: ServerProgram, faults: &FaultSlot) -> Result<Self, ToolServerError> {
        let ServerProgram { command, stdin, stdout, stderr } = program;
        let (inbox, incoming) = open_inbox(faults);
        let (outgoing, queue) = channel(WAITING_MESSAGES);
        let tail = StderrTail::default();
        let collected = tail.clone();
        let complaints = spawn("tool-server-stderr", move || collected.collect(stderr))?;
        let faults = faults.clone();
        spawn("tool-server-stdout", move || {
            if read_lines(stdout, &inbox) {
                // It ended by itself, so its complaints end, too; unless a child of it holds them open.
                faults.set(ToolServerError::Closed { reason: tail.describe(&complaints) });
            }
        })?;
        spawn("tool-server-stdin", move || write_lines(stdin, queue))?;
        Ok(Self { outgoing, incoming, command: Some(command) })
    }
}

impl Transport<RoleClient> for LineTransport {
    type Error = ToolServerError;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let outgoing = self.outgoing.clone();
        async move {
            let invalid =
                |error: serde_json::Error| ToolServerError::unavailable(error.to_string());
            let mut line = serde_json::to_vec(&item).map_err(invalid)?;
            line.push(b'\n');
            let closed = |_| ToolServerError::Closed { reason: "it does not read".to_owned() };
            outgoing.send(line).await.map_err(closed)
        }
    }

    async fn receive(&mut self) -> Option<ServerMessage> {
        self.incoming.recv().await
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.command = None;
        self.incoming.close();
        Ok(())
    }
}

fn spawn<T: Send + 'static>(
    name: &str,
    run: impl FnOnce() -> T + Send + 'static,
) -> Result<std::thread::JoinHandle<T>, ToolServerError> {
    let spawned = std::thread::Builder::new().name(name.to_owned()).spawn(run);
    spawned.map_err(|error| ToolServerError::unavailable(error.to_string()))
}

fn write_lines(mut stdin: File, mut queue: Receiver<Vec<u8>>) {
    while let Some(line) = queue.blocking_recv() {
        // A program that is gone is noticed by its reader.
        if stdin.write_all(&line).is_err() {
            return;
        }
    }
}

/// Reads messages to the end; true if the program ended them, false if they are no longer wanted.
fn read_lines(stdout: File, inbox: &InboxSender) -> bool {
    let mut stdout = BufReader::new(stdout);
    let mut line = Vec::new();
    loop {
        line.clear();
        let limit = MAX_MESSAGE_BYTES as u64 + 1;
        match stdout.by_ref().take(limit).read_until(b'\n', &mut line) {
            Err(_) | Ok(0) => return true,
            Ok(_) if line.len() > MAX_MESSAGE_BYTES => {
                let _closed = inbox.fail("it sent a message of more than 16 MiB");
                return false;
            }
            Ok(_) => {
                if inbox.receive(&line).is_err() {
                    return false;
                }
            }
        }
        // One long message does not keep its memory.
        if line.capacity() > 1 << 20 {
            line = Vec::new();
        }
    }
}

impl StderrTail {
    fn collect(&self, mut stderr: File) {
        let mut piece = [0; 4 << 10];
        while let Ok(count) = stderr.read(&mut piece) {
            let Some(read) = piece.get(..count).filter(|it| !it.is_empty()) else { return };
            let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            kept.extend_from_slice(read);
            let over = kept.len().saturating_sub(STDERR_BYTES);
            drop(kept.drain(..over));
        }
    }

    /// Says why a program ended, in its own last words.
    fn describe(&self, complaints: &std::thread::JoinHandle<()>) -> String {
        let mut rounds = 0;
        while !complaints.is_finished() && rounds < 20 {
            rounds += 1;
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(&kept);
        let text = text.trim_end();
        let start = text.ceil_char_boundary(text.len().saturating_sub(SHOWN_STDERR_BYTES));
        let last = clean_text(text.get(start..).unwrap_or_default(), SHOWN_STDERR_BYTES);
        match last.trim() {
            "" => "the program ended".to_owned(),
            last => format!("the program ended: {last}"),
        }
    }
}
