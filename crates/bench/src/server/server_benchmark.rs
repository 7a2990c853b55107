//! What is measured, and the table.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::comparison_table::{Figure, print_comparison};
use super::event_stream;
use super::http_client::HttpClient;
use super::server_under_test::{RunningServer, ServerUnderTest};
use super::stream_crowd::StreamCrowd;
use crate::Fallible;
use crate::measurement::{median, to_millis};

/// Calls of each list.
const LIST_CALLS: usize = 50;

/// Reads of data that were imported.
const IMPORTED_LIST: &str = "list 1,000 imported sessions";
const IMPORTED_READ: &str = "read them, imported";

/// How much is done.
#[derive(Clone, Copy)]
struct WorkloadSize {
    cold_starts: usize,
    sessions: usize,
    messages: usize,
    forks: usize,
    writes: usize,
    streams: usize,
    announcements: usize,
}

/// Runs both and prints the table.
pub(crate) fn run(words: &[String]) -> Fallible {
    if cfg!(debug_assertions) {
        return Err("figures of a debug build mean nothing: run with --release".into());
    }
    let quick = words.iter().any(|word| word == "--quick");
    let size = if quick {
        WorkloadSize {
            cold_starts: 3,
            sessions: 1_000,
            messages: 1_000,
            forks: 2,
            writes: 200,
            streams: 1_000,
            announcements: 9,
        }
    } else {
        WorkloadSize {
            cold_starts: 7,
            sessions: 1_000,
            messages: 1_000,
            forks: 3,
            writes: 1_000,
            streams: 1_000,
            announcements: 15,
        }
    };
    let size = match crate::turn_benchmark::parse_number(words, "--messages")? {
        Some(messages) => WorkloadSize { messages, ..size },
        None => size,
    };
    let named = |flag: &str| {
        let at = words.iter().position(|word| word == flag)?;
        words.get(at + 1).map(PathBuf::from)
    };
    let ours_path = named("--turnstone").map_or_else(find_built_turnstone, Ok)?;
    let peer_path = named("--opencode").map_or_else(install_opencode, Ok)?;
    let out = tempfile::tempdir()?;
    let ours = ServerUnderTest::new("turnstone", &ours_path, out.path())?;
    let peer = ServerUnderTest::new("opencode", &peer_path, out.path())?;
    let mut mine = measure_server(&ours, size)?;
    let mut theirs = measure_server(&peer, size)?;
    // The other program reads its own data; ours reads them after an import.
    let importing = ours.importing_from(&peer, out.path())?;
    mine.figures.extend(measure_imported(&importing, &theirs.long_session, size)?);
    theirs.repeat_as("list 1,000 sessions", IMPORTED_LIST);
    theirs.repeat_as("read 1,000 messages, 5,000 parts", IMPORTED_READ);
    print_comparison(&mine.figures, &theirs.figures);
    Ok(())
}

/// The program that was built next to this one.
pub(crate) fn find_built_turnstone() -> Fallible<PathBuf> {
    let path = std::env::current_exe()?.with_file_name("turnstone");
    if path.exists() {
        return Ok(path);
    }
    Err("turnstone is not built: cargo build --release -p turnstone".into())
}

/// The real program, installed into the folder for temporary files of the build.
fn install_opencode() -> Fallible<PathBuf> {
    let recipe = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../interop/opencode");
    let binary = recipe.join("node_modules/opencode-today/bin/opencode");
    if !binary.exists() {
        let npm = std::process::Command::new("npm").arg("ci").current_dir(&recipe).output()?;
        if !npm.status.success() {
            return Err(format!("npm ci: {}", String::from_utf8_lossy(&npm.stderr)).into());
        }
    }
    Ok(binary)
}

/// Figures of one program, and what the reads of imported data need.
struct MeasuredServer {
    figures: Vec<Figure>,
    long_session: String,
}

