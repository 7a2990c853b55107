//! Random histories of a store: a small world of sessions, and steps that change it.
//!
//! A step names things by small numbers, so that steps meet: the same message is written, removed
//! and written again. A step the store refuses for a good reason changes nothing and counts too.

mod apply_step;

use proptest::prelude::*;
use turnstone_core::id::TurnId;
use turnstone_core::model::PartBody;
use turnstone_core::time::EpochMillis;
use turnstone_store::{
    Actor, Context, DataLayout, Lease, LeaseTakeoverPolicy, Options, ReadTx, SessionFilter, Store,
    StoreError,
};

pub(crate) use apply_step::session_id;
use apply_step::{apply_step, part_id, project_id, session};

/// How many sessions, messages of a session and parts of a message there are.
pub(crate) const SESSIONS: u8 = 2;
const MESSAGES: u8 = 3;
const PARTS: u8 = 5;

/// One step of a history.
#[derive(Clone, Debug)]
pub(crate) enum HistoryStep {
    Project {
        n: u8,
    },
    Approve {
        n: u8,
        withdraw: bool,
    },
    Session {
        s: u8,
        n: u8,
    },
    Todos {
        s: u8,
        n: u8,
    },
    Diff {
        s: u8,
        n: u8,
    },
    Message {
        s: u8,
        m: u8,
        n: u8,
    },
    RemoveMessage {
        s: u8,
        m: u8,
    },
    Part {
        s: u8,
        m: u8,
        p: u8,
        body: PartSpec,
    },
    RemovePart {
        s: u8,
        m: u8,
        p: u8,
    },
    /// The same text is appended some times.
    Delta {
        s: u8,
        m: u8,
        p: u8,
        text: String,
        times: u8,
    },
    Begin {
        s: u8,
    },
    Move {
        s: u8,
        event: u8,
    },
    Retry {
        s: u8,
        n: u8,
    },
    End {
        s: u8,
        outcome: u8,
    },
    Ask {
        s: u8,
        n: u8,
    },
    Answer {
        n: u8,
        yes: bool,
    },
    Admit {
        s: u8,
        n: u8,
        queue: bool,
    },
    Promote {
        s: u8,
        queue: bool,
    },
    Share {
        s: u8,
        n: u8,
    },
    Unshare {
        s: u8,
    },
}

/// What a part becomes.
#[derive(Clone, Debug)]
pub(crate) enum PartSpec {
    /// A text, or the beginning of what was streamed.
    Text {
        text: String,
        open: bool,
    },
    /// The text as it is, sealed; cut back by some characters.
    Seal {
        cut: u8,
    },
    Reasoning {
        text: String,
    },
    /// A tool call; the phase is one of four, the output may be long.
    Tool {
        phase: u8,
        n: u8,
        long: u32,
    },
    StepStart {
        n: u8,
    },
    StepFinish {
        n: u8,
    },
    /// One of the other types.
    Other {
        which: u8,
        n: u8,
    },
}

fn words() -> impl Strategy<Value = String> {
    prop_oneof![8 => "[a-zäß ]{1,12}", 1 => "[a-z ]{2000,2300}", 1 => Just(String::new())]
}

/// A part and what it becomes: the first parts of a message are mostly texts, the next tools.
fn part() -> impl Strategy<Value = (u8, PartSpec)> {
    let text = (words(), any::<bool>()).prop_map(|(text, open)| PartSpec::Text { text, open });
    let long = prop_oneof![8 => Just(0), 2 => Just(3000_u32), 1 => Just(300_000)];
    let tool = (prop_oneof![1 => Just(0), 6 => Just(1), 1 => 2..4_u8], 0..3_u8, long)
        .prop_map(|(phase, n, long)| PartSpec::Tool { phase, n, long });
    prop_oneof![
        3 => (0..2_u8, text),
        3 => (0..2_u8, (0..3_u8).prop_map(|cut| PartSpec::Seal { cut })),
        1 => (0..2_u8, words().prop_map(|text| PartSpec::Reasoning { text })),
        6 => (2..4_u8, tool),
        1 => (0..PARTS, 0..4_u8).prop_map(|(p, n)| (p, PartSpec::StepStart { n })),
        2 => (3..PARTS, 0..4_u8).prop_map(|(p, n)| (p, PartSpec::StepFinish { n })),
        2 => (0..PARTS, (0..8_u8, 0..3_u8).prop_map(|(which, n)| PartSpec::Other { which, n })),
    ]
}

