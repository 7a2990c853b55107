//! Forgetting: the bytes of a path are nowhere below the data directory afterwards (R20).

use std::path::Path;

use serde_json::json;
use turnstone_core::id::PartId;
use turnstone_engine::UndoTarget;
use turnstone_store::SearchQuery;

use crate::engine_fixture::{EngineFixture, NOW, answer, ctx, part};
use crate::repository_fixture::git;

pub(crate) const SECRET: &str = "API_KEY=hunter2-is-no-password";

/// Files below a folder that hold the secret, as they lie there.
pub(crate) fn grep(folder: &Path) -> Vec<String> {
    let (mut todo, mut found) = (vec![folder.to_owned()], Vec::new());
    while let Some(folder) = todo.pop() {
        for entry in fs_err::read_dir(folder).expect("reads").flatten() {
            let (path, kind) = (entry.path(), entry.file_type().expect("a kind"));
            if kind.is_dir() {
                todo.push(path);
            } else if kind.is_file() {
                let bytes = fs_err::read(&path).expect("reads");
                if bytes.windows(SECRET.len()).any(|some| some == SECRET.as_bytes()) {
                    found.push(path.to_string_lossy().into_owned());
                }
            }
        }
    }
    found
}

/// Objects of the snapshot store that hold it.
fn objects(case: &EngineFixture) -> Vec<String> {
    let dir = case
        .engine
        .snapshots()
        .open(&case.root(), NOW)
        .expect("opens")
        .reader()
        .git_dir()
        .expect("a store");
    let list = git(&dir, &["cat-file", "--batch-all-objects", "--batch-check=%(objectname)"]);
    let holds = |oid: &&str| {
        let kind = git(&dir, &["cat-file", "-t", oid]);
        let kind = kind.trim();
        kind == "blob" && git(&dir, &["cat-file", "-p", oid]).contains(SECRET)
    };
    list.lines().filter(holds).map(str::to_owned).collect()
}

/// A session in which the secret is everywhere: files, a tool's input, long values, streamed text.
fn spread_secret(case: &EngineFixture) -> turnstone_core::id::SessionId {
    let session = case.session("ses_a", None);
    case.put("kept.txt", Some("kept one\n"));
    let turn = case.begin(&session);
    let message = answer(&session, "a1", "1");
    let streamed: PartId = "prt_streamed".parse().expect("an id");
    let long = format!("{}\n{SECRET}\n", "x".repeat(5000));
    let huge = format!("{SECRET}\n{}", "y".repeat(400_000));
    let parts = [
        part(&message, "short", json!({"type": "text", "text": format!("it is {SECRET}.")})),
        part(&message, "long", json!({"type": "text", "text": long})),
        part(&message, "huge", json!({"type": "text", "text": huge})),
        part(&message, "streamed", json!({"type": "text", "text": ""})),
    ];
    let id = streamed.clone();
    let name = session.clone();
    let write = move |tx: &turnstone_store::Tx<'_>| {
        tx.messages().put(&message)?;
        parts.iter().try_for_each(|part| tx.messages().put_part(part).map(drop))?;
        let (head, tail) = SECRET.split_at(9);
        tx.messages().append_text(&name, &id, &format!("I read {head}"))?;
        tx.messages().append_text(&name, &id, &format!("{tail} in it")).map(drop)
    };
    case.engine.store().write(&turn.context(&ctx()), write).wait().expect("written");
    case.edit(&turn, "conf/.env", Some(&format!("{SECRET}\nshort\n")));
    case.edit(&turn, "kept.txt", Some("kept two\n"));
    case.shell(&turn, || case.put("conf/.env", Some(&format!("# more\n{SECRET}\n"))));
    case.end(&turn);
    session
}

