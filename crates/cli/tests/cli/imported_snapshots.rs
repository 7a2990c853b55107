//! `import --snapshots`: the files of imported turns, from the repositories in which OpenCode keeps its snapshots.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::fixture::{CliFixture, read_file};
use crate::imported_sessions::{request, serve};

/// What OpenCode passes to git in front of most commands.
const FLAGS: [&str; 6] =
    ["-c", "core.autocrlf=false", "-c", "core.longpaths=true", "-c", "core.symlinks=true"];
const CONFIG: [(&str, &str); 8] = [
    ("core.autocrlf", "false"),
    ("core.longpaths", "true"),
    ("core.symlinks", "true"),
    ("core.fsmonitor", "false"),
    ("feature.manyFiles", "true"),
    ("index.version", "4"),
    ("index.threads", "true"),
    ("core.untrackedCache", "true"),
];

/// A checkout, and a data directory of OpenCode with the snapshots of a session in it, made with the commands that
/// OpenCode runs.
struct OpenCodeSource {
    case: CliFixture,
    messages: Vec<Value>,
    /// The tree of the last snapshot.
    last: String,
    info: Value,
}

#[expect(clippy::disallowed_methods, reason = "the snapshots are made as OpenCode makes them")]
fn program(name: &str) -> Command {
    Command::new(name)
}