/// One step, any of them.
pub(crate) fn step() -> impl Strategy<Value = HistoryStep> {
    // Most happens in one message of one session, so that steps meet.
    let s = || prop_oneof![4 => Just(0), 1 => 0..SESSIONS];
    let m = || prop_oneof![4 => Just(0), 1 => 0..MESSAGES];
    let p = || 0..PARTS;
    let n = || 0..4_u8;
    prop_oneof![
        1 => n().prop_map(|n| HistoryStep::Project { n }),
        1 => (n(), any::<bool>()).prop_map(|(n, withdraw)| HistoryStep::Approve { n, withdraw }),
        2 => (s(), n()).prop_map(|(s, n)| HistoryStep::Session { s, n }),
        2 => (s(), n()).prop_map(|(s, n)| HistoryStep::Todos { s, n }),
        1 => (s(), n()).prop_map(|(s, n)| HistoryStep::Diff { s, n }),
        6 => (s(), m(), n()).prop_map(|(s, m, n)| HistoryStep::Message { s, m, n }),
        1 => (s(), 1..MESSAGES).prop_map(|(s, m)| HistoryStep::RemoveMessage { s, m }),
        20 => (s(), m(), part()).prop_map(|(s, m, (p, body))| HistoryStep::Part { s, m, p, body }),
        1 => (s(), m(), p()).prop_map(|(s, m, p)| HistoryStep::RemovePart { s, m, p }),
        12 => (s(), m(), 0..2_u8, words(), 1..5_u8)
            .prop_map(|(s, m, p, text, times)| HistoryStep::Delta { s, m, p, text, times }),
        2 => s().prop_map(|s| HistoryStep::Begin { s }),
        2 => (s(), 0..3_u8).prop_map(|(s, event)| HistoryStep::Move { s, event }),
        2 => (s(), n()).prop_map(|(s, n)| HistoryStep::Retry { s, n }),
        1 => (s(), 0..4_u8).prop_map(|(s, outcome)| HistoryStep::End { s, outcome }),
        1 => (s(), n()).prop_map(|(s, n)| HistoryStep::Ask { s, n }),
        1 => (n(), any::<bool>()).prop_map(|(n, yes)| HistoryStep::Answer { n, yes }),
        1 => (s(), n(), any::<bool>()).prop_map(|(s, n, queue)| HistoryStep::Admit { s, n, queue }),
        1 => (s(), any::<bool>()).prop_map(|(s, queue)| HistoryStep::Promote { s, queue }),
        1 => (s(), n()).prop_map(|(s, n)| HistoryStep::Share { s, n }),
        1 => s().prop_map(|s| HistoryStep::Unshare { s }),
    ]
}

/// A history of up to `most` steps. Messages come first, so that the rest finds something.
pub(crate) fn history(most: usize) -> impl Strategy<Value = Vec<HistoryStep>> {
    let message = |s| HistoryStep::Message { s, m: 0, n: 0 };
    let text = |s| {
        let body = PartSpec::Text { text: String::new(), open: true };
        HistoryStep::Part { s, m: 0, p: 0, body }
    };
    let first: Vec<HistoryStep> = (0..SESSIONS).flat_map(|s| [message(s), text(s)]).collect();
    prop::collection::vec(step(), 1..most).prop_map(move |rest| [first.clone(), rest].concat())
}

/// A store, and who works on it.
pub(crate) struct HistoryRunner {
    pub(crate) store: Store,
    leases: Vec<Lease>,
    turns: Vec<Option<TurnId>>,
    count: u32,
    /// The present moment; grows with every step.
    pub(crate) now: EpochMillis,
}

impl HistoryRunner {
    /// Opens a store in `dir` with a project and its sessions.
    pub(crate) fn new(dir: &std::path::Path) -> Self {
        let now = EpochMillis(1_000_000);
        let store = Store::open(&Options::new(DataLayout::new(dir), now)).expect("opens");
        let mut world = Self { store, leases: Vec::new(), turns: Vec::new(), count: 0, now };
        world.run(&HistoryStep::Project { n: 0 });
        for s in 0..SESSIONS {
            let session = session(s, 0);
            world
                .store
                .write(&world.ctx(), move |tx| tx.sessions().create(&session))
                .wait()
                .expect("new");
            let lease = world.store.leases().acquire(
                &world.ctx(),
                &session_id(s),
                LeaseTakeoverPolicy::IfDead,
            );
            world.leases.push(lease.expect("lease"));
            world.turns.push(None);
        }
        world
    }

    /// The context of the next call: two actors take turns.
    pub(crate) fn ctx(&self) -> Context {
        let actor = if self.count.is_multiple_of(3) { "bob" } else { "ada" };
        Context::new(Actor::new(actor).expect("actor"), self.now)
    }

