//! Turns, people, undo, redo and jumps at random, against a model of who owns which bytes.

use proptest::prelude::*;
use turnstone_core::id::{SessionId, TurnId};
use turnstone_engine::{EngineError, SessionPoint, UndoOptions, UndoTarget};

use crate::engine_fixture::{EngineFixture, ctx, prompt};

/// Lines of a file: far enough from each other that changes never touch.
const LINES: usize = 40;
const FILES: usize = 2;
const HUMAN: usize = 30;

#[derive(Clone, Debug)]
enum RandomStep {
    Turn { file: usize, line: bool },
    Human { file: usize },
    Undo,
    Redo,
    Unrevert,
    Back { to: usize },
    Jump { to: usize },
}

fn any_step() -> impl Strategy<Value = RandomStep> {
    prop_oneof![
        4 => (0..FILES, any::<bool>()).prop_map(|(file, line)| RandomStep::Turn { file, line }),
        2 => (0..FILES).prop_map(|file| RandomStep::Human { file }),
        3 => Just(RandomStep::Undo),
        2 => Just(RandomStep::Redo),
        1 => Just(RandomStep::Unrevert),
        1 => any::<usize>().prop_map(|to| RandomStep::Back { to }),
        3 => any::<usize>().prop_map(|to| RandomStep::Jump { to }),
    ]
}

/// One turn of the model: what it wrote where, and the line it was on when that line was left.
struct ModelTurn {
    id: TurnId,
    message: String,
    file: usize,
    line: usize,
    value: String,
    left: Option<Vec<usize>>,
}

#[derive(Default)]
struct OwnershipModel {
    made: Vec<ModelTurn>,
    /// The line the session is on, and how many of its turns stand.
    line: Vec<usize>,
    standing: usize,
    human: [Option<String>; FILES],
}

impl OwnershipModel {
    /// What every file should hold.
    fn file(&self, file: usize) -> String {
        let mut lines: Vec<String> = (0..LINES).map(|nth| format!("line {nth}")).collect();
        for made in self.line[..self.standing].iter().map(|nth| &self.made[*nth]) {
            if made.file == file {
                lines[made.line].clone_from(&made.value);
            }
        }
        if let Some(text) = &self.human[file] {
            lines[HUMAN].clone_from(text);
        }
        lines.join("\n") + "\n"
    }

    /// The session leaves its timeline.
    fn leave(&mut self) {
        let line = self.line.clone();
        for made in self.made.iter_mut().filter(|made| made.left.is_none()) {
            made.left = Some(line.clone());
        }
    }

    fn jump(&mut self, to: usize) {
        if !self.line.contains(&to) {
            let line = self.made[to].left.clone().expect("it was left");
            self.leave();
            self.line = line;
        }
        self.standing = 1 + self.line.iter().position(|nth| *nth == to).expect("on it");
    }

    fn head(&self) -> Option<&str> {
        self.line.get(self.standing).map(|nth| self.made[*nth].message.as_str())
    }
}

struct RandomRun {
    case: EngineFixture,
    session: SessionId,
    model: OwnershipModel,
    count: usize,
}

impl RandomRun {
    fn new() -> Self {
        let case = EngineFixture::new();
        let session = case.session("ses_a", None);
        let model = OwnershipModel::default();
        for file in 0..FILES {
            case.put(&file.to_string(), Some(&model.file(file)));
        }
        Self { case, session, model, count: 0 }
    }

    fn turn(&mut self, file: usize, line: usize) {
        if self.model.standing < self.model.line.len() {
            self.model.leave();
            self.model.line.truncate(self.model.standing);
        }
        // A client can revert only to a prompt that has a part.
        let prompt = prompt(&self.session, &self.count.to_string());
        let turn = self.case.engine.turns().begin(&ctx(), prompt).expect("begins");
        let turns = self.case.engine.store().read(&ctx(), |r| r.turns().list(&self.session));
        let message = turns.expect("reads").last().expect("it").message.to_string();
        let (id, value) = (turn.id.clone(), format!("turn {}", self.count));
        self.model.made.push(ModelTurn { id, message, file, line, value, left: None });
        self.model.line.push(self.model.made.len() - 1);
        self.model.standing = self.model.line.len();
        self.case.edit(&turn, &file.to_string(), Some(&self.model.file(file)));
        self.case.end(&turn);
    }

