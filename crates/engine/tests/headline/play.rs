//! The play: two agents and a person on one workspace, processes that die, and what must hold.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use serde_json::{Value, json};
use turnstone_testkit::fixture::{SeededRng, TempDataDir};

use crate::model::{
    Content, Evidence, ExpectedMove, FRESH, HeadlineModel, ModelDirection, OpenModelCall, SLOTS,
    render,
};
use crate::world::{AgentProcess, Fallible, budget, grow, put, read_tree};

const SESSIONS: [&str; 2] = ["ses_a", "ses_b"];
/// One order in so many is the last one of its process.
const DEATHS: u64 = 14;

/// One agent as the play knows it.
struct SimulatedAgent {
    agent: Option<AgentProcess>,
    turn: Option<String>,
    open: Option<OpenModelCall>,
    /// Every turn of the session, oldest first.
    turns: Vec<String>,
}

/// The play, and what happened in it.
pub(crate) struct Simulation {
    data: TempDataDir,
    program: PathBuf,
    rng: SeededRng,
    model: HeadlineModel,
    players: Vec<SimulatedAgent>,
    hot: Vec<String>,
    fresh: u64,
    /// False where looking at every file each time would take all the time.
    small: bool,
    counts: BTreeMap<&'static str, u64>,
}

/// Plays so many steps; an error names the seed and the step.
pub(crate) fn play(program: &Path, seed: u64, steps: u64, files: usize) -> Fallible<Simulation> {
    let mut play = Simulation::new(program, seed, files)?;
    for step in 0..steps {
        let describe = |error| format!("seed {seed}, step {step}, {files} files: {error}");
        play.step().map_err(describe)?;
    }
    play.finish().map_err(|error| format!("seed {seed}, at the end: {error}"))?;
    Ok(play)
}

impl Simulation {
    fn new(program: &Path, seed: u64, files: usize) -> Fallible<Self> {
        let data = TempDataDir::in_memory()?;
        let disk = grow(data.path(), files)?;
        let mut rng = SeededRng::new(seed);
        let all: Vec<&String> = disk.keys().collect();
        let mut hot: Vec<String> =
            (0..8).filter_map(|_| rng.choose(&all)).map(|it| (*it).clone()).collect();
        hot.extend(
            ["nested/src/new.txt", "unborn/new.txt", "made/by/agent.txt"].map(str::to_owned),
        );
        let model = HeadlineModel { disk, ..HeadlineModel::default() };
        let mut play = Self {
            data,
            program: program.to_owned(),
            rng,
            model,
            players: Vec::new(),
            hot,
            fresh: FRESH,
            small: files <= 5000,
            counts: BTreeMap::new(),
        };
        for session in SESSIONS {
            let (agent, _) = AgentProcess::start(&play.program, play.data.path(), session)?;
            play.players.push(SimulatedAgent {
                agent: Some(agent),
                turn: None,
                open: None,
                turns: Vec::new(),
            });
        }
        Ok(play)
    }