fn run_git(directory: &Path, args: &[&str], input: &[u8]) -> String {
    let mut git = program("git");
    git.args(args).current_dir(directory).env_clear().env("PATH", "/usr/bin:/bin:/usr/local/bin");
    git.env("HOME", directory).env("GIT_CONFIG_NOSYSTEM", "1");
    git.envs([("GIT_AUTHOR_NAME", "a"), ("GIT_AUTHOR_EMAIL", "a@b")]);
    git.envs([("GIT_COMMITTER_NAME", "a"), ("GIT_COMMITTER_EMAIL", "a@b")]);
    let mut child =
        git.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("git is installed");
    child.stdin.take().expect("a pipe").write_all(input).expect("written");
    let output = child.wait_with_output().expect("git ran");
    assert!(output.status.success(), "git {args:?}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

fn sha1(text: &str) -> String {
    let mut child = program("sha1sum")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("sha1sum is installed");
    child.stdin.take().expect("a pipe").write_all(text.as_bytes()).expect("written");
    let output = child.wait_with_output().expect("it ran");
    String::from_utf8_lossy(&output.stdout)[..40].to_owned()
}

/// Twenty lines, some of them replaced.
fn lines(replaced: &[(usize, &str)]) -> String {
    (1..=20)
        .map(|nth| {
            let found = replaced.iter().find(|(line, _)| *line == nth);
            found.map_or_else(|| format!("line {nth}\n"), |(_, text)| format!("{text}\n"))
        })
        .collect()
}

impl OpenCodeSource {
    fn new() -> Self {
        let case = CliFixture::empty();
        let root = fs_err::canonicalize(case.path("p")).expect("real path");
        let info = json!({ "id": "ses_imp", "slug": "s", "projectID": "proj", "version": "1",
            "directory": root, "title": "Imported", "time": { "created": 1000, "updated": 2020 } });
        let mut source = Self { case, messages: Vec::new(), last: String::new(), info };
        fs_err::write(source.at("a.txt"), lines(&[])).expect("written");
        fs_err::write(source.at("gone.txt"), "gone\n").expect("written");
        run_git(&root, &["init", "-q"], b"");
        run_git(&root, &["add", "."], b"");
        run_git(&root, &["commit", "-q", "-m", "first"], b"");
        source.initialize();
        source.last = source.track();
        source
    }

    fn at(&self, name: &str) -> PathBuf {
        fs_err::canonicalize(self.case.path("p")).expect("real path").join(name)
    }

    fn git_dir(&self) -> PathBuf {
        let name = sha1(self.at("").to_string_lossy().trim_end_matches('/'));
        self.case.path("opencode/snapshot/proj").join(name)
    }

    /// What OpenCode does before its first snapshot, seeding included.
    fn initialize(&self) {
        let (git_dir, worktree) = (self.git_dir(), self.at(""));
        fs_err::create_dir_all(&git_dir).expect("made");
        let ran = program("git")
            .arg("init")
            .env("GIT_DIR", &git_dir)
            .env("GIT_WORK_TREE", &worktree)
            .current_dir(&worktree)
            .output()
            .expect("git is installed");
        assert!(ran.status.success());
        let git_dir_text = git_dir.to_string_lossy().into_owned();
        for (key, value) in CONFIG {
            run_git(&worktree, &["--git-dir", &git_dir_text, "config", key, value], b"");
        }
        let objects = format!("{}\n", self.at(".git/objects").display());
        fs_err::write(git_dir.join("objects/info/alternates"), objects).expect("written");
        fs_err::copy(self.at(".git/index"), git_dir.join("index")).expect("copied");
    }

    fn snapshot_git(&self, args: &[&str], input: &[u8]) -> String {
        let (git_dir, worktree) = (self.git_dir(), self.at(""));
        let (git_dir, worktree) = (git_dir.to_string_lossy(), worktree.to_string_lossy());
        let place = ["--git-dir", &*git_dir, "--work-tree", worktree.trim_end_matches('/')];
        run_git(&self.at(""), &[&FLAGS[..], &place, args].concat(), input)
    }

    /// OpenCode's `track`.
    fn track(&self) -> String {
        let changed = self.snapshot_git(&["diff-files", "--name-only", "-z", "--", "."], b"");
        let others = ["ls-files", "--full-name", "--others", "--exclude-standard", "-z", "--", "."];
        let new = self.snapshot_git(&others, b"");
        let names = changed.split('\0').chain(new.split('\0')).filter(|name| !name.is_empty());
        let input: String = names.map(|name| format!(":(top,literal){name}\0")).collect();
        if !input.is_empty() {
            let add = ["--pathspec-from-file=-", "--pathspec-file-nul"];
            let add = [&["add", "--all", "--sparse"][..], &add].concat();
            self.snapshot_git(&add, input.as_bytes());
        }
        self.snapshot_git(&["write-tree"], b"").trim().to_owned()
    }

    /// A turn of the session that changes files, with the parts that OpenCode writes for it.
    fn turn(&mut self, change: impl FnOnce(&Self)) {
        change(self);
        let (before, after) = (self.last.clone(), self.track());
        let args = ["diff", "--cached", "--no-ext-diff", "--name-only", &before, "--", "."];
        let names = self.snapshot_git(&args, b"");
        let files: Vec<PathBuf> = names.lines().map(|name| self.at(name)).collect();
        self.last.clone_from(&after);
        let nth = self.messages.len() / 2;
        let (user, answer) = (format!("msg_{nth}a"), format!("msg_{nth}b"));
        let part = |message: &str, at: usize, mut body: Value| {
            body["id"] = format!("prt_{}_{at}", &message[4..]).into();
            (body["sessionID"], body["messageID"]) = ("ses_imp".into(), message.into());
            body
        };
        let created = 1000 * (nth + 1);
        let tokens =
            json!({ "input": 1, "output": 1, "reasoning": 0, "cache": { "read": 0, "write": 0 } });
        self.messages.push(json!({
            "info": { "role": "user", "id": user, "sessionID": "ses_imp", "agent": "build",
                "model": { "providerID": "p", "modelID": "m" }, "time": { "created": created } },
            "parts": [part(&user, 0, json!({ "type": "text", "text": format!("prompt {nth}") }))],
        }));
        self.messages.push(json!({
            "info": { "role": "assistant", "id": answer, "sessionID": "ses_imp", "mode": "build",
                "parentID": user, "providerID": "p", "modelID": "m", "cost": 0, "agent": "build",
                "path": { "cwd": self.at(""), "root": self.at("") }, "tokens": tokens,
                "time": { "created": created + 10, "completed": created + 20 } },
            "parts": [
                part(&answer, 0, json!({ "type": "step-start", "snapshot": before })),
                part(&answer, 1, json!({ "type": "text", "text": "done" })),
                part(&answer, 2, json!({ "type": "step-finish", "reason": "stop", "cost": 0,
                    "tokens": tokens, "snapshot": after })),
                part(&answer, 3, json!({ "type": "patch", "hash": before, "files": files })),
            ],
        }));
    }

    /// Writes the session as the files in which OpenCode kept it.
    fn store(&self) {
        let write = |name: String, value: &Value| {
            let path = self.case.path("opencode/storage").join(name);
            fs_err::create_dir_all(path.parent().expect("a folder")).expect("made");
            fs_err::write(path, value.to_string()).expect("written");
        };
        let project = json!({ "id": "proj", "worktree": self.info["directory"], "vcs": "git",
            "sandboxes": [], "time": { "created": 1, "updated": 1 } });
        write("project/proj.json".to_owned(), &project);
        write("session/proj/ses_imp.json".to_owned(), &self.info);
        for message in &self.messages {
            let id = message["info"]["id"].as_str().expect("an id");
            write(format!("message/ses_imp/{id}.json"), &message["info"]);
            for part in message["parts"].as_array().expect("a list") {
                let name = part["id"].as_str().expect("an id");
                write(format!("part/{id}/{name}.json"), part);
            }
        }
    }

    fn import(&self) -> Value {
        self.store();
        let report = self.case.run_json(&["import", "../opencode", "--snapshots"]);
        assert_eq!(report["kinds"]["part"]["rejected_count"], 0, "{report}");
        report["snapshots"].clone()
    }

    /// The usual session: two turns, and what a person did since.
    fn with_two_turns() -> Self {
        let mut source = Self::new();
        source.turn(|it| {
            fs_err::write(it.at("a.txt"), lines(&[(3, "agent 3")])).expect("written");
            fs_err::create_dir(it.at("new")).expect("made");
            fs_err::write(it.at("new/made.txt"), "made\n").expect("written");
            fs_err::remove_file(it.at("gone.txt")).expect("removed");
        });
        source.turn(|it| {
            let text = lines(&[(3, "agent 3"), (10, "agent 10")]);
            fs_err::write(it.at("a.txt"), text).expect("written");
        });
        let text = lines(&[(3, "agent 3"), (10, "agent 10"), (18, "person 18")]);
        fs_err::write(source.at("a.txt"), text).expect("written");
        source
    }

    fn text(&self, name: &str) -> String {
        read_file(&self.at(name))
    }
}

/// The files below a folder with their bytes.
fn contents(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs_err::read_dir(folder).expect("listed") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(contents(&path));
        } else {
            found.push((path.clone(), fs_err::read(&path).expect("read")));
        }
    }
    found.sort();
    found
}

