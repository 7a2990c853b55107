//! `turnstone serve` answers prompts with its own agent; the model is a scripted server.

use std::path::PathBuf;

use serde_json::{Value, json};
use turnstone_testkit::scripted_model::ScriptedModelServer;

use crate::fixture::CliFixture;
use crate::serve_client::{ServeClient, text, texts};
use crate::serve_process::{ServeProcess, start_serve};
use crate::serve_shutdown::{send_signals, wait_for_exit};

const MODEL: [(&str, &str); 2] = [("providerID", "scripted"), ("modelID", "scripted")];

/// A home whose configuration names the scripted model, a project, and a running server.
struct AgentCase {
    case: CliFixture,
    model: ScriptedModelServer,
    served: ServeProcess,
    client: ServeClient,
}

impl AgentCase {
    fn new() -> Self {
        Self::with_args(&[])
    }

    fn with_args(args: &[&str]) -> Self {
        let case = CliFixture::empty();
        let model = ScriptedModelServer::start(None).expect("starts");
        let config = json!({
            "model": "scripted/scripted",
            "permission": {"bash": {"*": "allow", "touch *": "ask"}},
            "command": {"greet": {"template": "Greet $ARGUMENTS"}},
            "provider": {"scripted": {
                "npm": "@ai-sdk/openai-compatible",
                "options": {"baseURL": model.url(), "apiKey": "none"},
                "models": {"scripted": {"tool_call": true, "limit": {"context": 200_000, "output": 8_000}}},
            }},
        });
        let folder = case.path("home/.config/opencode");
        fs_err::create_dir_all(&folder).expect("made");
        fs_err::write(folder.join("opencode.json"), config.to_string()).expect("written");
        let served = start(&case, args);
        let client = ServeClient { address: served.address.clone() };
        Self { case, model, served, client }
    }

    /// Starts another server on the same data, after this one was killed.
    fn restart_killed(mut self) -> Self {
        self.served.child.kill().expect("killed");
        self.served.child.wait().expect("gone");
        self.restart_ended()
    }

    fn restart_ended(self) -> Self {
        let Self { case, model, served: _, client: _ } = self;
        let served = start(&case, &[]);
        let client = ServeClient { address: served.address.clone() };
        Self { case, model, served, client }
    }