impl MeasuredServer {
    /// The figure of one row is also that of another row.
    fn repeat_as(&mut self, what: &str, other: &'static str) {
        let found = self.figures.iter().find(|figure| figure.what == what);
        let repeated = found.map(|figure| Figure { what: other, ..*figure });
        self.figures.extend(repeated);
    }
}

fn measure_server(program: &ServerUnderTest, size: WorkloadSize) -> Fallible<MeasuredServer> {
    eprintln!("{}: starting", program.name);
    let mut cold = Vec::new();
    for _ in 0..size.cold_starts {
        cold.push(to_millis(program.start()?.cold_start));
    }
    let running = program.start()?;
    running.wait_until_booted()?;
    let mut client = running.client()?;
    std::thread::sleep(Duration::from_secs(2));
    let mut figures = vec![
        Figure::new("cold start to first answer", median(cold), "ms"),
        Figure::new("memory, idle", running.resident_mib()?, "MiB"),
    ];
    eprintln!("{}: {} sessions", program.name, size.sessions);
    let (times, cpu) = measure_calls(&running, size.sessions, |n| {
        client.post("/session", &json!({ "title": format!("number {n}") }))?.json().map(drop)
    })?;
    figures.push(
        Figure::new("create a session, p50", percentile_of_sorted(&times, 0.5), "ms").with_cpu(cpu),
    );
    figures.push(Figure::new("create a session, p99", percentile_of_sorted(&times, 0.99), "ms"));
    figures.push(Figure::new("memory with 1,000 sessions", running.resident_mib()?, "MiB"));
    let path = format!("/session?limit={}", size.sessions);
    figures.push(measure_lists(&running, "list 1,000 sessions", &path, Some(size.sessions))?);
    figures.push(measure_gzip(&running, "list 1,000 sessions, gzip", &path)?);
    figures.push(measure_lists(&running, "page of /api/session", "/api/session?limit=50", None)?);
    let long = create_long_session(&mut client, size)?;
    eprintln!("{}: {} messages", program.name, size.messages);
    figures.extend(measure_long_session(&running, &mut client, &long, size)?);
    for Figure { what, value, unit, .. } in &figures {
        eprintln!("{}: {what}: {value:.2} {unit}", program.name);
    }
    Ok(MeasuredServer { figures, long_session: long.session })
}

/// A session of many messages.
struct LongSession {
    session: String,
    /// A part of its last message.
    part: Value,
}

fn create_long_session(client: &mut HttpClient, size: WorkloadSize) -> Fallible<LongSession> {
    let made = client.post("/session", &json!({ "title": "long" }))?.json()?;
    let session = made["id"].as_str().ok_or("no id")?.to_owned();
    let parts: Vec<Value> = (0..5)
        .map(|n| json!({ "type": "text", "text": format!("{n} {}", "word ".repeat(80)) }))
        .collect();
    let model = json!({ "providerID": "p", "modelID": "m" });
    let prompt = json!({ "noReply": true, "agent": "build", "model": model, "parts": parts });
    let mut last = Value::Null;
    for _ in 0..size.messages {
        last = client.post(&format!("/session/{session}/message"), &prompt)?.json()?;
    }
    Ok(LongSession { session, part: last["parts"][0].clone() })
}

/// What one long session costs.
fn measure_long_session(
    running: &RunningServer,
    client: &mut HttpClient,
    long: &LongSession,
    size: WorkloadSize,
) -> Fallible<Vec<Figure>> {
    let session = &long.session;
    let (one, cpu) = measure_calls(running, 50, |_| {
        client.get(&format!("/session/{session}"))?.json().map(drop)
    })?;
    let one = Figure::new("read one session", percentile_of_sorted(&one, 0.5), "ms").with_cpu(cpu);
    let (path, what) = (format!("/session/{session}/message"), "read 1,000 messages, 5,000 parts");
    let mut figures = vec![
        one,
        measure_lists(running, what, &path, Some(size.messages))?,
        measure_gzip(running, "read them, gzip", &path)?,
    ];
    let (forks, cpu) = measure_calls(running, size.forks, |_| {
        client.post(&format!("/session/{session}/fork"), &json!({}))?.json().map(drop)
    })?;
    let fork = Figure::new("fork of that session", percentile_of_sorted(&forks, 0.5), "ms");
    figures.push(fork.with_cpu(cpu));
    figures.extend(measure_part_changes(running, client, &long.part, size)?);
    figures.push(measure_fan_out(running, &long.part, size)?);
    Ok(figures)
}