    /// What happened how often.
    pub(crate) fn counts(&self) -> &BTreeMap<&'static str, u64> {
        &self.counts
    }

    fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    fn step(&mut self) -> Fallible {
        let who = self.rng.below(SESSIONS.len() as u64) as usize;
        let dice = self.rng.below(100);
        if dice < 15 {
            return self.person();
        }
        match (&self.players[who].turn, &self.players[who].open) {
            (None, _) if dice < 60 || self.players[who].turns.is_empty() => self.begin(who),
            (None, _) => self.undo_turns(who),
            (Some(_), None) if dice < 50 => self.open_named(who),
            (Some(_), None) if dice < 75 => self.open_window(who),
            (Some(_), None) => self.end(who),
            (Some(_), Some(_)) if dice < 65 => self.write(who),
            (Some(_), Some(_)) => self.close(who),
        }
    }

    /// A path somebody may write, and what they make of it.
    fn draw_edit(&mut self, among: Option<&[String]>) -> (String, Content) {
        let path = match (among, self.rng.below(12)) {
            (Some(among), _) => self.rng.choose(among).expect("a path").clone(),
            (None, 0) => format!("made/x{}.txt", self.rng.below(30)),
            (None, _) => self.rng.choose(&self.hot).expect("a path").clone(),
        };
        self.fresh += 1;
        let (at, dice) = (self.rng.below(SLOTS as u64) as usize, self.rng.below(10));
        let content = match self.model.disk.get(&path) {
            Some(_) if dice == 0 => None,
            Some(_) if dice == 1 => Some(Rc::new([self.fresh; SLOTS])),
            Some(body) => {
                let mut slots = **body;
                slots[at] = self.fresh;
                Some(Rc::new(slots))
            }
            None => Some(Rc::new([self.fresh; SLOTS])),
        };
        (path, content)
    }

    fn person(&mut self) -> Fallible {
        let (path, content) = self.draw_edit(None);
        put(self.data.path(), &path, content.as_ref().map(|body| render(&path, body)).as_deref())?;
        let inside = self.players.iter().any(|player| player.open.is_some());
        self.count(if inside { "person edits inside a call" } else { "person edits" });
        self.model.put(&path, content);
        Ok(())
    }

    /// Gives an order; nothing comes back if the process died at it and was started again.
    fn order(&mut self, who: usize, order: &Value) -> Fallible<Option<Result<Value, String>>> {
        let mut agent = self.players[who].agent.take().ok_or("nobody there")?;
        if self.rng.below(DEATHS) > 0 {
            let answer = agent.ask(order)?;
            self.players[who].agent = Some(agent);
            return Ok(Some(answer));
        }
        self.count("deaths");
        let after = Duration::from_micros(self.rng.below(30_000));
        let idle = self.rng.below(5) == 0;
        agent.die_at(Some(order).filter(|_| !idle), after)?;
        Ok(None)
    }

    /// Starts the process of an agent again and reads what recovery made of it.
    fn restart_agent(&mut self, who: usize) -> Fallible<Value> {
        let (agent, facts) = AgentProcess::start(&self.program, self.data.path(), SESSIONS[who])?;
        self.players[who].agent = Some(agent);
        for kind in ["changes", "turns", "operations"] {
            let stuck = facts[kind].as_array().into_iter().flatten().find(|it| it["open"] == true);
            if let Some(stuck) = stuck {
                return Err(format!("stuck after recovery, {kind}: {stuck}").into());
            }
        }
        self.players[who].turn = None;
        let known = &mut self.players[who].turns;
        for turn in facts["turns"].as_array().into_iter().flatten() {
            let id = turn["id"].as_str().ok_or("a turn without an id")?.to_owned();
            if !known.contains(&id) {
                known.push(id);
            }
        }
        Ok(facts)
    }

    /// After a death: what was open is closed by recovery with what is there now.
    fn recover(&mut self, who: usize, opening: Option<OpenModelCall>) -> Fallible<Value> {
        let at_death = self.players[who].open.as_ref().map(|open| self.model.changes(open));
        if self.rng.below(3) == 0 {
            self.person()?;
        }
        let facts = self.restart_agent(who)?;
        let open = match (self.players[who].open.take(), opening) {
            (Some(open), _) => Some(open),
            // The order that opened it was cut off: did it come to that?
            (None, Some(mut opening)) => {
                let known: BTreeSet<&str> =
                    self.model.sets.iter().map(|set| set.id.as_str()).collect();
                let found = facts["changes"].as_array().into_iter().flatten();
                let found = found.filter_map(|it| it["id"].as_str()).find(|id| !known.contains(id));
                match found {
                    Some(id) => {
                        opening.id = id.to_owned();
                        Some(opening)
                    }
                    None => None,
                }
            }
            (None, None) => None,
        };
        if let Some(open) = open {
            let row = facts["changes"].as_array().into_iter().flatten();
            let row = row.clone().find(|it| it["id"] == open.id.as_str());
            let row = row.ok_or_else(|| format!("{} is not in the database", open.id))?;
            let evidence = match row["evidence"].as_str() {
                Some("named") => Evidence::Named,
                Some("window") => Evidence::Window,
                _ => Evidence::Recovered,
            };
            self.count(if evidence == Evidence::Recovered {
                "recovered"
            } else {
                "closed in time"
            });
            self.model.close(who, &open, evidence);
            let uncovered = names(&row["uncovered"]);
            if !uncovered.is_empty() {
                self.count("not covered over budget");
            }
            let set = self.model.sets.last_mut().ok_or("no set")?;
            set.uncovered = uncovered;
            if let (true, Some(changes)) = (evidence != Evidence::Recovered, at_death) {
                set.changes = changes;
            }
            let (id, expected) = (set.id.clone(), set.changes.keys().cloned().collect());
            same_paths(&id, &row["paths"], &expected)?;
        }
        self.verify()?;
        Ok(facts)
    }

    fn begin(&mut self, who: usize) -> Fallible {
        self.fresh += 1;
        let order = json!({ "do": "begin", "message": format!("msg_{}", self.fresh) });
        match self.order(who, &order)? {
            Some(answer) => {
                let id = answer?.as_str().ok_or("no turn")?.to_owned();
                self.players[who].turns.push(id.clone());
                self.players[who].turn = Some(id);
                self.count("turns");
                // A prompt behind the end begins a branch, which is an operation.
                Ok(())
            }
            None => self.recover(who, None).map(drop),
        }
    }

    fn opening(&mut self, who: usize, named: Option<BTreeSet<String>>) -> OpenModelCall {
        let turn = self.players[who].turn.clone().unwrap_or_default();
        let (before, opened) = (self.model.disk.clone(), self.model.tick());
        OpenModelCall { id: String::new(), turn, named, before, opened }
    }

    fn open(&mut self, who: usize, order: &Value, mut opening: OpenModelCall) -> Fallible {
        match self.order(who, order)? {
            Some(Ok(id)) => {
                opening.id = id.as_str().ok_or("no change set")?.to_owned();
                self.players[who].open = Some(opening);
                Ok(())
            }
            Some(Err(error)) if error.contains("are used") => {
                self.count("refused over budget");
                Ok(())
            }
            Some(Err(error)) => Err(format!("{order}: {error}").into()),
            None => self.recover(who, Some(opening)).map(drop),
        }
    }

    fn open_named(&mut self, who: usize) -> Fallible {
        let mut paths = BTreeSet::new();
        for _ in 0..self.rng.in_range(1..=3) {
            paths.insert(self.draw_edit(None).0);
        }
        let order = json!({ "do": "named", "paths": paths });
        let opening = self.opening(who, Some(paths));
        self.count("named calls");
        self.open(who, &order, opening)
    }

    fn open_window(&mut self, who: usize) -> Fallible {
        let opening = self.opening(who, None);
        self.count("windows");
        self.open(who, &json!({ "do": "window" }), opening)
    }

    fn write(&mut self, who: usize) -> Fallible {
        let named = self.players[who].open.as_ref().and_then(|open| open.named.clone());
        let named: Option<Vec<String>> = named.map(|named| named.into_iter().collect());
        let (path, content) = self.draw_edit(named.as_deref());
        let text = content.as_ref().map(|body| render(&path, body));
        let order = json!({ "do": "write", "path": path, "text": text });
        match self.order(who, &order)? {
            Some(answer) => {
                answer?;
                self.model.put(&path, content);
                Ok(())
            }
            None => {
                let there = fs_err::read_to_string(self.data.join("work").join(&path)).ok();
                let former = self.model.disk.get(&path).map(|body| render(&path, body));
                match there {
                    there if there == former => {}
                    there if there == text => self.model.put(&path, content),
                    other => return Err(format!("{path} is torn: {other:?}").into()),
                }
                self.recover(who, None).map(drop)
            }
        }
    }

    fn close(&mut self, who: usize) -> Fallible {
        match self.order(who, &json!({ "do": "close" }))? {
            Some(answer) => {
                let answer = answer.map_err(|error| format!("close: {error}"))?;
                let open = self.players[who].open.take().ok_or("nothing is open")?;
                let evidence =
                    if open.named.is_some() { Evidence::Named } else { Evidence::Window };
                self.model.close(who, &open, evidence);
                let uncovered = names(&answer["uncovered"]);
                if !uncovered.is_empty() {
                    self.count("not covered over budget");
                }
                let set = self.model.sets.last_mut().ok_or("no set")?;
                set.uncovered = uncovered;
                same_paths(&set.id, &answer["paths"], &set.changes.keys().cloned().collect())
            }
            None => self.recover(who, None).map(drop),
        }
    }

    fn end(&mut self, who: usize) -> Fallible {
        match self.order(who, &json!({ "do": "end" }))? {
            Some(answer) => {
                answer?;
                self.players[who].turn = None;
                Ok(())
            }
            None => self.recover(who, None).map(drop),
        }
    }

    /// Takes a turn back, or all from it on; mostly brings it back at once.
    fn undo_turns(&mut self, who: usize) -> Fallible {
        let turns = self.players[who].turns.clone();
        let at = self.rng.below(turns.len() as u64) as usize;
        let range = self.rng.below(4) == 0;
        let chosen = if range { &turns[at..] } else { &turns[at..=at] };
        let chosen: BTreeSet<String> = chosen.iter().cloned().collect();
        let order = json!({ "do": "undo", "turn": turns[at], "range": range });
        self.count("undone");
        let former = self.model.disk.clone();
        let whole = self.swing(who, ModelDirection::Back, &chosen, &order)?;
        if self.rng.below(3) > 0 {
            let order = json!({ "do": "redo", "turn": turns[at], "range": range });
            self.count("redone");
            self.swing(who, ModelDirection::Forth, &chosen, &order)?;
            if whole && former != self.model.disk {
                return Err("redo did not return the former bytes".into());
            }
        }
        Ok(())
    }

    /// True if what was done can be reversed exactly: all of it was undone just now.
    fn swing(
        &mut self,
        who: usize,
        way: ModelDirection,
        turns: &BTreeSet<String>,
        order: &Value,
    ) -> Fallible<bool> {
        let expected = self.model.expect(way, who, turns);
        let fresh = self.model.sets.iter().filter(|set| turns.contains(&set.turn));
        let whole = fresh.clone().all(|set| set.taken.is_empty())
            && expected.is_plain
            && expected.conflicts.is_empty()
            && expected.contended.is_empty();
        let before = self.operations(who)?;
        match self.order(who, order)? {
            Some(Ok(answer)) => {
                self.check_expired_not_needed(who, way, turns)?;
                check_report(&answer, &expected).map_err(|e| format!("{order}: {e}"))?;
                self.model.swing(way, who, turns, &expected);
                self.verify().map_err(|e| format!("{order}: {e}\n{answer}"))?;
            }
            // Only for a turn that has expired; then nothing has changed.
            Some(Err(error)) if error.contains("expired on") => {
                if self.expired(who)?.is_disjoint(turns) {
                    return Err(format!("{order}: {error}, and none of them has").into());
                }
                self.count("refused as expired");
                self.verify().map_err(|e| format!("{order}, expired: {e}"))?;
                return Ok(false);
            }
            Some(Err(error)) => return Err(format!("{order}: {error}").into()),
            None => {
                let facts = self.restart_agent(who)?;
                let after = facts["operations"].as_array().map_or(0, Vec::len);
                if after > before {
                    self.model.swing(way, who, turns, &expected);
                    self.count("operations finished after a death");
                }
                self.verify().map_err(|e| format!("{order}, cut off: {e}"))?;
                return Ok(false);
            }
        }
        Ok(whole)
    }

    /// The turns of an agent that are marked as expired.
    fn expired(&mut self, who: usize) -> Fallible<BTreeSet<String>> {
        let agent = self.players[who].agent.as_mut().ok_or("nobody there")?;
        let facts = agent.ask(&json!({ "do": "facts" }))??;
        let expired = names(&facts["expired"]);
        if let Some(newest) = self.players[who].turns.last()
            && expired.contains(newest)
        {
            return Err(format!("{newest} is the newest turn and has expired").into());
        }
        self.counts.insert(["expired a", "expired b"][who], expired.len() as u64);
        Ok(expired)
    }

    /// An undo that was carried out needed no expired turn: those among `turns` have nothing to move.
    fn check_expired_not_needed(
        &mut self,
        who: usize,
        way: ModelDirection,
        turns: &BTreeSet<String>,
    ) -> Fallible {
        let expired = self.expired(who)?;
        let moves = |set: &&crate::model::ModelChangeSet| {
            let paths = set.changes.keys();
            set.agent == who
                && turns.contains(&set.turn)
                && expired.contains(&set.turn)
                && paths
                    .clone()
                    .any(|path| set.taken.contains(path) == (way == ModelDirection::Forth))
        };
        match self.model.sets.iter().find(moves) {
            Some(set) => Err(format!("{} has expired and was moved", set.turn).into()),
            None => Ok(()),
        }
    }

    fn operations(&mut self, who: usize) -> Fallible<usize> {
        let agent = self.players[who].agent.as_mut().ok_or("nobody there")?;
        let facts = agent.ask(&json!({ "do": "facts" }))??;
        Ok(facts["operations"].as_array().map_or(0, Vec::len))
    }

    /// The disk holds what the model says, byte for byte; the log has no hole; the budget holds.
    fn verify(&mut self) -> Fallible {
        let work = self.data.join("work");
        self.count("verified");
        if !self.small && !self.counts["verified"].is_multiple_of(20) {
            return self.verify_log();
        }
        for (path, bytes) in read_tree(&work)? {
            let name = path.strip_prefix(&work)?.to_string_lossy().into_owned();
            let Some(body) = self.model.disk.get(&name) else {
                return Err(format!("{name} is there and should not be").into());
            };
            if bytes != render(&name, body).as_bytes() {
                let there = String::from_utf8_lossy(&bytes).into_owned();
                return Err(format!("{name} should hold {body:?} and holds {there}").into());
            }
        }
        for name in self.model.disk.keys() {
            if !work.join(name).exists() {
                return Err(format!("{name} is gone").into());
            }
        }
        self.verify_log()
    }

    fn verify_log(&mut self) -> Fallible {
        let budget = budget(self.data.path())?;
        for player in &mut self.players {
            let Some(agent) = &mut player.agent else { continue };
            let found = agent.ask(&json!({ "do": "check" }))??;
            if !found["gap"].is_null() {
                return Err(format!("the log has a hole: {}", found["gap"]).into());
            }
            let used = found["used"]["bytes"].as_u64().unwrap_or(u64::MAX);
            // What an undo displaces is kept past the budget (R14).
            if used > budget + self.model.guarded {
                return Err(format!("{used} bytes are used of {budget}").into());
            }
            self.counts.insert("bytes used", used);
            if found["expiring"] != 0 {
                return Err("an expiry is not finished".into());
            }
        }
        Ok(())
    }

    /// Ends what runs, and undoes every turn that can be undone.
    fn finish(&mut self) -> Fallible {
        for who in 0..SESSIONS.len() {
            while self.players[who].open.is_some() {
                self.close(who)?;
            }
            while self.players[who].turn.is_some() {
                self.end(who)?;
            }
        }
        for who in 0..SESSIONS.len() {
            for turn in self.players[who].turns.clone().into_iter().rev() {
                let order = json!({ "do": "undo", "turn": turn });
                self.swing(who, ModelDirection::Back, &[turn.clone()].into(), &order)?;
            }
        }
        Ok(())
    }
}

