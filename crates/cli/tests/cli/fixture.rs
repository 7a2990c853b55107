//! A data directory with a few sessions in it, and the program to run on it.

use std::path::{Path, PathBuf};

use assert_cmd::Command;
use serde_json::{Value, json};
use tempfile::TempDir;
use turnstone_core::model::{Message, Part, Project, Session, Todo};
use turnstone_core::time::EpochMillis;
use turnstone_core::wire::{self, ParseMode};
use turnstone_store::{Actor, Context, DataLayout, Options, Store};

/// 2024-05-01 10:00:00 UTC.
pub(crate) const START_MILLIS: i64 = 1_714_557_600_000;
/// A title that tries to take the terminal over.
pub(crate) const HOSTILE_TITLE: &str = "\u{1b}]0;owned\u{7}\u{1b}[31mred\u{1b}[2J\u{202e}end";

/// A temporary data directory and a directory to work in.
pub(crate) struct CliFixture {
    root: TempDir,
}

/// What a run of the program gave.
#[derive(Debug)]
pub(crate) struct ProgramOutput {
    pub(crate) out: String,
    pub(crate) err: String,
    pub(crate) code: i32,
}

impl CliFixture {
    /// An empty data directory.
    pub(crate) fn empty() -> Self {
        let case = Self { root: tempfile::tempdir().expect("temporary directory") };
        for place in ["p/src", "p-two", "q", "nowhere"] {
            fs_err::create_dir_all(case.path(place)).expect("directory");
        }
        case
    }