    /// Takes one step; true if the store accepted it.
    pub(crate) fn run(&mut self, step: &HistoryStep) -> bool {
        self.count += 1;
        self.now = self.now.plus(1000);
        let mut ctx = self.ctx();
        if let Some(lease) = owner(step).and_then(|s| self.leases.get(usize::from(s))) {
            ctx = ctx.with_lease(lease);
        }
        let (step, count, turns) = (self.resolve_seal(step), self.count, self.turns.clone());
        // Deltas that meet in one transaction become one event, so each gets its own.
        for _ in 1..times(&step) {
            let (step, turns) = (step.clone(), turns.clone());
            drop(self.store.write(&ctx, move |tx| apply_step(tx, &step, count, &turns)).wait());
        }
        let done = self.store.write(&ctx, move |tx| apply_step(tx, &step, count, &turns)).wait();
        match done {
            Ok(Some((s, turn))) => self.turns[usize::from(s)] = turn,
            Ok(None) => {}
            Err(error) => {
                assert_expected_refusal(&error);
                return false;
            }
        }
        true
    }

    /// A text is sealed as it stands, less some characters.
    fn resolve_seal(&self, step: &HistoryStep) -> HistoryStep {
        let HistoryStep::Part { s, m, p, body: PartSpec::Seal { cut } } = step else {
            return step.clone();
        };
        let (s, m, p) = (*s, *m, *p);
        let id = (session_id(s), part_id(s, m, p));
        let part = self.store.read(&self.ctx(), |r| r.messages().get_part(&id.0, &id.1));
        let mut text = match part.map(|part| part.body) {
            Ok(PartBody::Text(text)) => text.text,
            _ => String::new(),
        };
        for _ in 0..*cut {
            text.pop();
        }
        HistoryStep::Part { s, m, p, body: PartSpec::Text { text, open: false } }
    }

    /// Everything readers can see, as text.
    pub(crate) fn reads(&self) -> Vec<String> {
        self.store.read(&self.ctx(), reads).expect("reads")
    }
}

/// Everything readers can see, as text.
pub(crate) fn reads(r: &ReadTx<'_>) -> Result<Vec<String>, StoreError> {
    let mut seen = vec![
        format!("{:?}", r.projects().list()?),
        format!("{:?}", r.projects().approved_rules(&project_id())?),
        format!("{:?}", r.requests().pending(None)?),
    ];
    let filter =
        SessionFilter { archived: true, actor: Some("ada".to_owned()), ..Default::default() };
    for filter in [SessionFilter::default(), filter] {
        seen.push(format!("{:?}", r.sessions().list(&filter, None, 100)?.items));
    }
    for s in 0..SESSIONS {
        let id = session_id(s);
        seen.push(format!("{:?}", r.sessions().get(&id)?));
        seen.push(format!("{:?}", r.sessions().seq(&id)?));
        seen.push(format!("{:?}", r.messages().list(&id, None, 1000)?.items));
        seen.push(format!("{:?} {:?}", r.sessions().todos(&id)?, r.sessions().diff(&id)?));
        seen.push(format!("{:?} {:?}", r.sessions().usage(&id)?, r.sessions().status(&id)?));
        seen.push(format!("{:?} {:?}", r.turns().list(&id)?, r.prompts().waiting(&id)?));
        seen.push(format!("{:?}", r.shares().find(&id)?));
    }
    for n in 0..4 {
        seen.push(format!("{:?}", r.requests().state(&format!("per_{n}")).ok()));
    }
    Ok(seen)
}

/// Only refusals with a reason are fine.
fn assert_expected_refusal(error: &StoreError) {
    let fine = matches!(
        error,
        StoreError::NoSession(_)
            | StoreError::NoMessage { .. }
            | StoreError::NoPart { .. }
            | StoreError::NotFound { .. }
            | StoreError::Conflict { .. }
            | StoreError::WrongOwner { .. }
            | StoreError::Busy(_)
            | StoreError::Transition(_)
            | StoreError::Tool(_)
            | StoreError::Invalid(_)
    );
    assert!(fine, "{error:?}");
}

const fn times(step: &HistoryStep) -> u8 {
    if let HistoryStep::Delta { times, .. } = step { *times } else { 1 }
}

const fn owner(step: &HistoryStep) -> Option<u8> {
    match step {
        HistoryStep::Session { s, .. }
        | HistoryStep::Todos { s, .. }
        | HistoryStep::Diff { s, .. }
        | HistoryStep::Message { s, .. }
        | HistoryStep::RemoveMessage { s, .. }
        | HistoryStep::Part { s, .. }
        | HistoryStep::RemovePart { s, .. }
        | HistoryStep::Delta { s, .. }
        | HistoryStep::Begin { s }
        | HistoryStep::Move { s, .. }
        | HistoryStep::Retry { s, .. }
        | HistoryStep::End { s, .. }
        | HistoryStep::Ask { s, .. }
        | HistoryStep::Admit { s, .. }
        | HistoryStep::Promote { s, .. }
        | HistoryStep::Share { s, .. }
        | HistoryStep::Unshare { s } => Some(*s),
        HistoryStep::Project { .. } | HistoryStep::Approve { .. } | HistoryStep::Answer { .. } => {
            None
        }
    }
}