fn names(list: &Value) -> BTreeSet<String> {
    let name = |it: &Value| it.as_str().map(str::to_owned);
    list.as_array().into_iter().flatten().filter_map(name).collect()
}

fn same_paths(id: &str, found: &Value, expected: &BTreeSet<String>) -> Fallible {
    match names(found) == *expected {
        true => Ok(()),
        false => Err(format!("{id} changed {expected:?}; the database says {found}").into()),
    }
}

/// The report says what was done: nothing guessed, nothing kept quiet.
fn check_report(answer: &Value, expected: &ExpectedMove) -> Fallible {
    let report = &answer["report"];
    let roots = report["roots"].as_array().cloned().unwrap_or_default();
    let gather = |kind: &str| -> BTreeSet<String> {
        roots.iter().flat_map(|root| names(&root["report"][kind])).collect()
    };
    let path = |it: &Value| it["path"].as_str().map(str::to_owned);
    let conflicts: BTreeSet<String> = roots
        .iter()
        .flat_map(|root| root["report"]["conflicts"].as_array().cloned().unwrap_or_default())
        .filter_map(|it| path(&it))
        .collect();
    if conflicts != expected.conflicts {
        return Err(format!("conflicts are {:?}: {answer}", expected.conflicts).into());
    }
    let contended = report["contended"].as_array().into_iter().flatten();
    let contended: BTreeSet<String> = contended.filter_map(path).collect();
    // The model knows no directories; one is contended only with a file in it.
    let is_folder = |one: &String| contended.iter().any(|it| it.starts_with(&format!("{one}/")));
    let contended: BTreeSet<String> =
        contended.iter().filter(|one| !is_folder(one)).cloned().collect();
    if contended != expected.contended {
        return Err(format!("contended are {:?}: {answer}", expected.contended).into());
    }
    let moved: BTreeSet<String> =
        ["restored", "removed", "merged"].into_iter().flat_map(gather).collect();
    if !moved.is_subset(&expected.reached) {
        return Err(format!("only {:?} may move: {answer}", expected.reached).into());
    }
    let guarded = roots.iter().any(|root| !root["report"]["guard"].is_null());
    if !moved.is_empty() && !guarded {
        return Err(format!("what was there is not kept: {answer}").into());
    }
    let windows = names(&answer["windows"]);
    match expected.windows.is_subset(&windows) {
        true => Ok(()),
        false => Err(format!("{:?} were named by no tool: {answer}", expected.windows).into()),
    }
}
