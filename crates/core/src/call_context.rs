//! Who calls, and under which conditions: the argument that every call of the store and the engine
//! takes (R43).

use crate::id::SessionId;
use crate::permission::CallerRole;
use crate::time::{EpochMillis, SessionSeq};

/// Who acts: a person, a client or a program, as a short printable name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Actor(String);

/// Why a text is not an actor's name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an actor's name has 1 to 128 printable characters, not {0:?}")]
pub struct ActorError(String);

impl Actor {
    /// Accepts 1 to 128 characters without control characters.
    ///
    /// # Errors
    ///
    /// Any other text.
    pub fn new(name: impl Into<String>) -> Result<Self, ActorError> {
        let name = name.into();
        let fits = (1..=128).contains(&name.chars().count()) && !name.chars().any(char::is_control);
        if fits { Ok(Self(name)) } else { Err(ActorError(name.chars().take(40).collect())) }
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name under which an import writes: what it brings belongs to no client.
    pub const IMPORT: &'static str = "import";
    /// Names that no client may take.
    pub const RESERVED: [&'static str; 2] = ["turnstone", Self::IMPORT];

    /// The actor of imports.
    #[must_use]
    pub fn import() -> Self {
        Self(Self::IMPORT.to_owned())
    }

    /// The actor of the store's own maintenance.
    #[must_use]
    pub fn system() -> Self {
        Self("turnstone".to_owned())
    }
}

/// Who asks, when, and what must hold for the call to go through.
#[derive(Clone, Debug)]
pub struct Context {
    /// Who acts.
    pub actor: Actor,
    /// In which role they act: what they may do unasked, and whether they may answer for the user.
    pub role: CallerRole,
    /// The program they use.
    pub client: Option<String>,
    /// Their name for this request.
    pub request: Option<String>,
    /// A digest of what they ask for; a person's answer counts for this and for nothing else.
    pub request_digest: Option<String>,
    /// A repeated call with the same key gets the first result.
    pub idempotency_key: Option<String>,
    /// The call goes through only while the session stands at this sequence number.
    pub expected_seq: Option<SessionSeq>,
    /// The lease under which turn-owned rows are written.
    pub lease: Option<Lease>,
    /// The present moment, read by the caller.
    pub now: EpochMillis,
}

impl Context {
    /// A context without conditions, of a caller who acts under a name.
    #[must_use]
    pub const fn new(actor: Actor, now: EpochMillis) -> Self {
        Self {
            actor,
            role: CallerRole::Named,
            client: None,
            request: None,
            request_digest: None,
            idempotency_key: None,
            expected_seq: None,
            lease: None,
            now,
        }
    }

    /// The context of the store's own maintenance.
    #[must_use]
    pub fn system(now: EpochMillis) -> Self {
        Self::new(Actor::system(), now)
    }

    /// The same context in another role.
    #[must_use]
    pub const fn with_role(mut self, role: CallerRole) -> Self {
        self.role = role;
        self
    }

    /// The same context, valid only while the session stands at `seq`.
    #[must_use]
    pub const fn with_expected_seq(mut self, seq: SessionSeq) -> Self {
        self.expected_seq = Some(seq);
        self
    }

    /// The same context for the writes that follow the first one of a call: what the caller relied
    /// on held when the first was written.
    #[must_use]
    pub fn without_expected_seq(&self) -> Self {
        Self { expected_seq: None, ..self.clone() }
    }

    /// The same context for maintenance in between: neither what the caller relies on nor its key are
    /// about that.
    #[must_use]
    pub fn without_preconditions(&self) -> Self {
        Self { expected_seq: None, idempotency_key: None, ..self.clone() }
    }

    /// The same context, repeated under `key`.
    #[must_use]
    pub fn with_idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.idempotency_key = Some(key.into());
        self
    }

    /// The same context, writing as the holder of `lease`.
    #[must_use]
    pub fn with_lease(mut self, lease: &Lease) -> Self {
        self.lease = Some(lease.clone());
        self
    }

    /// The same context at another moment.
    #[must_use]
    pub const fn at_time(mut self, now: EpochMillis) -> Self {
        self.now = now;
        self
    }
}

/// The right to write a session's turn-owned rows, until somebody takes it over (R27).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The session.
    pub session: SessionId,
    /// The process that holds it.
    pub owner: OwnerId,
    /// Grows with every takeover.
    pub epoch: i64,
}

/// Names a process that may hold leases: the stem of its lock file, minted at open.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OwnerId(String);

impl OwnerId {
    /// Wraps a name that was minted at open or read back from where it was stored.
    #[must_use]
    pub const fn new(name: String) -> Self {
        Self(name)
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}
