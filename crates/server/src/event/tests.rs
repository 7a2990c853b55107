//! The hub by itself, without a socket.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::response::Response;
use futures_util::FutureExt as _;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use turnstone_core::time::EpochMillis;
use turnstone_engine::{Engine, EngineSettings, NewSession};
use turnstone_store::{Actor, Context};

use super::{EventHub, StreamFormat, StreamSubscription};
use crate::connection::StreamSocket;
use crate::connection::stream_socket_tests::{flush, socket_and_client};
use crate::peer::PeerId;

struct HubFixture {
    _dir: tempfile::TempDir,
    engine: Arc<Engine>,
    hub: EventHub,
    project: PathBuf,
}

fn hub_fixture() -> HubFixture {
    let dir = tempfile::tempdir().expect("a directory");
    let project = dir.path().join("project");
    fs_err::create_dir_all(&project).expect("made");
    let project = fs_err::canonicalize(project).expect("real");
    let settings = EngineSettings::new(&dir.path().join("data"));
    let engine = Arc::new(Engine::open(settings, EpochMillis(1)).expect("opens"));
    let hub = EventHub::new(engine.clone(), || EpochMillis(1), 8);
    HubFixture { _dir: dir, engine, hub, project }
}

impl HubFixture {
    fn create(&self, title: &str) {
        let ctx = Context::new(Actor::new("ada").expect("a name"), EpochMillis(1));
        let open = self.engine.projects().open(&ctx, &self.project).expect("a project");
        let new = NewSession { title: Some(title.to_owned()), ..NewSession::default() };
        let (id, at) = (&open.project.id, &self.project);
        self.engine
            .projects()
            .create_session_in(&ctx, id, &open.root, at, &new)
            .expect("a session");
    }

    async fn listen(&self, wire: StreamFormat, directory: Option<&Path>) -> Response {
        self.listen_at(wire, directory, None).await
    }

    async fn listen_at(
        &self,
        wire: StreamFormat,
        directory: Option<&Path>,
        socket: Option<Arc<StreamSocket>>,
    ) -> Response {
        let directory = directory.map(|at| at.to_string_lossy().into_owned());
        let opened = self
            .hub
            .open_stream(StreamSubscription {
                peer: PeerId::User(1),
                wire,
                directory,
                after: None,
                socket,
            })
            .await;
        opened.expect("a stream")
    }
}

/// What a stream says, up to its end.
async fn read_stream(stream: Response) -> Vec<Value> {
    read_and(stream, "", || {}).await
}

/// What a stream says, up to its end; calls `then` when it has said `marker`.
async fn read_and(stream: Response, marker: &str, then: impl Fn()) -> Vec<Value> {
    let (mut body, mut text) = (stream.into_body(), String::new());
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.expect("read").into_data() else { continue };
        text.push_str(std::str::from_utf8(&data).expect("text"));
        if text.contains(marker) {
            then();
        }
    }
    let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
    data.map(|json| serde_json::from_str(json).expect("JSON")).collect()
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.expect("a runtime").block_on(work)
}

#[test]
fn published_event_follows_log_and_dispose_ends_the_stream() {
    block_on(async {
        let home = hub_fixture();
        let stream = home.listen(StreamFormat::Instance, Some(&home.project)).await;
        for nth in 0..50 {
            home.create(&format!("{nth}"));
            home.hub.publish(&home.project, "tui.toast.show", json!({ "message": nth }));
            home.hub.publish("/elsewhere", "tui.toast.show", json!({ "message": "no" }));
            home.hub.publish_globally("global.disposed", json!({}));
        }
        let gone = json!({ "directory": home.project });
        home.hub.publish(&home.project, "server.instance.disposed", &gone);
        let received = read_stream(stream).await;
        let said = |event: &Value| match event["type"].as_str() {
            Some("session.created") => event["properties"]["info"]["title"].clone(),
            _ => event["properties"]["message"].clone(),
        };
        assert_eq!(received[0]["type"], "server.connected");
        for nth in 0..50 {
            let pair = &received[1 + 2 * nth..3 + 2 * nth];
            assert_eq!(pair[0]["type"], "session.created");
            assert_eq!((said(&pair[0]), said(&pair[1])), (json!(format!("{nth}")), json!(nth)));
        }
        assert_eq!(received[101]["type"], "server.instance.disposed");
        assert_eq!(received[101]["properties"], gone);
        assert_eq!(received.len(), 102);
    });
}

#[test]
fn global_stream_has_directories_and_ends_when_hub_closes() {
    block_on(async {
        let home = hub_fixture();
        let stream = home.listen(StreamFormat::Global, None).await;
        home.create("one");
        home.hub.publish(&home.project, "file.edited", json!({ "file": "/x" }));
        home.hub.publish_globally("global.disposed", json!({}));
        // The last event is read before the hub closes.
        let received = read_and(stream, "global.disposed", || home.hub.close()).await;
        let find = |kind: &str| received.iter().find(|event| event["payload"]["type"] == kind);
        let edited = find("file.edited").expect("told");
        assert_eq!(edited["directory"], json!(home.project));
        let made = find("session.created").expect("told");
        assert_eq!(edited["project"], made["project"]);
        assert_eq!(find("global.disposed").expect("told")["directory"], "global");
        assert!(find("project.updated").is_some_and(|event| event["directory"] == "global"));
    });
}

#[test]
fn waiting_stream_is_sent_events_while_its_task_sleeps() {
    block_on(async {
        let home = hub_fixture();
        let (mut socket, write_side, mut client) = socket_and_client().await;
        let here = Some(home.project.as_path());
        let waiting = Some(write_side.clone());
        let stream = home.listen_at(StreamFormat::Instance, here, waiting).await;
        let mut body = stream.into_body();
        let first = body.frame().await.expect("a frame").expect("read");
        assert!(first.into_data().is_ok_and(|data| data.ends_with(b"\n\n")));
        // It looks for requests that wait for an answer first.
        while !write_side.is_waiting() {
            assert!(body.frame().now_or_never().is_none(), "nothing happened yet");
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        flush(&mut socket).await;
        for title in ["one", "two"] {
            home.create(title);
            let (mut received, mut buffer) = (String::new(), [0; 1024]);
            while !received.contains(title) || !received.ends_with("\n\n\r\n") {
                let count = client.read(&mut buffer).expect("read");
                received.push_str(std::str::from_utf8(&buffer[..count]).expect("text"));
            }
            assert!(received.contains("data: {"), "{received}");
        }
        assert!(body.frame().now_or_never().is_none(), "it has nothing to send itself");
        home.hub.close();
        assert!(body.frame().await.is_none());
    });
}

#[test]
fn event_published_without_streams_is_dropped() {
    block_on(async {
        let home = hub_fixture();
        home.hub.publish(&home.project, "tui.toast.show", json!({}));
        let stream = home.listen(StreamFormat::Instance, Some(&home.project)).await;
        home.hub.publish(&home.project, "server.instance.disposed", json!({}));
        let kinds: Vec<Value> =
            read_stream(stream).await.iter().map(|it| it["type"].clone()).collect();
        assert_eq!(kinds, ["server.connected", "server.instance.disposed"]);
    });
}