    /// Two projects: `tide` with four sessions in two checkouts, `quay` with one.
    pub(crate) fn with_sessions() -> Self {
        let case = Self::empty();
        let store = case.open_store();
        case.insert_projects(&store);
        case.insert_session(
            &store,
            "ses_aaa1",
            "tide",
            "p",
            40,
            &json!({ "title": "Fix the tide table" }),
        );
        let child = json!({ "title": "Look for tides", "parentID": "ses_aaa1" });
        case.insert_session(&store, "ses_aab2", "tide", "p/src", 30, &child);
        let title = "A very long title that no terminal of eighty columns could ever show whole";
        case.insert_session(&store, "ses_abc3", "tide", "p/src", 20, &json!({ "title": title }));
        case.insert_session(
            &store,
            "ses_two4",
            "tide",
            "p-two",
            10,
            &json!({ "title": "In the other checkout" }),
        );
        case.insert_session(&store, "ses_far5", "quay", "q", 5, &json!({ "title": HOSTILE_TITLE }));
        case.insert_conversation(&store);
        case
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    pub(crate) fn data_dir(&self) -> PathBuf {
        self.path("data")
    }

    pub(crate) fn open_store(&self) -> Store {
        let mut options = Options::new(DataLayout::new(self.data_dir()), EpochMillis(START_MILLIS));
        options.safety_tick = false;
        Store::open(&options).expect("store opens")
    }

    pub(crate) fn context() -> Context {
        Context::new(Actor::new("ada").expect("actor"), EpochMillis(START_MILLIS))
    }

    fn insert_projects(&self, store: &Store) {
        let time = json!({ "created": START_MILLIS, "updated": START_MILLIS });
        let root = |name: &str| self.path(name);
        let tide = json!({ "id": "tide", "worktree": root("p"), "sandboxes": [root("p-two")], "time": time });
        let quay = json!({ "id": "quay", "worktree": root("q"), "sandboxes": [], "time": time });
        for value in [tide, quay] {
            let project: Project = serde_json::from_value(value).expect("project");
            store
                .write(&Self::context(), move |tx| tx.projects().put(&project))
                .wait()
                .expect("stored");
        }
    }

    /// Stores a session changed `minutes` after the start.
    pub(crate) fn insert_session(
        &self,
        store: &Store,
        id: &str,
        project: &str,
        place: &str,
        minutes: i64,
        more: &Value,
    ) {
        let mut value = json!({
            "id": id, "slug": "keen-plover", "projectID": project, "directory": self.path(place),
            "version": "1", "title": "",
            "time": { "created": START_MILLIS, "updated": START_MILLIS + minutes * 60_000 },
        });
        for (key, field) in more.as_object().expect("fields") {
            value[key] = field.clone();
        }
        let session: Session = serde_json::from_value(value).expect("session");
        store
            .write(&Self::context(), move |tx| tx.sessions().create(&session))
            .wait()
            .expect("stored");
    }

    fn insert_conversation(&self, store: &Store) {
        let conversation: Value = serde_json::from_str(CONVERSATION_JSON).expect("JSON");
        for (info, parts) in
            conversation.as_array().expect("list").iter().map(|m| (&m["info"], &m["parts"]))
        {
            let message: Message = wire::parse_message(info.clone()).expect("message");
            let parts: Vec<Part> = parts
                .as_array()
                .expect("list")
                .iter()
                .enumerate()
                .map(|(index, part)| {
                    let mut part = part.clone();
                    part["id"] = json!(format!("prt_{}{index}", message.id));
                    part["messageID"] = json!(message.id);
                    part["sessionID"] = json!(message.session);
                    wire::parse_part(part, ParseMode::Lenient).expect("part")
                })
                .collect();
            let write = store.write(&Self::context(), move |tx| {
                tx.messages().put(&message)?;
                parts.iter().try_for_each(|part| tx.messages().put_part(part).map(drop))
            });
            write.wait().expect("stored");
        }
        let todos: Vec<Todo> = serde_json::from_value(json!([
            { "content": "read the table", "status": "completed", "priority": "high" },
            { "content": "mend \u{1b}[1mit", "status": "in_progress", "priority": "high" },
        ]))
        .expect("todos");
        let id = "ses_aaa1".parse().expect("id");
        store
            .write(&Self::context(), move |tx| tx.sessions().set_todos(&id, &todos))
            .wait()
            .expect("stored");
    }

    /// The program, started in `place`.
    pub(crate) fn command(&self, place: &str, args: &[&str]) -> Command {
        let mut command = Command::cargo_bin("turnstone").expect("the program is built");
        command
            .env_clear()
            .env("TZ", "UTC")
            .env("USER", "ada")
            .env("HOME", self.path("home"))
            .env("TURNSTONE_DATA", self.data_dir())
            .current_dir(self.path(place))
            .args(args);
        command
    }

    /// Runs the program in `p`.
    pub(crate) fn run(&self, args: &[&str]) -> ProgramOutput {
        self.run_in("p", args)
    }

    /// Runs the program in `place`.
    pub(crate) fn run_in(&self, place: &str, args: &[&str]) -> ProgramOutput {
        self.run_command(&mut self.command(place, args))
    }

    /// Runs a command; the temporary directory is shown as `~` in its output.
    pub(crate) fn run_command(&self, command: &mut Command) -> ProgramOutput {
        let output = command.output().expect("the program runs");
        let root = fs_err::canonicalize(self.root.path()).expect("real path");
        let text = |bytes: Vec<u8>| {
            let text = String::from_utf8(bytes).expect("UTF-8");
            let text = text.replace(&*root.to_string_lossy(), "~");
            text.replace(&*self.root.path().to_string_lossy(), "~")
        };
        ProgramOutput {
            out: text(output.stdout),
            err: text(output.stderr),
            code: output.status.code().expect("it was not killed"),
        }
    }

    /// Runs the program and parses its output as JSON.
    pub(crate) fn run_json(&self, args: &[&str]) -> Value {
        let ran = self.run(&[args, &["--json"]].concat());
        assert_eq!(ran.code, 0, "{ran:?}");
        serde_json::from_str(&ran.out).expect("one JSON document")
    }
}

/// Every file below a directory with its bytes, to see that nothing changed.
pub(crate) fn list_all_sessions(case: &CliFixture) -> Value {
    case.run_json(&["session", "list", "--all", "--archived", "--children"])["sessions"].take()
}

/// A file that a test wrote.
pub(crate) fn read_file(path: &Path) -> String {
    fs_err::read_to_string(path).expect("readable")
}

const CONVERSATION_JSON: &str = r#"[
{"info":{"id":"msg_1","sessionID":"ses_aaa1","role":"user","time":{"created":1714557600000},
  "agent":"build","model":{"providerID":"acme","modelID":"gull-2"}},
 "parts":[{"type":"text","text":"The tide table is wrong by an hour in summer.\nPlease mend it, and tell me in a few words what was the matter with it."},
  {"type":"file","mime":"text/plain","filename":"tide.txt","url":"data:text/plain;base64,aGk="}]},
{"info":{"id":"msg_2","sessionID":"ses_aaa1","role":"assistant","parentID":"msg_1",
  "time":{"created":1714557601000,"completed":1714557660000},"modelID":"gull-2","providerID":"acme",
  "mode":"build","agent":"build","path":{"cwd":"/","root":"/"},"cost":0.0123,"finish":"stop",
  "tokens":{"input":1200,"output":340,"reasoning":56,"cache":{"read":7000,"write":0}}},
 "parts":[{"type":"step-start","snapshot":"4b825dc6"},
  {"type":"reasoning","text":"one\ntwo\nthree\nfour\nfive","time":{"start":1714557601000,"end":1714557602000}},
  {"type":"tool","callID":"c1","tool":"bash","state":{"status":"completed","input":{"command":"grep -n tide table.rs"},
   "output":"1: tide\n2: tide\n3: tide\n4: tide\n5: tide\n6: tide\n7: tide\n","title":"grep","metadata":{},
   "time":{"start":1714557603000,"end":1714557605500}}},
  {"type":"tool","callID":"c2","tool":"edit","state":{"status":"error","input":{"filePath":"/p/table.rs","oldString":"a"},
   "error":"oldString not found","time":{"start":1714557606000,"end":1714557606100}}},
  {"type":"text","text":"It forgot summer time. Mended."},
  {"type":"step-finish","reason":"stop","snapshot":"4b825dc6","cost":0.0123,
   "tokens":{"input":1200,"output":340,"reasoning":56,"cache":{"read":7000,"write":0}}},
  {"type":"patch","hash":"4b825dc6","files":["/p/table.rs"]}]},
{"info":{"id":"msg_3","sessionID":"ses_aaa1","role":"assistant","parentID":"msg_1",
  "time":{"created":1714557700000,"completed":1714557701000},"modelID":"gull-2","providerID":"acme",
  "mode":"build","path":{"cwd":"/","root":"/"},"cost":0,"error":{"name":"APIError","data":{"message":"the model is away","isRetryable":true}},
  "tokens":{"input":0,"output":0,"reasoning":0,"cache":{"read":0,"write":0}}},
 "parts":[]}
]"#;