/// The path of a part.
fn part_path(part: &Value) -> String {
    let name = |key: &str| part[key].as_str().unwrap_or_default().to_owned();
    format!("/session/{}/message/{}/part/{}", name("sessionID"), name("messageID"), name("id"))
}

/// Changes of a part: until they are answered, and until an event says so.
fn measure_part_changes(
    running: &RunningServer,
    client: &mut HttpClient,
    part: &Value,
    size: WorkloadSize,
) -> Fallible<Vec<Figure>> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let path = part_path(part);
    let (event_sender, mut received) = mpsc::unbounded_channel();
    let address = running.address;
    let ears = runtime.spawn(async move {
        event_stream::report_events(address, "changed-", event_sender)
            .await
            .map_err(|error| error.to_string())
    });
    wait_for_line(&runtime, &mut received, "server.connected")?;
    std::thread::sleep(event_stream::SUBSCRIBE_DELAY);
    let (mut answered, mut arrived) = (Vec::new(), Vec::new());
    let used = running.cpu_millis()?;
    for n in 0..size.writes {
        let mut changed = part.clone();
        let mark = format!("changed-{n}-");
        changed["text"] = Value::from(mark.clone());
        let began = Instant::now();
        client.request("PATCH", &path, Some(&changed))?.json()?;
        answered.push(to_millis(began.elapsed()));
        arrived.push(to_millis(wait_for_line(&runtime, &mut received, &mark)? - began));
    }
    let cpu = (running.cpu_millis()? - used) / size.writes as f64;
    ears.abort();
    answered.sort_by(f64::total_cmp);
    arrived.sort_by(f64::total_cmp);
    let figure =
        |what, sorted: &[f64], share| Figure::new(what, percentile_of_sorted(sorted, share), "ms");
    Ok(vec![
        figure("change a part, p50", &answered, 0.5),
        figure("change a part → event arrives, p50", &arrived, 0.5).with_cpu(cpu),
        figure("change a part → event arrives, p99", &arrived, 0.99),
    ])
}

/// From a change of a part until all streams have received it.
fn measure_fan_out(running: &RunningServer, part: &Value, size: WorkloadSize) -> Fallible<Figure> {
    eprintln!("{} streams", size.streams);
    let what = "one event to 1,000 streams";
    let mut crowd = match StreamCrowd::open(running.address, size.streams) {
        Ok(crowd) => crowd,
        // A program that cannot do it has no figure; the others count all the same.
        Err(error) => {
            eprintln!("not all streams were served: {error}");
            return Ok(Figure::new(what, f64::INFINITY, "ms"));
        }
    };
    std::thread::sleep(event_stream::SUBSCRIBE_DELAY);
    let path = part_path(part);
    let mut times = Vec::new();
    let used = running.cpu_millis()?;
    for round in 0..size.announcements {
        let mark = format!("to-everybody-{round}-");
        let mut announced = part.clone();
        announced["text"] = Value::from(mark.clone());
        let mut other = running.client()?;
        let began = Instant::now();
        let last = std::thread::scope(|scope| -> Fallible<Instant> {
            let path = &path;
            let announcing = scope.spawn(move || {
                let answered = other.request("PATCH", path, Some(&announced));
                answered.and_then(|answer| answer.json()).map_err(|error| error.to_string())
            });
            let last = crowd.wait_until_all_received(&mark)?;
            announcing.join().map_err(|_| "the change failed")??;
            Ok(last)
        })?;
        times.push(to_millis(last - began));
    }
    let cpu = (running.cpu_millis()? - used) / size.announcements as f64;
    Ok(Figure::new(what, median(times), "ms").with_cpu(cpu))
}

