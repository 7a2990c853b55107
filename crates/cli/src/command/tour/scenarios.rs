//! The scenarios of the tour.

use serde_json::Value;

use super::sandbox::TourSandbox;
use crate::error::CliError;

const TIDE_TABLE: &str =
    "# Tides\n\nlow 04:10\n\nhigh 10:25\n\nlow 16:40\n\nhigh 22:50\n\n- gulls\n";

/// Sessions that later scenarios use.
pub(super) struct TourSessions {
    one: String,
}

/// Two agents and a person change one file; the changes of one agent are undone.
pub(super) fn undo_one_of_two_agents(
    sandbox: &mut TourSandbox<'_>,
) -> Result<TourSessions, CliError> {
    sandbox.print_heading("1. Two agents and a person change one file; one agent is undone")?;
    sandbox.edit_by_hand("tide.md", TIDE_TABLE, "you write tide.md")?;
    sandbox.run(&exec_args("agent one", &["sed", "-i", "s/04:10/05:10/", "tide.md"]), 0)?;
    let one = newest_session_id(sandbox)?;
    let yours = TIDE_TABLE.replace("04:10", "05:10").replace("# Tides", "# Tides of the bay");
    sandbox.edit_by_hand("tide.md", &yours, "you change the heading")?;
    sandbox.run(&exec_args("agent two", &["sed", "-i", "s/22:50/23:50/", "tide.md"]), 0)?;
    let all = yours.replace("22:50", "23:50").replace("- gulls", "- gulls and plovers");
    sandbox.edit_by_hand("tide.md", &all, "you add the plovers")?;

    let before = sandbox.read_file("tide.md").unwrap_or_default();
    sandbox.run(&["undo", "--session", &one], 0)?;
    let after = sandbox.read_file("tide.md").unwrap_or_default();
    sandbox.print_line_diff(&before, &after)?;
    let wanted = all.replace("05:10", "04:10");
    sandbox.check_claim(
        after == wanted,
        "only the line of agent one was undone; everything else stayed",
    )?;
    Ok(TourSessions { one })
}

/// Redo restores what was undone.
pub(super) fn redo_after_undo(
    sandbox: &mut TourSandbox<'_>,
    sessions: &TourSessions,
) -> Result<(), CliError> {
    sandbox.print_heading("2. Redo restores what was undone")?;
    let before = sandbox.read_file("tide.md").unwrap_or_default();
    sandbox.run(&["redo", "--session", &sessions.one], 0)?;
    let after = sandbox.read_file("tide.md").unwrap_or_default();
    sandbox.print_line_diff(&before, &after)?;
    sandbox.check_claim(
        after == before.replace("04:10", "05:10"),
        "the file is byte for byte as before the undo",
    )
}

/// Two agents change one file at the same time; Turnstone does not guess whose line is whose.
pub(super) fn undo_concurrent_agents(sandbox: &mut TourSandbox<'_>) -> Result<(), CliError> {
    sandbox.print_heading("3. Two agents change one file at the same time")?;
    sandbox.edit_by_hand("plan.md", "# Plan\n", "you write plan.md")?;
    // Ends by itself if the signal never comes.
    let slow = "echo '- by three' >> plan.md; touch ../signal/wrote; \
                for n in $(seq 400); do [ -e ../signal/enough ] && break; sleep 0.05; done";
    let three = exec_args("agent three", &["sh", "-c", slow]);
    let child = sandbox.start(&three)?;
    sandbox.wait_for_signal("wrote")?;
    let four = exec_args("agent four", &["sh", "-c", "echo '- by four' >> plan.md"]);
    let second = sandbox.run(&four, 0)?;
    let four = newest_session_id(sandbox)?;
    sandbox.create_signal("enough")?;
    sandbox.finish(child, &three, 0)?;
    sandbox.check_claim(
        second.err.contains("another command is running here"),
        "the second agent was warned",
    )?;

    let both = sandbox.read_file("plan.md");
    let ran = sandbox.run(&["undo", "--session", &four], 4)?;
    let reported = ran.out.contains("contended") && sandbox.read_file("plan.md") == both;
    sandbox.check_claim(
        reported,
        "a file that both may have changed is reported instead of guessed",
    )?;
    let Some(command) = hinted_command(&ran.err) else {
        return sandbox.check_claim(false, "the report names the command that undoes both");
    };
    let words: Vec<&str> = command.split(' ').collect();
    sandbox.run(&words, 0)?;
    let is_back = sandbox.read_file("plan.md").as_deref() == Some("# Plan\n");
    sandbox.check_claim(is_back, "the suggested command undoes both in one step")
}

