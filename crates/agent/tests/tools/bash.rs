//! Running command lines: what is asked, what comes back, what they leave.

use std::time::Duration;

use serde_json::{Value, json};
use turnstone_agent::tool::{
    BashTool, CommandSettings, Tool, ToolError, ToolHost, ToolReply, ToolSettings,
    find_command_shell,
};
use turnstone_core::change::Evidence;
use turnstone_engine::SupervisorProgram;

use crate::fake_host::{ToolFixture, ctx, failure};

/// The settings of commands whose supervisor is the example of this crate.
pub(crate) fn command_settings() -> CommandSettings {
    let own = std::env::current_exe().expect("own path");
    let profile = own.parent().and_then(|deps| deps.parent()).expect("a target directory");
    let program = profile.join("examples/supervisor");
    assert!(program.exists(), "{} is missing: cargo build --examples", program.display());
    #[expect(clippy::disallowed_methods, reason = "commands of tests find their programs")]
    let path = std::env::var_os("PATH").unwrap_or_default();
    let variables = vec![
        ("PATH".into(), path),
        ("HOME".into(), "/home/user".into()),
        ("ACME_API_KEY".into(), "sk-secret".into()),
        ("TURNSTONE_PASSWORD".into(), "secret".into()),
    ];
    CommandSettings {
        supervisor: SupervisorProgram { program, args: Vec::new() },
        shell: find_command_shell(None, &variables),
        variables,
        secrets: Vec::new(),
        is_traced: true,
    }
}

fn tool() -> BashTool {
    BashTool::new(&ToolSettings { commands: Some(command_settings()), ..ToolSettings::default() })
}

fn run(case: &ToolFixture, command: &str) -> ToolReply {
    case.run(&tool(), &json!({ "command": command })).expect("ran")
}

fn asked(case: &ToolFixture, input: &Value) -> Vec<String> {
    let host = case.host("bash").deciding(|ask| match ask.permission.as_str() {
        "bash" => Err(ToolError::Denied("asked enough".to_owned())),
        _ => Ok(()),
    });
    drop(tool().run(&host, input));
    host.asked()
}

#[test]
fn output_and_exit_code_come_back() {
    let case = ToolFixture::in_directory("sub");
    let host = case.host("bash");
    let input = json!({"command": "echo out; echo err >&2; pwd; exit 3"});
    let reply = tool().run(&host, &input).expect("a failing command is no failed call");
    let pwd = case.root().join("sub");
    for line in ["out\n", "err\n", &format!("{}\n", pwd.display())] {
        assert!(reply.output.contains(line), "{}", reply.output);
    }
    assert_eq!(reply.metadata["exit"], json!(3));
    assert_eq!(reply.metadata["truncated"], json!(false));
    assert_eq!(reply.metadata["output"], json!(reply.output));
    assert_eq!(reply.title, "echo out; echo err >&2; pwd; exit 3");
    assert_eq!(host.displayed()[0], json!({"output": ""}));
    assert_eq!(run(&case, "true").output, "(no output)");
    let reply = run(&case, "kill -9 $$");
    assert_eq!(reply.metadata["exit"], json!(137));
    assert!(reply.output.contains("signal 9"));
}

#[test]
fn changes_of_a_command_are_traced_and_undone() {
    let case = ToolFixture::new();
    case.put("a.txt", "old\n");
    case.put("b.txt", "gone\n");
    run(&case, "echo new > a.txt; rm b.txt; mkdir d; echo c > d/c.txt");
    assert_eq!(case.text("a.txt").as_deref(), Some("new\n"));
    let sets = case.change_sets();
    assert_eq!(sets.len(), 1);
    assert!(sets[0].closed.is_some() && sets[0].set.part.is_some());
    assert!(matches!(sets[0].set.evidence, Evidence::Traced | Evidence::Window), "{sets:?}");
    assert!(case.undo().is_complete());
    assert_eq!(case.text("a.txt").as_deref(), Some("old\n"));
    assert_eq!(case.text("b.txt").as_deref(), Some("gone\n"));
    assert_eq!(case.text("d/c.txt"), None);
}

#[test]
fn save_of_a_person_while_they_are_asked_is_not_undone() {
    let case = ToolFixture::new();
    case.put("mine.txt", "old\n");
    let file = case.root().join("mine.txt");
    let host = case.host("bash").deciding(move |_| {
        fs_err::write(&file, "saved\n").expect("saved");
        Ok(())
    });
    tool().run(&host, &json!({"command": "echo x > theirs.txt"})).expect("ran");
    assert!(case.undo().is_complete());
    assert_eq!(case.text("mine.txt").as_deref(), Some("saved\n"));
    assert_eq!(case.text("theirs.txt"), None);
}

#[test]
fn commands_have_no_keys_and_no_input() {
    let case = ToolFixture::new();
    let output = run(&case, "env; cat").output;
    assert!(!output.contains("secret") && !output.contains("PASSWORD"), "{output}");
    assert!(output.contains("TURNSTONE_SESSION=ses_a\n"), "{output}");
    assert!(output.contains("HOME=/home/user\n"));
}

#[test]
fn command_that_takes_too_long_is_ended_with_all_it_started() {
    let case = ToolFixture::new();
    let input = json!({"command": "echo begun; sleep 600 & sleep 600", "timeout": 300});
    let reply = case.run(&tool(), &input).expect("ended");
    assert!(reply.output.starts_with("begun\n"), "{}", reply.output);
    assert!(reply.output.contains("<shell_metadata>") && reply.output.contains("300 ms"));
    assert_eq!(reply.metadata["exit"], Value::Null);
}

