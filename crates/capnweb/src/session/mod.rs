//! A session: two tables, the rules of their ids, and what each message does to them.
//!
//! Without input or output: text goes in, text and [`SessionEvent`]s come out. The owner carries the text,
//! runs the calls, tells the time, and may use any runtime or none.

mod command_queue;
mod expr_evaluation;
mod incoming_message;
mod map_recording;
mod memory_account;
mod object_ref;
mod oneshot;
mod outgoing;
mod path_access;
mod promise_cell;
mod promise_settling;
mod remote_map;
mod rpc_session;
mod send_window;
mod session_event;
mod session_limits;
mod session_tables;
mod stream_flow;
mod stream_pipe;
mod stub;
mod value_delivery;
mod value_export;
mod work_queue;

#[cfg(feature = "server")]
pub(crate) use memory_account::{MemoryAccount, MemoryCharge, TABLE_ENTRY_BYTES};
pub use object_ref::{CallReply, Member, MemberKind, ReplyFuture, RpcTarget};
pub use rpc_session::RpcSession;
pub use session_event::{CallId, IncomingCall, SessionEvent};
pub use session_limits::{SessionLimits, SessionOptions};
pub use stream_pipe::{Readable, Writable, stream};
pub use stub::{Promise, PromiseFuture, Stub};