/// Proves R20.
#[test]
fn forgotten_bytes_are_gone_and_undo_reports_uncovered() {
    let case = EngineFixture::new();
    let session = spread_secret(&case);
    let data = case.dir.path().join("data");
    fs_err::create_dir_all(data.join("output")).expect("made");
    fs_err::write(data.join("output/prt_short"), format!("cat .env\n{SECRET}\n")).expect("written");
    let search = |text: &str| {
        let found = case
            .engine
            .store()
            .session_search()
            .query(&ctx(), &SearchQuery::new(text))
            .expect("searches");
        found.hits.len()
    };
    assert!(search("hunter2") > 0 && !grep(&data).is_empty() && !objects(&case).is_empty());
    let patterns = vec![".env".to_owned()];

    let plan = case
        .engine
        .maintenance()
        .path_eraser()
        .plan(&ctx(), &case.root(), &patterns)
        .expect("a plan");
    assert_eq!((plan.sessions.len(), plan.sessions[0].turns.len()), (1, 1));
    assert_eq!((plan.captured.versions.len(), plan.outputs.len()), (2, 1), "{plan:?}");
    assert!(plan.captured.captures >= 3 && plan.ledger.values == 2 && plan.ledger.texts == 1);
    assert!(!objects(&case).is_empty(), "a plan changes nothing");
    let done = case.engine.maintenance().path_eraser().apply(&ctx(), &plan).expect("forgets");

    assert_eq!((done.captures, done.ledger), (plan.captured.captures, plan.ledger));
    assert_eq!(grep(&data), [""; 0]);
    assert_eq!(objects(&case), [""; 0]);
    assert_eq!(search("hunter2"), 0);
    assert!(search("read") > 0, "the rest is still found");
    let kept = case.read("conf/.env").expect("the file itself is the person's");
    assert!(kept.contains(SECRET));
    let report = case.undo(&session, &UndoTarget::Last);
    let why: Vec<_> = report.not_covered.iter().map(|it| (it.1.to_string(), &*it.2)).collect();
    assert!(why.iter().all(|it| *it == ("conf/.env".to_owned(), "forgotten")), "{why:?}");
    assert!(!why.is_empty() && case.read("conf/.env") == Some(kept), "never an empty file");
    assert_eq!(case.read("kept.txt").as_deref(), Some("kept one\n"), "the others are undone");
    let operations =
        case.engine.store().read(&ctx(), |r| r.operations().list(&session)).expect("reads");
    assert!(operations.iter().any(|it| it.kind.as_str() == "forget" && it.done.is_some()));
    let verified = case
        .engine
        .snapshots()
        .open(&case.root(), NOW)
        .expect("opens")
        .reader()
        .verify_objects()
        .expect("reads");
    assert!(verified.damaged.is_empty());
    case.assert_consistent();
}

/// Proves R20.
#[test]
fn forget_is_idempotent_and_accepts_no_match() {
    let case = EngineFixture::new();
    let session = spread_secret(&case);
    let plan = |patterns: &[&str]| {
        let patterns: Vec<String> = patterns.iter().map(|it| (*it).to_owned()).collect();
        case.engine
            .maintenance()
            .path_eraser()
            .plan(&ctx(), &case.root(), &patterns)
            .expect("a plan")
    };
    assert!(plan(&["nothing-like-it"]).is_empty());
    let first = plan(&["conf/"]);
    case.engine.maintenance().path_eraser().apply(&ctx(), &first).expect("forgets");
    let again = plan(&["conf/"]);
    assert!(again.captured.versions.is_empty() && again.ledger.events == 0, "{again:?}");
    case.engine.maintenance().path_eraser().apply(&ctx(), &again).expect("forgets");
    // What is captured afterwards is a version of its own.
    let turn = case.begin(&session);
    case.edit(&turn, "conf/.env", Some("clean enough\n"));
    case.end(&turn);
    case.edit_and_undo(&session);
    case.assert_consistent();
}

impl EngineFixture {
    fn edit_and_undo(&self, session: &turnstone_core::id::SessionId) {
        let turn = self.begin(session);
        self.edit(&turn, "conf/.env", Some("other\n"));
        self.end(&turn);
        assert!(self.undo(session, &UndoTarget::Last).is_complete());
        assert_eq!(self.read("conf/.env").as_deref(), Some("clean enough\n"));
    }
}