/// The changes of a killed agent can be undone.
pub(super) fn undo_after_kill(sandbox: &mut TourSandbox<'_>) -> Result<(), CliError> {
    sandbox.print_heading("4. An agent is killed halfway")?;
    let work = "echo half > draft.md; sed -i s/gulls/GULLS/ tide.md; touch ../signal/half; \
                sleep 50; echo rest >> draft.md";
    let before = sandbox.read_file("tide.md");
    let mut child = sandbox.start(&exec_args("agent five", &["sh", "-c", work]))?;
    sandbox.wait_for_signal("half")?;
    let killed = child.kill();
    sandbox.print("# kill -9")?;
    let ran = sandbox.run(&["log"], 0)?;
    let known = ran.out.contains("interrupted") && ran.out.contains("draft.md");
    sandbox.check_claim(killed && known, "its command was ended, and its changes are recorded")?;
    sandbox.run(&["undo"], 0)?;
    let is_back = sandbox.read_file("draft.md").is_none() && sandbox.read_file("tide.md") == before;
    sandbox.check_claim(is_back, "undo reverts the changes made before the kill")
}

/// Creates a checkpoint, shows the changes since, and jumps back to it.
pub(super) fn jump_to_checkpoint(
    sandbox: &mut TourSandbox<'_>,
    sessions: &TourSessions,
) -> Result<(), CliError> {
    sandbox.print_heading("5. Name a checkpoint and jump back to it")?;
    let (one, before) = (&sessions.one, sandbox.read_file("tide.md").unwrap_or_default());
    sandbox.run(&["checkpoint", "noon", "--session", one], 0)?;
    let change = ["exec", "--session", one, "--", "sed", "-i", "s/10:25/11:25/", "tide.md"];
    sandbox.run(&change, 0)?;
    let now = sandbox.read_file("tide.md").unwrap_or_default();
    sandbox.edit_by_hand(
        "tide.md",
        &now.replace("of the bay", "of the sound"),
        "you rename the bay",
    )?;
    let ran = sandbox.run(&["diff", one, "--from", "noon"], 0)?;
    let patch = strip_styles(&ran.out);
    let added: Vec<&str> = patch.lines().filter(|line| line.starts_with("+high")).collect();
    let is_own = added == ["+high 11:25"] && !patch.contains("+# Tides");
    sandbox.check_claim(is_own, "the diff shows the agent's line and none of yours")?;
    sandbox.run(&["jump", "noon", "--session", one], 0)?;
    let is_back =
        sandbox.read_file("tide.md") == Some(before.replace("of the bay", "of the sound"));
    sandbox.check_claim(
        is_back,
        "the agent's line is back as it was at the checkpoint; your heading stayed",
    )
}

/// Shows the log and the disk usage.
pub(super) fn show_history(
    sandbox: &mut TourSandbox<'_>,
    sessions: &TourSessions,
) -> Result<(), CliError> {
    sandbox.print_heading("7. Everything is recorded")?;
    let ran = sandbox.run(&["log", &sessions.one], 0)?;
    let expected = ["agent one", "undo of trn_", "redo of trn_"];
    let complete = expected.iter().all(|text| strip_styles(&ran.out).contains(text));
    sandbox.check_claim(complete, "the log shows the turn, the undo and the redo")?;
    sandbox.run(&["snapshot", "du"], 0)?;
    sandbox.run(&["snapshot", "verify"], 0)?;
    sandbox.run_silently(&["doctor"])?;
    sandbox.check_claim(true, "database and captures are intact")
}

fn exec_args<'a>(title: &'a str, command: &[&'a str]) -> Vec<&'a str> {
    [&["exec", "--title", title, "--"], command].concat()
}

/// The most recently used session.
fn newest_session_id(sandbox: &mut TourSandbox<'_>) -> Result<String, CliError> {
    let ran = sandbox.run_silently(&["status", "--json"])?;
    let status: Value = serde_json::from_str(&ran.out)?;
    Ok(status["session"]["id"].as_str().unwrap_or_default().to_owned())
}

/// The command in a hint, without the program name.
fn hinted_command(err: &str) -> Option<String> {
    let err = strip_styles(err);
    let (_, rest) = err.split_once("undo them together: `turnstone ")?;
    Some(rest.split_once('`')?.0.to_owned())
}

/// The text without colours.
fn strip_styles(text: &str) -> String {
    anstream::adapter::strip_str(text).to_string()
}