/// Reads of what was imported from the other program, compared with its own reads of the same.
fn measure_imported(
    importing: &ServerUnderTest,
    long_session: &str,
    size: WorkloadSize,
) -> Fallible<Vec<Figure>> {
    let running = importing.start()?;
    running.wait_until_booted()?;
    let list = format!("/session?limit={}", size.sessions);
    let messages = format!("/session/{long_session}/message");
    Ok(vec![
        measure_lists(&running, IMPORTED_LIST, &list, Some(size.sessions))?,
        measure_lists(&running, IMPORTED_READ, &messages, Some(size.messages))?,
    ])
}

/// Waits until a line with `mark` arrives and returns the moment it came.
fn wait_for_line(
    runtime: &tokio::runtime::Runtime,
    received: &mut mpsc::UnboundedReceiver<(Instant, String)>,
    mark: &str,
) -> Fallible<Instant> {
    loop {
        // The timer belongs to the runtime, so it is made inside of it.
        let wait = async { tokio::time::timeout(Duration::from_secs(60), received.recv()).await };
        let received = runtime.block_on(wait).map_err(|_| format!("no event {mark}"))?;
        let (at, line) = received.ok_or("the stream ended")?;
        if line.contains(mark) {
            return Ok(at);
        }
    }
}

/// How long a list takes to arrive; if `wanted` is given, it must hold so many items.
fn measure_lists(
    running: &RunningServer,
    what: &'static str,
    path: &str,
    wanted: Option<usize>,
) -> Fallible<Figure> {
    let mut client = running.client()?;
    let mut last = None;
    let (times, cpu) = measure_calls(running, LIST_CALLS, |_| {
        last = Some(client.get(path)?);
        Ok(())
    })?;
    let list = last.ok_or("nothing was asked")?.json()?;
    let found = list.as_array().map_or(0, Vec::len);
    if wanted.is_some_and(|wanted| wanted != found) {
        return Err(format!("{path}: {found} listed").into());
    }
    Ok(Figure::new(what, percentile_of_sorted(&times, 0.5), "ms").with_cpu(cpu))
}

/// How long the same takes if the client accepts compressed answers.
fn measure_gzip(running: &RunningServer, what: &'static str, path: &str) -> Fallible<Figure> {
    let mut client = running.client()?.with_header("accept-encoding", "gzip");
    let (times, cpu) = measure_calls(running, LIST_CALLS, |_| {
        let answer = client.get(path)?;
        if answer.status == 200 { Ok(()) } else { Err(format!("{path}: {}", answer.status).into()) }
    })?;
    Ok(Figure::new(what, percentile_of_sorted(&times, 0.5), "ms").with_cpu(cpu))
}

/// The milliseconds of each of `count` calls, sorted, and the CPU time of the server for one.
fn measure_calls(
    running: &RunningServer,
    count: usize,
    mut call: impl FnMut(usize) -> Fallible,
) -> Fallible<(Vec<f64>, f64)> {
    let mut times = Vec::with_capacity(count);
    let used = running.cpu_millis()?;
    for n in 0..count {
        let began = Instant::now();
        call(n)?;
        times.push(to_millis(began.elapsed()));
    }
    let cpu = (running.cpu_millis()? - used) / count as f64;
    times.sort_by(f64::total_cmp);
    Ok((times, cpu))
}

/// The figure below which `share` of the sorted figures lie.
fn percentile_of_sorted(sorted: &[f64], share: f64) -> f64 {
    let index = (sorted.len() as f64 * share) as usize;
    sorted.get(index.min(sorted.len().saturating_sub(1))).copied().unwrap_or(f64::NAN)
}
