//! What is measured, and the table.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::event_stream;
use super::http_client::HttpClient;
use super::server_under_test::{RunningServer, ServerUnderTest};
use crate::Fallible;
use crate::measurement::{median, to_millis};

/// One line of the table.
struct ComparisonRow {
    operation: &'static str,
    ours: f64,
    peer: f64,
    /// The peer needs at least so many times as much.
    min_ratio: Option<f64>,
    /// Ours needs at most so much.
    max_value: Option<f64>,
    unit: &'static str,
}

/// The figures of one program, in the order of the table.
struct ServerFigures(Vec<(&'static str, f64, &'static str)>);

const GOALS: [(&str, Option<f64>, Option<f64>); 13] = [
    ("cold start to first answer", Some(20.0), Some(50.0)),
    ("memory, idle", Some(10.0), Some(30.0)),
    ("create a session, p50", Some(3.0), None),
    ("create a session, p99", Some(3.0), None),
    ("memory with 1,000 sessions", None, None),
    ("list 1,000 sessions", Some(5.0), None),
    ("read one session", None, None),
    ("read 1,000 messages, 5,000 parts", Some(5.0), None),
    ("fork of that session", Some(100.0), None),
    ("change a part, p50", Some(3.0), None),
    ("change a part → event arrives, p50", Some(3.0), None),
    ("change a part → event arrives, p99", Some(3.0), None),
    ("one event to 1,000 streams", None, None),
];

/// How much is done.
#[derive(Clone, Copy)]
struct WorkloadSize {
    cold_starts: usize,
    sessions: usize,
    messages: usize,
    writes: usize,
    streams: usize,
}