    /// Waits until the turn of a session waits for a person: a crash from here on loses nothing.
    fn wait_until_suspended(&self, session: &str) {
        let path = format!("/turnstone/session/{session}");
        for _ in 0..6_000 {
            if self.client.get(&path)["turn"]["state"] == "waiting" {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        panic!("the turn of {session} does not wait");
    }

    fn project(&self) -> PathBuf {
        fs_err::canonicalize(self.case.path("p")).expect("there")
    }

    fn file(&self, name: &str) -> String {
        self.project().join(name).to_string_lossy().into_owned()
    }
}

fn start(case: &CliFixture, args: &[&str]) -> ServeProcess {
    let all = [&["serve", "--port", "0", "--json"], args].concat();
    start_serve(case, &all, |command| {
        command.stderr(std::process::Stdio::null());
    })
}

/// A prompt that tells the model what to answer.
fn prompt(words: &str, turns: &Value) -> Value {
    let model: Value = MODEL
        .into_iter()
        .map(|(k, v)| (k.to_owned(), json!(v)))
        .collect::<serde_json::Map<_, _>>()
        .into();
    json!({"agent": "build", "model": model, "parts": [{"type": "text", "text": format!("{words} {turns}")}]})
}

fn message_path(session: &str) -> String {
    format!("/session/{session}/message")
}

/// The tool calls of a session: name and state.
fn calls(client: &ServeClient, session: &str) -> Vec<(String, Value)> {
    let messages = client.messages(session);
    let parts = messages.iter().flat_map(|it| it["parts"].as_array().expect("parts"));
    let calls = parts.filter(|part| part["type"] == "tool");
    calls.map(|part| (text(&part["tool"]), part["state"].clone())).collect()
}

#[test]
fn prompt_is_answered_with_tools_and_undone_without_the_persons_edit() {
    let it = AgentCase::new();
    let session = it.client.create_session();
    let mut events = it.client.events("/global/event");
    let turns = json!([
        [{"reasoning": "Hm."}, {"text": "Writing.", "delta_chars": 3},
         {"tool": "write", "input": {"filePath": it.file("a.txt"), "content": "one\ntwo\nthree\nfour\nfive\n"}}],
        [{"tool": "edit", "input": {"filePath": it.file("a.txt"), "oldString": "five", "newString": "FIVE"}},
         {"tool": "todowrite", "input": {"todos": [{"content": "Tide", "status": "pending", "priority": "high"}]}}],
        [{"text": "Done."}],
    ]);
    let answer = it.client.post(&message_path(&session), &prompt("Write.", &turns));
    events.wait_for_idle(&session);

    assert_eq!(texts(&answer), "Done.", "{answer}");
    assert_eq!(answer["info"]["finish"], "stop");
    let file = it.project().join("a.txt");
    assert_eq!(fs_err::read_to_string(&file).expect("written"), "one\ntwo\nthree\nfour\nFIVE\n");
    let states: Vec<_> = calls(&it.client, &session);
    assert!(states.iter().all(|(_, state)| state["status"] == "completed"), "{states:?}");
    let kinds = events.kinds();
    for kind in ["session.status", "message.part.delta", "todo.updated", "session.updated"] {
        assert!(kinds.contains(&kind), "{kind} in {kinds:?}");
    }
    assert_eq!(it.client.get(&format!("/session/{session}/todo"))[0]["content"], "Tide");
    events.wait_for("session.diff", |it| it["diff"].as_array().is_some_and(|it| it.len() == 1));

    fs_err::write(&file, "mine\none\ntwo\nthree\nfour\nFIVE\n").expect("written");
    let body = json!({"messageID": answer["info"]["parentID"]});
    it.client.post(&format!("/session/{session}/revert"), &body);
    assert_eq!(fs_err::read_to_string(&file).expect("kept"), "mine\n");
    it.client.post(&format!("/session/{session}/unrevert"), &json!({}));
    let text = fs_err::read_to_string(&file).expect("there");
    assert_eq!(text, "mine\none\ntwo\nthree\nfour\nFIVE\n");
}

#[test]
fn commands_compaction_subagents_and_questions_work_over_http() {
    let it = AgentCase::new();
    let session = it.client.create_session();
    let mut events = it.client.events("/event");
    let said = it.client.post(
        &format!("/session/{session}/command"),
        &json!({"command": "greet", "arguments": "[[{\"text\":\"Hello.\"}]]"}),
    );
    assert_eq!(texts(&said), "Hello.");
    events.wait_for("session.updated", |it| it["info"]["title"] == "Scripted answer");

    let child = json!([[{"tool": "bash", "input": {"command": "touch deep.txt", "description": "touches"}}], [{"text": "Looked."}]]);
    let turns = json!([
        [{"tool": "task", "input": {"description": "look", "prompt": format!("Look. {child}"), "subagent_type": "general"}}],
        [{"tool": "question", "input": {"questions": [{"question": "Which?", "header": "Pick",
            "options": [{"label": "red", "description": "r"}, {"label": "blue", "description": "b"}]}]}}],
        [{"text": "All done."}],
    ]);
    let sent = it.client.request(
        "POST",
        &format!("/session/{session}/prompt_async"),
        &prompt("Go.", &turns),
    );
    assert_eq!(sent.0, 204);
    let ask = events.wait_for("permission.asked", |_| true);
    assert_ne!(ask["sessionID"], json!(session), "the subagent asks in its own session");
    let children = it.client.get(&format!("/session/{session}/children"));
    assert_eq!(children[0]["id"], ask["sessionID"]);
    assert_eq!(children[0]["title"], "look (@general subagent)");
    it.client.post(&format!("/permission/{}/reply", text(&ask["id"])), &json!({"reply": "once"}));
    let question = events.wait_for("question.asked", |it| it["sessionID"] == session);
    let path = format!("/question/{}/reply", text(&question["id"]));
    it.client.post(&path, &json!({"answers": [["blue"]]}));
    events.wait_for_idle(&session);
    let known = calls(&it.client, &session);
    assert!(text(&known[0].1["output"]).contains("Looked."), "{known:?}");
    assert!(text(&known[1].1["output"]).contains("blue"), "{known:?}");
    assert!(it.project().join("deep.txt").exists());

    let model = json!({"providerID": "scripted", "modelID": "scripted"});
    assert_eq!(it.client.post(&format!("/session/{session}/summarize"), &model), json!(true));
    events.wait_for("session.compacted", |it| it["sessionID"] == session);
    let after = it
        .client
        .post(&message_path(&session), &prompt("And?", &json!([[{"text": "Still here."}]])));
    assert_eq!(texts(&after), "Still here.");
    let asked = it.model.requests().last().expect("a request").text();
    assert!(!asked.contains("Greet"), "the summary takes the place of what was said: {asked}");
    let mut init = model;
    init["messageID"] = json!("msg_zzzzzzzzzzzzinit");
    assert_eq!(it.client.post(&format!("/session/{session}/init"), &init), json!(true));
}

#[test]
fn retry_is_shown_and_abort_ends_it_at_once() {
    let it = AgentCase::new();
    let session = it.client.create_session();
    let mut events = it.client.events("/event");
    let turns = json!([[{"http": {"status": 503, "headers": {"retry-after": "600"}, "body": {"error": {"message": "busy"}}, "times": 9}}, {"text": "x"}]]);
    let open = it.client.post_later(&message_path(&session), &prompt("Try.", &turns));
    let shown = events.wait_for("session.status", |it| it["status"]["type"] == "retry");
    assert_eq!(shown["status"]["attempt"], 1, "{shown}");
    assert_eq!(it.client.get("/session/status")[&session]["type"], "retry");
    assert_eq!(it.client.post(&format!("/session/{session}/abort"), &json!({})), json!(true));
    let (status, answer) = open.join().expect("answered");
    assert_eq!(
        (status, &answer["info"]["error"]["name"]),
        (200, &json!("MessageAbortedError")),
        "{answer}"
    );

    let forever = it.file("never");
    let turns = json!([[{"text": "I could go on"}, {"wait_for_file": forever}]]);
    let open = it.client.post_later(&message_path(&session), &prompt("Talk.", &turns));
    events.wait_for("message.part.delta", |it| {
        it["delta"].as_str().is_some_and(|it| it.contains('I'))
    });
    assert_eq!(it.client.post(&format!("/session/{session}/abort"), &json!({})), json!(true));
    let (_, answer) = open.join().expect("answered");
    assert_eq!(texts(&answer), "I could go on");
    assert_eq!(answer["info"]["error"]["name"], "MessageAbortedError");
    let next =
        it.client.post(&message_path(&session), &prompt("Next.", &json!([[{"text": "Fine."}]])));
    assert_eq!(texts(&next), "Fine.");
}

#[test]
fn abort_ends_commands_and_withdraws_asks() {
    let it = AgentCase::new();
    let session = it.client.create_session();
    let mut events = it.client.events("/event");
    let bash = |line: &str| json!([[{"tool": "bash", "input": {"command": line, "description": "runs"}}], [{"text": "x"}]]);
    let abort = || {
        assert_eq!(it.client.post(&format!("/session/{session}/abort"), &json!({})), json!(true));
    };
    let runs = prompt("Run.", &bash("echo begun; exec sleep 1000"));
    let open = it.client.post_later(&message_path(&session), &runs);
    events.wait_for("message.part.updated", |it| {
        let output = it["part"]["state"]["metadata"]["output"].as_str();
        output.is_some_and(|output| output.contains("begun"))
    });
    abort();
    let (_, answer) = open.join().expect("answered");
    assert_eq!(answer["info"]["error"]["name"], "MessageAbortedError", "{answer}");
    let (_, state) = calls(&it.client, &session).remove(0);
    assert!(state.to_string().contains("begun"), "{state}");

    let asks = prompt("Touch.", &bash("touch never.txt"));
    let open = it.client.post_later(&message_path(&session), &asks);
    let ask = events.wait_for("permission.asked", |_| true);
    abort();
    let gone = events.wait_for("permission.replied", |_| true);
    assert_eq!((&gone["requestID"], &gone["reply"]), (&ask["id"], &json!("reject")));
    let (_, answer) = open.join().expect("answered");
    assert_eq!(answer["info"]["error"]["name"], "MessageAbortedError", "{answer}");
    assert_eq!(it.client.get("/permission"), json!([]));
    assert!(!it.project().join("never.txt").exists());
}

#[test]
fn subagent_that_asks_survives_a_killed_server() {
    let it = AgentCase::new();
    let session = it.client.create_session();
    let mut events = it.client.events("/event");
    let child = json!([[{"tool": "bash", "input": {"command": "touch deep.txt", "description": "touches"}}], [{"text": "Looked."}]]);
    let turns = json!([
        [{"tool": "task", "input": {"description": "look", "prompt": format!("Look. {child}"), "subagent_type": "general"}}],
        [{"text": "All done."}],
    ]);
    let open = it.client.post_later(&message_path(&session), &prompt("Go.", &turns));
    let ask = events.wait_for("permission.asked", |_| true);
    it.wait_until_suspended(&session);
    let it = it.restart_killed();
    drop((open.join(), events));

    let mut events = it.client.events("/event");
    assert_eq!(events.wait_for("permission.asked", |_| true), ask);
    it.client.post(&format!("/permission/{}/reply", text(&ask["id"])), &json!({"reply": "once"}));
    events.wait_for_idle(&session);
    assert!(it.project().join("deep.txt").exists());
    assert_eq!(texts(it.client.messages(&session).last().expect("an answer")), "All done.");
    let known = calls(&it.client, &session);
    assert_eq!(known.len(), 1, "{known:?}");
    assert!(text(&known[0].1["output"]).contains("Looked."), "{known:?}");
    assert_eq!(
        it.client.get(&format!("/session/{session}/children")).as_array().map(Vec::len),
        Some(1)
    );
}

#[test]
fn prompt_during_a_shell_command_is_answered_after_it() {
    let it = AgentCase::new();
    let session = it.client.create_session();
    let mut events = it.client.events("/event");
    let line = "while [ ! -e go ]; do sleep 0.05; done; echo ran";
    let shell = json!({"agent": "build", "command": line});
    let open = it.client.post_later(&format!("/session/{session}/shell"), &shell);
    events.wait_for("session.status", |it| it["status"]["type"] == "busy");
    let asked = prompt("Next.", &json!([[{"text": "After it."}]]));
    let sent = it.client.request("POST", &format!("/session/{session}/prompt_async"), &asked);
    assert_eq!(sent.0, 204);
    fs_err::write(it.project().join("go"), "").expect("written");
    assert_eq!(open.join().expect("answered").0, 200);
    events.wait_for("message.part.updated", |it| it["part"]["text"] == "After it.");
}

#[test]
fn killed_server_keeps_text_and_asks_and_goes_on() {
    let it = AgentCase::new();
    let session = it.client.create_session();
    let mut events = it.client.events("/event");
    let never = it.file("never");
    let turns = json!([[{"text": "Half of it"}, {"wait_for_file": never}]]);
    let open = it.client.post_later(&message_path(&session), &prompt("Talk.", &turns));
    events.wait_for("message.part.delta", |_| true);
    let asking = it.client.create_session();
    let turns = json!([[{"tool": "bash", "input": {"command": "touch asked.txt", "description": "touches"}}], [{"text": "Touched."}]]);
    let waiting = it.client.post_later(&message_path(&asking), &prompt("Touch.", &turns));
    let ask = events.wait_for("permission.asked", |_| true);
    // From here on the turn waits for a person, and nothing of it is lost.
    it.wait_until_suspended(&asking);
    let it = it.restart_killed();
    drop((open.join(), waiting.join(), events));

    let messages = it.client.messages(&session);
    let cut = messages.last().expect("a message");
    assert_eq!(texts(cut), "Half of it");
    assert_eq!(cut["info"]["error"]["name"], "MessageAbortedError", "{cut}");
    let mut events = it.client.events("/global/event");
    let again = events.wait_for("permission.asked", |_| true);
    assert_eq!(again, ask, "the request is announced to a client that connects later");
    it.client.post(&format!("/permission/{}/reply", text(&ask["id"])), &json!({"reply": "once"}));
    events.wait_for_idle(&asking);
    assert!(it.project().join("asked.txt").exists());
    assert_eq!(texts(it.client.messages(&asking).last().expect("an answer")), "Touched.");
    let next =
        it.client.post(&message_path(&session), &prompt("Next.", &json!([[{"text": "Fine."}]])));
    assert_eq!(texts(&next), "Fine.");
}

#[test]
fn sigterm_ends_a_running_turn_as_interrupted() {
    let it = AgentCase::new();
    let session = it.client.create_session();
    let mut events = it.client.events("/event");
    let turns = json!([[{"text": "Half"}, {"wait_for_file": it.file("never")}]]);
    let open = it.client.post_later(&message_path(&session), &prompt("Talk.", &turns));
    events.wait_for("message.part.delta", |_| true);
    let mut it = it;
    send_signals(&it.served.child, &["TERM"]);
    assert!(wait_for_exit(&mut it.served.child).success());
    let (status, answer) = open.join().expect("answered");
    assert_eq!((status, texts(&answer)), (200, "Half".to_owned()), "{answer}");
    let it = it.restart_ended();
    let said = it.client.messages(&session);
    let error = &said.last().expect("an answer")["info"]["error"];
    assert_eq!(error["name"], "MessageAbortedError", "{error}");
    assert!(text(&error["data"]["message"]).contains("stopped"), "{error}");
}

#[test]
fn external_runner_takes_precedence_and_leaves_its_prompts_to_the_agent() {
    let it = AgentCase::new();
    let session = it.client.create_session();
    let made = it.client.post("/turnstone/runner", &json!({"name": "external"}));
    let open = it
        .client
        .post_later(&message_path(&session), &prompt("Go.", &json!([[{"text": "By the agent."}]])));
    let path = format!("/turnstone/runner/{}/inbox?wait=30000", text(&made["runner"]["id"]));
    assert_eq!(it.client.get(&path)["sessions"], json!([session]));
    assert_eq!(it.model.requests().len(), 0);
    let path = format!("/turnstone/runner/{}", text(&made["runner"]["id"]));
    assert_eq!(it.client.request("DELETE", &path, &Value::Null).0, 200);
    let (_, answer) = open.join().expect("answered");
    assert_eq!(texts(&answer), "By the agent.");
}

#[test]
fn unusable_models_and_a_missing_agent_are_answered_with_what_to_do() {
    let it = AgentCase::new();
    let session = it.client.create_session();
    let mut asked = prompt("Go.", &json!([]));
    asked["model"] = json!({"providerID": "anthropic", "modelID": "claude-sonnet-4-5"});
    let answer = it.client.post(&message_path(&session), &asked);
    let error = text(&answer["info"]["error"]["data"]["message"]);
    assert!(error.contains("turnstone auth set anthropic"), "{error}");
    assert_eq!(it.client.get("/session/status"), json!({}));
    let model = json!({"providerID": "anthropic", "modelID": "claude-sonnet-4-5"});
    let failed = it.client.request("POST", &format!("/session/{session}/summarize"), &model);
    assert!(
        failed.0 == 503 && text(&failed.1["message"]).contains("turnstone auth set"),
        "{failed:?}"
    );

    fs_err::remove_file(it.case.path("home/.config/opencode/opencode.json")).expect("removed");
    let fresh = it.client.create_session();
    let parts = json!({"parts": [{"type": "text", "text": "Hello."}]});
    let answer = it.client.post(&message_path(&fresh), &parts);
    let error = text(&answer["info"]["error"]["data"]["message"]);
    assert!(
        error.contains("No model is configured") && error.contains("turnstone auth set"),
        "{error}"
    );

    let it = AgentCase::with_args(&["--no-agent"]);
    let session = it.client.create_session();
    let answer = it.client.post(&message_path(&session), &prompt("Go.", &json!([])));
    let error = text(&answer["info"]["error"]["data"]["message"]);
    assert!(error.contains("--no-agent"), "{error}");
    assert_eq!(it.model.requests().len(), 0);
}

#[test]
fn skills_are_listed_and_long_outputs_of_tools_go_to_a_file() {
    let it = AgentCase::new();
    let folder = it.project().join(".opencode/skills/tide");
    fs_err::create_dir_all(&folder).expect("made");
    let skill = "---\nname: tide\ndescription: Tide tables\n---\nRead the moon.\n";
    fs_err::write(folder.join("SKILL.md"), skill).expect("written");
    let listed = it.client.get("/skill");
    assert_eq!(listed[0]["name"], "tide", "{listed}");
    assert_eq!(listed[0]["content"], "Read the moon.");
    assert_eq!(it.client.get("/api/skill")["data"], listed);

    let long = format!("{skill}{}", "The moon pulls.\n".repeat(5_000));
    fs_err::write(folder.join("SKILL.md"), long).expect("written");
    let session = it.client.create_session();
    let turns = json!([[{"tool": "skill", "input": {"name": "tide"}}], [{"text": "Read."}]]);
    it.client.post(&message_path(&session), &prompt("Load.", &turns));
    let (_, state) = calls(&it.client, &session).remove(0);
    assert_eq!(state["metadata"]["truncated"], true, "{state}");
    assert!(text(&state["output"]).lines().count() < 2_100);
    let whole = text(&state["metadata"]["outputPath"]);
    assert!(fs_err::read_to_string(whole).expect("there").lines().count() > 5_000);
}
