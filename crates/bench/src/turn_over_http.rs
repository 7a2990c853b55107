//! What a tool call costs a driver that runs over HTTP: native calls to a plain `turnstone serve`.
//!
//! The time of a call is that of its two requests, announcement and end, each answered when everything is durable.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::Fallible;
use crate::measurement::to_millis;
use crate::server::{HttpClient, ServerUnderTest, find_built_turnstone};
use crate::snapshot::{BenchmarkCase, GeneratedTree, OperationTimings, PerformanceGoal};

/// How long the first capture may take.
const WATCH_ATTEMPTS: usize = 1_200;
const WATCH_PAUSE: Duration = Duration::from_millis(100);

/// A server that watches a generated tree, and a turn that this program drives.
struct DrivenServer {
    tree: GeneratedTree,
    client: HttpClient,
    base: String,
    step: String,
    version: usize,
}

/// Measures calls of both kinds; `goal` is the most that one may take.
pub(crate) fn measure(case: &BenchmarkCase, goal: f64) -> Fallible<Vec<OperationTimings>> {
    let program = ServerUnderTest::new("turnstone", &find_built_turnstone()?, &case.dir)?;
    let tree = GeneratedTree::generate(&program.project, case.files)?;
    tree.commit()?;
    case.wait_until_not_racy();
    let running = program.start()?;
    let mut driven = DrivenServer::begin(running.client()?, tree)?;
    let goal = || PerformanceGoal::MaxMillis(goal);
    let mut rows = [
        ("a call that names its file, over HTTP", true),
        ("a shell, one file changed, over HTTP", false),
    ]
    .map(|(name, is_named)| (is_named, OperationTimings::new(name, goal())));
    for round in 0..case.rounds {
        for (is_named, row) in &mut rows {
            let took = driven.measure_call(*is_named)?;
            // The first call of each kind opens what later ones find open.
            if round > 0 {
                row.ours.push(took);
            }
        }
    }
    driven.require_watcher()?;
    Ok(rows.into_iter().map(|(_, row)| row).collect())
}

fn text(value: &Value) -> Fallible<String> {
    Ok(value.as_str().ok_or_else(|| format!("not a text: {value}"))?.to_owned())
}

impl DrivenServer {
    /// Creates a session, waits for the baseline and begins a turn with one step.
    fn begin(mut client: HttpClient, tree: GeneratedTree) -> Fallible<Self> {
        let session = text(&client.post("/session", &json!({}))?.json()?["id"])?;
        for attempt in 0.. {
            if is_watching(&mut client, &tree.path)? {
                break;
            }
            if attempt > WATCH_ATTEMPTS {
                return Err("the server does not watch the project".into());
            }
            std::thread::sleep(WATCH_PAUSE);
        }
        let path = format!("/turnstone/session/{session}/turn");
        let prompt = json!({ "prompt": { "agent": "build",
            "model": { "providerID": "p", "modelID": "m" },
            "parts": [{ "type": "text", "text": "measure" }] } });
        let begun = client.post(&path, &prompt)?.json()?;
        let base = format!("{path}/{}", text(&begun["turn"])?);
        let mut client = client.with_header("x-turnstone-lease", &text(&begun["lease"])?);
        let step = json!({ "providerID": "p", "modelID": "m", "agent": "build" });
        let step = client.post(&format!("{base}/step"), &step)?.json()?;
        if !step["snapshot"].is_string() {
            return Err("the step has no snapshot".into());
        }
        let step = text(&step["messageID"])?;
        Ok(Self { tree, client, base, step, version: 0 })
    }

    /// One call; returns what the two requests took, in milliseconds.
    fn measure_call(&mut self, is_named: bool) -> Fallible<f64> {
        self.version += 1;
        let file = (self.version * 7919) % self.tree.files;
        let path = self.tree.path.join(self.tree.file_path(file));
        let touches = if is_named { json!({ "paths": [path] }) } else { json!("anything") };
        let call = json!({ "messageID": self.step, "callID": format!("c{}", self.version),
            "tool": "edit", "input": {}, "touches": touches });
        let began = std::time::Instant::now();
        let begun = self.client.post(&format!("{}/tool", self.base), &call)?.json()?;
        let before = to_millis(began.elapsed());
        self.tree.write_version(file, self.version)?;
        let end = format!("{}/tool/{}/end", self.base, text(&begun["partID"])?);
        let began = std::time::Instant::now();
        let ended = self.client.post(&end, &json!({ "output": "" }))?.json()?;
        let after = to_millis(began.elapsed());
        match ended["files"].as_array().map(Vec::len) {
            Some(1) => Ok(before + after),
            _ => Err(format!("instead of one change: {ended}").into()),
        }
    }

    /// Refuses to pass a walk off as the watcher's work.
    fn require_watcher(&mut self) -> Fallible {
        match is_watching(&mut self.client, &self.tree.path)? {
            true => Ok(()),
            false => Err("the watcher was not used".into()),
        }
    }
}

/// True if the server watches a directory.
fn is_watching(client: &mut HttpClient, directory: &Path) -> Fallible<bool> {
    let server = client.get("/turnstone/server")?.json()?;
    let real = fs_err::canonicalize(directory)?;
    let watched = server["watched"].as_array().ok_or("no list of what is watched")?;
    Ok(watched
        .iter()
        .any(|it| it["root"] == json!(real.to_string_lossy()) && it["state"] == "watching"))
}