#[test]
fn aborted_command_keeps_its_output_and_dies_even_if_it_ignores_sigterm() {
    let case = ToolFixture::new();
    let host = case.host("bash");
    let input = json!({"command": "trap '' TERM; echo begun; while :; do sleep 0.05; done"});
    let reply = std::thread::scope(|scope| {
        let running = scope.spawn(|| tool().run(&host, &input));
        while !host.displayed().iter().any(|shown| shown["output"] == json!("begun\n")) {
            assert!(!running.is_finished(), "it ended by itself");
            std::thread::sleep(Duration::from_millis(10));
        }
        host.abort().request();
        running.join().expect("no panic")
    });
    let reply = reply.expect("ended");
    assert!(reply.output.starts_with("begun\n") && reply.output.contains("User aborted"));
    assert_eq!(reply.metadata["exit"], Value::Null);
}

#[test]
fn long_output_is_cut_and_kept_in_a_file() {
    let case = ToolFixture::new();
    let reply = run(&case, "seq 1 5000");
    assert!(reply.output.contains("\n3001\n") && !reply.output.contains("\n3000\n"));
    assert!(reply.output.ends_with("\n5000\n"));
    assert_eq!(reply.metadata["truncated"], json!(true));
    let path = reply.metadata["outputPath"].as_str().expect("a path");
    let whole = fs_err::read_to_string(path).expect("kept");
    assert!(whole.starts_with("1\n2\n") && whole.ends_with("\n5000\n"));
    assert_eq!(whole.lines().count(), 5_000);

    let reply = run(&case, "head -c 200000 /dev/zero | tr '\\0' x");
    let path = reply.metadata["outputPath"].as_str().expect("a path");
    assert_eq!(fs_err::metadata(path).expect("kept").len(), 200_000);
    assert!(reply.output.len() < 52_000);
}

#[test]
fn every_command_and_every_directory_outside_is_asked() {
    let case = ToolFixture::in_directory("sub");
    let outside = fs_err::canonicalize(case.dir.path()).expect("real").join("outside");
    fs_err::create_dir(&outside).expect("made");
    let shown = outside.display();
    let command = |command: String| json!({ "command": command });
    let external = format!("external_directory: {shown}/*");

    let line = "git status --short | head -3 && npm run build; echo $(whoami)".to_owned();
    assert_eq!(
        asked(&case, &command(line)),
        ["bash: git status --short, head -3, npm run build, echo $(whoami), whoami"]
    );
    assert_eq!(asked(&case, &command("cat ../f".to_owned())), ["bash: cat ../f"]);
    for line in [
        format!("cat {shown}/f"),
        format!("cat {shown}/*.txt"),
        "rm ../../outside/f".to_owned(),
        format!("echo x > {shown}/f"),
        format!("echo x | tee {shown}/f"),
        format!("sed -i s/a/b/ {shown}/f"),
    ] {
        let asked = asked(&case, &command(line.clone()));
        assert_eq!(asked[0], external, "{line}");
        assert_eq!(asked.len(), 2, "{line}");
    }
    assert_eq!(
        asked(&case, &command(format!("cd {shown} && ls"))),
        [external.clone(), "bash: ls".to_owned()]
    );
    let input = json!({"command": "ls", "workdir": outside});
    assert_eq!(asked(&case, &input), [external, "bash: ls".to_owned()]);
    let host = case.host("bash");
    tool().run(&host, &json!({"command": "cd ."})).expect("ran");
    assert!(host.asks().is_empty());
    assert_eq!(asked(&case, &command("echo 'open".to_owned())), ["bash: echo 'open"]);
}

#[test]
fn refused_command_does_not_run() {
    let case = ToolFixture::new();
    let host = case.host("bash").deciding(|_| Err(ToolError::Rejected("no".to_owned())));
    let refused = tool().run(&host, &json!({"command": "touch made"}));
    assert!(matches!(refused, Err(ToolError::Rejected(_))));
    assert!(case.files().is_empty() && case.change_sets().is_empty());
    let words = failure(case.run(&tool(), &json!({"command": "ls", "workdir": "missing"})));
    assert!(words.contains("not a directory"), "{words}");
    let words = failure(case.run(&tool(), &json!({"command": "a\0b"})));
    assert!(words.contains("NUL"), "{words}");
    let none = BashTool::new(&ToolSettings::default());
    assert!(failure(case.run(&none, &json!({"command": "ls"}))).contains("No commands"));
}

#[test]
fn processes_of_a_call_stay_recorded_while_its_output_is_shown() {
    use turnstone_engine::CallCommands;
    let case = ToolFixture::new();
    let host = case.host("bash");
    let clock = ctx;
    let commands = case.engine.turns().commands();
    let call = CallCommands { commands, turn: &case.turn, part: host.part(), clock: &clock };
    let show = |output: &str| {
        let metadata = json!({ "output": output });
        let metadata = metadata.as_object().expect("an object");
        call.show(Some("title"), metadata).expect("shown");
        let read =
            case.engine.store().read(&ctx(), |r| r.messages().get_part(&case.session, host.part()));
        json!(read.expect("read").body)["state"].clone()
    };
    assert_eq!(show("")["metadata"], json!({"output": ""}));
    tool().run(&host, &json!({"command": "echo done"})).expect("ran");
    let state = show("later");
    assert_eq!((&state["title"], &state["metadata"]["output"]), (&json!("title"), &json!("later")));
    assert!(state["metadata"]["group"].is_object(), "{state}");
}