    fn step(&mut self, step: &RandomStep) {
        self.count += 1;
        let (engine, options) = (&self.case.engine, UndoOptions::default());
        match step {
            RandomStep::Turn { file, line } => self.turn(*file, if *line { 2 } else { 14 }),
            RandomStep::Human { file } => {
                self.model.human[*file] = Some(format!("human {}", self.count));
                self.case.put(&file.to_string(), Some(&self.model.file(*file)));
            }
            RandomStep::Undo if self.model.standing == 0 => {
                let none =
                    engine.history().plan_undo(&ctx(), &self.session, &UndoTarget::Last, &options);
                assert!(matches!(none, Err(EngineError::NothingToUndo(_))), "{none:?}");
            }
            RandomStep::Undo => {
                assert!(self.case.undo(&self.session, &UndoTarget::Last).is_complete());
                self.model.standing -= 1;
            }
            RandomStep::Redo => {
                let plan =
                    engine.history().plan_redo(&ctx(), &self.session, &UndoTarget::Last, &options);
                if self.model.standing == self.model.line.len() {
                    assert!(
                        matches!(
                            plan,
                            Err(EngineError::NothingToRedo(_) | EngineError::UndoSuperseded { .. })
                        ),
                        "{plan:?}"
                    );
                    return;
                }
                let report =
                    engine.history().apply(&ctx(), &plan.expect("a plan")).expect("applied");
                assert!(report.is_complete(), "{report:?}");
                // As many turns as were undone together.
                self.model.standing += report.turns.len();
            }
            RandomStep::Unrevert => {
                engine.history().reverts().unrevert(&ctx(), &self.session).expect("unreverts");
                self.model.standing = self.model.line.len();
            }
            RandomStep::Back { to } if !self.model.line.is_empty() => {
                let to = to % self.model.line.len();
                let message = self.model.made[self.model.line[to]].message.parse().expect("an id");
                let report =
                    engine.history().reverts().revert(&ctx(), &self.session, &message, None);
                assert!(report.expect("applied").expect("a boundary").is_complete());
                self.model.standing = to;
            }
            RandomStep::Jump { to } if !self.model.made.is_empty() => {
                let to = to % self.model.made.len();
                let point = SessionPoint::After(self.model.made[to].id.clone());
                let plan = engine.history().plan_jump(&ctx(), &self.session, &point, &options);
                let report =
                    engine.history().apply(&ctx(), &plan.expect("a plan")).expect("applied");
                assert!(report.is_complete(), "{report:?}");
                self.model.jump(to);
            }
            RandomStep::Back { .. } | RandomStep::Jump { .. } => {}
        }
    }

    fn check(&self, step: &RandomStep) {
        for file in 0..FILES {
            let found = self.case.read(&file.to_string()).expect("there");
            assert_eq!(found, self.model.file(file), "file {file} after {step:?}");
        }
        let head = self.case.engine.store().read(&ctx(), |r| r.sessions().head(&self.session));
        let head = head.expect("reads").map(|head| head.message.to_string());
        assert_eq!(head.as_deref(), self.model.head(), "after {step:?}");
        let shown: Vec<String> = self.case.messages(&self.session);
        let want = self.model.line.iter().map(|nth| &self.model.made[*nth].message[4..]);
        assert_eq!(shown, want.collect::<Vec<_>>(), "after {step:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_done_every_byte_is_where_its_owner_wants_it_r4_r19(
        steps in prop::collection::vec(any_step(), 1..25)
    ) {
        let mut run = RandomRun::new();
        for step in &steps {
            run.step(step);
            run.check(step);
        }
        run.case.assert_consistent();
    }
}