/// Proves R21.
#[test]
fn files_of_imported_turns_are_undone_and_redone() {
    let source = OpenCodeSource::with_two_turns();
    let case = &source.case;
    source.store();
    let before = contents(&case.path("opencode"));
    let report = source.import();
    assert_eq!((&report["steps"], &report["files"]), (&json!(2), &json!(4)), "{report}");
    assert_eq!(report["left_out"], json!([]), "{report}");
    assert_eq!(contents(&case.path("opencode")), before, "the source is not changed");
    let again = source.import();
    assert_eq!((&again["steps"], &again["unchanged"]), (&json!(0), &json!(2)), "{again}");
    // Nothing needs the source any more.
    fs_err::remove_dir_all(case.path("opencode/snapshot")).expect("removed");

    let log = case.run(&["log"]).out;
    assert!(log.contains("a.txt") || log.contains("3 files"), "{log}");
    let dry = case.run(&["undo", "--session", "ses_imp", "--dry-run"]);
    assert!(dry.code == 0 && dry.out.contains("a.txt"), "{dry:?}");
    assert!(!dry.out.contains("not covered"), "{dry:?}");

    let ran = case.run(&["undo"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(source.text("a.txt"), lines(&[(3, "agent 3"), (18, "person 18")]));
    let ran = case.run(&["undo"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(source.text("a.txt"), lines(&[(18, "person 18")]));
    assert_eq!(source.text("gone.txt"), "gone\n");
    assert!(!source.at("new").exists() || !source.at("new/made.txt").exists());

    assert_eq!(case.run(&["redo"]).code, 0);
    assert_eq!(case.run(&["redo"]).code, 0);
    let text = lines(&[(3, "agent 3"), (10, "agent 10"), (18, "person 18")]);
    assert_eq!(source.text("a.txt"), text);
    assert_eq!(source.text("new/made.txt"), "made\n");
    assert!(!source.at("gone.txt").exists());
}

/// Proves R21.
#[test]
fn conflicts_with_imported_turns_are_reported_and_left_alone() {
    let source = OpenCodeSource::with_two_turns();
    let text = lines(&[(3, "agent 3"), (10, "person 10")]);
    fs_err::write(source.at("a.txt"), &text).expect("written");
    source.import();
    let ran = source.case.run(&["undo", "--session", "ses_imp"]);
    assert!(ran.code == 4 && ran.out.contains("a.txt"), "{ran:?}");
    assert_eq!(source.text("a.txt"), text);
}

/// Proves R21.
#[test]
fn snapshots_that_the_source_lost_are_named() {
    let source = OpenCodeSource::with_two_turns();
    // OpenCode's own collection keeps what its index and the seed hold.
    source.snapshot_git(&["gc", "--prune=now"], b"");
    let report = source.import();
    let left = report["left_out"].as_array().expect("a list");
    assert!(!left.is_empty(), "{report}");
    let reason = left[0]["reason"].as_str().expect("a reason");
    assert!(reason.contains("is gone from the source"), "{report}");
    let ran = source.case.run(&["import", "../opencode", "--snapshots"]);
    assert!(ran.err.contains("not covered: ~/p/a.txt") && ran.err.contains(reason), "{ran:?}");
    let dry = source.case.run(&["undo", "--session", "ses_imp", "--dry-run"]);
    assert!(dry.out.contains("a.txt"), "{dry:?}");
}

/// Proves R21.
#[test]
fn redo_of_an_imported_revert_restores_its_files() {
    let mut source = OpenCodeSource::with_two_turns();
    // OpenCode reverted the second turn, with its file.
    source.info["revert"] = json!({ "messageID": "msg_1a", "snapshot": source.last, "diff": "" });
    let reverted = lines(&[(3, "agent 3"), (18, "person 18")]);
    fs_err::write(source.at("a.txt"), reverted).expect("written");
    source.import();
    assert_eq!(source.case.run_json(&["log", "ses_imp"])["head"]["message"], "msg_1a");
    let ran = source.case.run(&["redo", "--session", "ses_imp"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let text = lines(&[(3, "agent 3"), (10, "agent 10"), (18, "person 18")]);
    assert_eq!(source.text("a.txt"), text);
    assert_eq!(source.case.run_json(&["log", "ses_imp"])["head"], Value::Null);
}

#[test]
fn hostile_snapshots_are_not_waited_for_and_change_nothing() {
    let mut source = OpenCodeSource::with_two_turns();
    // A configuration that runs programs, a pipe in place of an object and of a pack index, and files elsewhere.
    let proof = source.at("proof");
    let config = format!(
        "[core]\n\tfsmonitor = \"touch {0}\"\n\tsshCommand = \"touch {0}\"\n",
        proof.display()
    );
    fs_err::write(source.git_dir().join("config"), config).expect("written");
    let (folder, file) = source.last.split_at(2);
    let object = source.git_dir().join("objects").join(folder).join(file);
    fs_err::remove_file(&object).expect("a loose object");
    let made = program("mkfifo").arg(&object).status().expect("mkfifo is installed");
    assert!(made.success());
    let files = &mut source.messages[1]["parts"][3]["files"];
    let outside = ["/etc/hostname", "../q/x", ".git/config"].map(Value::from);
    files.as_array_mut().expect("a list").extend(outside);
    let report = source.import();
    assert_eq!(report["steps"], 1, "{report}");
    let reason = report["left_out"][0]["reason"].as_str().expect("a reason");
    assert!(reason.contains("is gone"), "{report}");
    let shown = source.case.run(&["undo", "trn_0a", "--dry-run", "--json"]);
    let shown: Value = serde_json::from_str(&shown.out).expect("JSON");
    assert_eq!(shown["outside"].as_array().map(Vec::len), Some(3), "{shown}");
    assert!(!proof.exists());
}

/// Proves R21: what `/undo` of a terminal client does.
#[test]
fn revert_over_http_restores_files_of_imported_turns() {
    let source = OpenCodeSource::with_two_turns();
    source.import();
    let server = serve(&source.case);
    let body = json!({ "messageID": "msg_0a" });
    let (status, shown) = request(&server, "POST", "/session/ses_imp/revert", &body);
    assert_eq!((status, &shown["revert"]["messageID"]), (200, &json!("msg_0a")), "{shown}");
    assert_eq!(source.text("a.txt"), lines(&[(18, "person 18")]));
    assert_eq!(source.text("gone.txt"), "gone\n");
    let (status, shown) = request(&server, "POST", "/session/ses_imp/unrevert", &json!({}));
    assert_eq!((status, shown.get("revert")), (200, None), "{shown}");
    let text = lines(&[(3, "agent 3"), (10, "agent 10"), (18, "person 18")]);
    assert_eq!(source.text("a.txt"), text);
}