/// Runs both and prints the table.
pub(crate) fn run(words: &[String]) -> Fallible {
    let quick = words.iter().any(|word| word == "--quick");
    let size = if quick {
        WorkloadSize {
            cold_starts: 3,
            sessions: 1_000,
            messages: 1_000,
            writes: 200,
            streams: 1_000,
        }
    } else {
        WorkloadSize {
            cold_starts: 7,
            sessions: 1_000,
            messages: 1_000,
            writes: 1_000,
            streams: 1_000,
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
    let ours = named("--turnstone").map_or_else(find_built_turnstone, Ok)?;
    let peer = named("--opencode").map_or_else(install_opencode, Ok)?;
    let out = tempfile::tempdir()?;
    let ours = measure_server(&ServerUnderTest::new("turnstone", &ours, out.path())?, size)?;
    let peer = measure_server(&ServerUnderTest::new("opencode", &peer, out.path())?, size)?;
    print_table(&compare(&ours, &peer));
    Ok(())
}

/// The program that was built next to this one.
fn find_built_turnstone() -> Fallible<PathBuf> {
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

fn measure_server(program: &ServerUnderTest, size: WorkloadSize) -> Fallible<ServerFigures> {
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
        ("cold start to first answer", median(cold), "ms"),
        ("memory, idle", running.resident_mib()?, "MiB"),
    ];
    eprintln!("{}: {} sessions", program.name, size.sessions);
    let create = |client: &mut HttpClient, n: usize| {
        client.post("/session", &json!({ "title": format!("number {n}") }))?.json()
    };
    let times = measure_calls(size.sessions, |n| create(&mut client, n).map(drop))?;
    figures.push(("create a session, p50", percentile_of_sorted(&times, 0.5), "ms"));
    figures.push(("create a session, p99", percentile_of_sorted(&times, 0.99), "ms"));
    figures.push(("memory with 1,000 sessions", running.resident_mib()?, "MiB"));
    let path = format!("/session?limit={}", size.sessions);
    let listed = measure_lists(&mut client, &path, 20, size.sessions)?;
    figures.push(("list 1,000 sessions", percentile_of_sorted(&listed, 0.5), "ms"));
    figures.extend(measure_long_session(program, &running, &mut client, size)?);
    for (what, figure, unit) in &figures {
        eprintln!("{}: {what}: {figure:.2} {unit}", program.name);
    }
    Ok(ServerFigures(figures))
}

/// What one long session costs.
fn measure_long_session(
    program: &ServerUnderTest,
    running: &RunningServer,
    client: &mut HttpClient,
    size: WorkloadSize,
) -> Fallible<Vec<(&'static str, f64, &'static str)>> {
    eprintln!("{}: {} messages", program.name, size.messages);
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
    let mut figures = Vec::new();
    let one = measure_calls(50, |_| client.get(&format!("/session/{session}"))?.json().map(drop))?;
    figures.push(("read one session", percentile_of_sorted(&one, 0.5), "ms"));
    let read = measure_lists(client, &format!("/session/{session}/message"), 10, size.messages)?;
    figures.push(("read 1,000 messages, 5,000 parts", percentile_of_sorted(&read, 0.5), "ms"));
    let forks = measure_calls(2, |_| {
        client.post(&format!("/session/{session}/fork"), &json!({}))?.json().map(drop)
    })?;
    figures.push(("fork of that session", percentile_of_sorted(&forks, 0.5), "ms"));
    let part = last["parts"][0].clone();
    figures.extend(measure_part_changes(running, client, &part, size)?);
    Ok(figures)
}

/// Changes of a part: until they are answered, and until an event says so.
fn measure_part_changes(
    running: &RunningServer,
    client: &mut HttpClient,
    part: &Value,
    size: WorkloadSize,
) -> Fallible<Vec<(&'static str, f64, &'static str)>> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let name = |key: &str| part[key].as_str().unwrap_or_default().to_owned();
    let path =
        format!("/session/{}/message/{}/part/{}", name("sessionID"), name("messageID"), name("id"));
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
    for n in 0..size.writes {
        let mut changed = part.clone();
        let mark = format!("changed-{n}-");
        changed["text"] = Value::from(mark.clone());
        let began = Instant::now();
        client.request("PATCH", &path, Some(&changed))?.json()?;
        answered.push(to_millis(began.elapsed()));
        arrived.push(to_millis(wait_for_line(&runtime, &mut received, &mark)? - began));
    }
    ears.abort();
    answered.sort_by(f64::total_cmp);
    arrived.sort_by(f64::total_cmp);
    let mut figures = vec![
        ("change a part, p50", percentile_of_sorted(&answered, 0.5), "ms"),
        ("change a part → event arrives, p50", percentile_of_sorted(&arrived, 0.5), "ms"),
        ("change a part → event arrives, p99", percentile_of_sorted(&arrived, 0.99), "ms"),
    ];
    let mut announced = part.clone();
    announced["text"] = Value::from("to-everybody");
    let mut other = running.client()?;
    let announce = move || other.request("PATCH", &path, Some(&announced))?.json().map(drop);
    eprintln!("{} streams", size.streams);
    let spread = event_stream::measure_fan_out(address, size.streams, "to-everybody", announce);
    let spread = match runtime.block_on(spread) {
        Ok(spread) => to_millis(spread),
        // A program that cannot do it has no figure; the others count all the same.
        Err(error) => {
            eprintln!("not all streams were served: {error}");
            f64::INFINITY
        }
    };
    figures.push(("one event to 1,000 streams", spread, "ms"));
    Ok(figures)
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

/// The milliseconds until a list has arrived, `count` times, sorted; it must hold `wanted` things.
fn measure_lists(
    client: &mut HttpClient,
    path: &str,
    count: usize,
    wanted: usize,
) -> Fallible<Vec<f64>> {
    let mut last = None;
    let times = measure_calls(count, |_| {
        last = Some(client.get(path)?);
        Ok(())
    })?;
    let list = last.ok_or("nothing was asked")?.json()?;
    let found = list.as_array().map_or(0, Vec::len);
    if found == wanted { Ok(times) } else { Err(format!("{path}: {found} listed").into()) }
}

/// The milliseconds of each of `count` calls, sorted.
fn measure_calls(count: usize, mut call: impl FnMut(usize) -> Fallible) -> Fallible<Vec<f64>> {
    let mut times = Vec::with_capacity(count);
    for n in 0..count {
        let began = Instant::now();
        call(n)?;
        times.push(to_millis(began.elapsed()));
    }
    times.sort_by(f64::total_cmp);
    Ok(times)
}

/// The figure below which `share` of the sorted figures lie.
fn percentile_of_sorted(sorted: &[f64], share: f64) -> f64 {
    let index = (sorted.len() as f64 * share) as usize;
    sorted.get(index.min(sorted.len().saturating_sub(1))).copied().unwrap_or(f64::NAN)
}

fn compare(ours: &ServerFigures, peer: &ServerFigures) -> Vec<ComparisonRow> {
    let row = |(mine, theirs): (&(&'static str, f64, &'static str), &(&str, f64, &str))| {
        let (_, floor, most) = GOALS
            .iter()
            .find(|(name, ..)| *name == mine.0)
            .copied()
            .unwrap_or((mine.0, None, None));
        ComparisonRow {
            operation: mine.0,
            ours: mine.1,
            peer: theirs.1,
            min_ratio: floor,
            max_value: most,
            unit: mine.2,
        }
    };
    ours.0.iter().zip(&peer.0).map(row).collect()
}

fn print_table(rows: &[ComparisonRow]) {
    println!("| what | turnstone | opencode | ratio | floor | reached |");
    println!("|---|---|---|---|---|---|");
    let mut missed = 0;
    for row in rows {
        let ratio = row.peer / row.ours;
        let floor = row.min_ratio.map(|floor| format!("≥ {floor}×"));
        let most = row.max_value.map(|most| format!("≤ {most} {}", row.unit));
        let goal: Vec<String> = floor.into_iter().chain(most).collect();
        let is_reached = row.min_ratio.is_none_or(|floor| ratio >= floor)
            && row.max_value.is_none_or(|most| row.ours <= most);
        missed += usize::from(!is_reached);
        let reached = if goal.is_empty() {
            "–"
        } else if is_reached {
            "yes"
        } else {
            "NO"
        };
        let (what, unit) = (row.operation, row.unit);
        println!(
            "| {what} | {:.2} {unit} | {:.2} {unit} | {ratio:.1}× | {} | {reached} |",
            row.ours,
            row.peer,
            if goal.is_empty() { "–".to_owned() } else { goal.join(", ") },
        );
    }
    println!(
        "{}",
        if missed == 0 { "all floors reached".to_owned() } else { format!("{missed} missed") }
    );
}
