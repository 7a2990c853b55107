//! The scenes, one claim after the other.

use serde_json::Value;

use super::sandbox::TourSandbox;
use crate::error::CliError;

const TIDE_TABLE: &str =
    "# Tides\n\nlow 04:10\n\nhigh 10:25\n\nlow 16:40\n\nhigh 22:50\n\n- gulls\n";

/// The sessions of the two agents.
pub(super) struct TourSessions {
    one: String,
}

/// Two agents and a person, one after the other: one agent is taken back, alone.
pub(super) fn undo_one_of_two_agents(
    stage: &mut TourSandbox<'_>,
) -> Result<TourSessions, CliError> {
    stage.print_heading("1. Two agents and a person change one file; one agent is undone")?;
    stage.edit_by_hand("tide.md", TIDE_TABLE, "you write tide.md")?;
    stage.run(&exec_args("agent one", &["sed", "-i", "s/04:10/05:10/", "tide.md"]), 0)?;
    let one = newest_session_id(stage)?;
    let yours = TIDE_TABLE.replace("04:10", "05:10").replace("# Tides", "# Tides of the bay");
    stage.edit_by_hand("tide.md", &yours, "you change the heading")?;
    stage.run(&exec_args("agent two", &["sed", "-i", "s/22:50/23:50/", "tide.md"]), 0)?;
    let all = yours.replace("22:50", "23:50").replace("- gulls", "- gulls and plovers");
    stage.edit_by_hand("tide.md", &all, "you add the plovers")?;

    let before = stage.read_file("tide.md").unwrap_or_default();
    stage.run(&["undo", "--session", &one], 0)?;
    let after = stage.read_file("tide.md").unwrap_or_default();
    stage.print_line_diff(&before, &after)?;
    let wanted = all.replace("05:10", "04:10");
    stage
        .check_claim(after == wanted, "exactly the line of agent one went back; all else stayed")?;
    Ok(TourSessions { one })
}

/// What was taken back comes back.
pub(super) fn redo_after_undo(
    stage: &mut TourSandbox<'_>,
    sessions: &TourSessions,
) -> Result<(), CliError> {
    stage.print_heading("2. Redo brings back what undo took")?;
    let before = stage.read_file("tide.md").unwrap_or_default();
    stage.run(&["redo", "--session", &sessions.one], 0)?;
    let after = stage.read_file("tide.md").unwrap_or_default();
    stage.print_line_diff(&before, &after)?;
    stage
        .check_claim(after == before.replace("04:10", "05:10"), "the same bytes as before the undo")
}

/// Two agents at the same time in the same file: nobody guesses whose line is whose.
pub(super) fn undo_concurrent_agents(stage: &mut TourSandbox<'_>) -> Result<(), CliError> {
    stage.print_heading("3. Two agents change one file at the same time")?;
    stage.edit_by_hand("plan.md", "# Plan\n", "you write plan.md")?;
    // Ends by itself, should nobody be there any more to give the signal.
    let slow = "echo '- by three' >> plan.md; touch ../signal/wrote; \
                for n in $(seq 400); do [ -e ../signal/enough ] && break; sleep 0.05; done";
    let three = exec_args("agent three", &["sh", "-c", slow]);
    let child = stage.start(&three)?;
    stage.wait_for_signal("wrote")?;
    let four = exec_args("agent four", &["sh", "-c", "echo '- by four' >> plan.md"]);
    let told = stage.run(&four, 0)?;
    let four = newest_session_id(stage)?;
    stage.create_signal("enough")?;
    stage.finish(child, &three, 0)?;
    stage.check_claim(told.err.contains("another command runs here"), "the second one was told")?;

    let both = stage.read_file("plan.md");
    let ran = stage.run(&["undo", "--session", &four], 4)?;
    let reported = ran.out.contains("contended") && stage.read_file("plan.md") == both;
    stage.check_claim(reported, "a file that both may have changed is reported, not guessed")?;
    let Some(command) = hinted_command(&ran.err) else {
        return stage.check_claim(false, "the report names the command that undoes both");
    };
    let words: Vec<&str> = command.split(' ').collect();
    stage.run(&words, 0)?;
    let is_back = stage.read_file("plan.md").as_deref() == Some("# Plan\n");
    stage.check_claim(is_back, "the command it names takes both back, in one step")
}

/// A process that is killed leaves nothing that cannot be taken back.
pub(super) fn undo_after_kill(stage: &mut TourSandbox<'_>) -> Result<(), CliError> {
    stage.print_heading("4. An agent is killed in the middle")?;
    let work = "echo half > draft.md; sed -i s/gulls/GULLS/ tide.md; touch ../signal/half; \
                sleep 50; echo rest >> draft.md";
    let before = stage.read_file("tide.md");
    let mut child = stage.start(&exec_args("agent five", &["sh", "-c", work]))?;
    stage.wait_for_signal("half")?;
    let killed = child.kill();
    stage.print("# kill -9")?;
    let ran = stage.run(&["log"], 0)?;
    let known = ran.out.contains("interrupted") && ran.out.contains("recovered");
    stage.check_claim(killed && known, "its command was ended, and what it changed is known")?;
    stage.run(&["undo"], 0)?;
    let is_back = stage.read_file("draft.md").is_none() && stage.read_file("tide.md") == before;
    stage.check_claim(is_back, "undo takes back the half that was done")
}

/// A point gets a name; the way from it is shown, and gone back.
pub(super) fn jump_to_checkpoint(
    stage: &mut TourSandbox<'_>,
    sessions: &TourSessions,
) -> Result<(), CliError> {
    stage.print_heading("5. A point gets a name, and is gone to")?;
    let (one, before) = (&sessions.one, stage.read_file("tide.md").unwrap_or_default());
    stage.run(&["checkpoint", "noon", "--session", one], 0)?;
    let change = ["exec", "--session", one, "--", "sed", "-i", "s/10:25/11:25/", "tide.md"];
    stage.run(&change, 0)?;
    let now = stage.read_file("tide.md").unwrap_or_default();
    stage.edit_by_hand(
        "tide.md",
        &now.replace("of the bay", "of the sound"),
        "you rename the bay",
    )?;
    let ran = stage.run(&["diff", one, "--from", "noon"], 0)?;
    let shown = strip_styles(&ran.out);
    let added: Vec<&str> = shown.lines().filter(|line| line.starts_with("+high")).collect();
    let is_own = added == ["+high 11:25"] && !shown.contains("+# Tides");
    stage.check_claim(is_own, "the difference has the agent's line and none of yours")?;
    stage.run(&["jump", "noon", "--session", one], 0)?;
    let is_back = stage.read_file("tide.md") == Some(before.replace("of the bay", "of the sound"));
    stage.check_claim(is_back, "the agent's line is as it was at that point, your heading stayed")
}

/// What is remembered, and what it costs.
pub(super) fn show_history(
    stage: &mut TourSandbox<'_>,
    sessions: &TourSessions,
) -> Result<(), CliError> {
    stage.print_heading("6. Everything is remembered")?;
    let ran = stage.run(&["log", &sessions.one], 0)?;
    let whole = ["agent one", "undo of trn_", "redo of trn_"];
    let complete = whole.iter().all(|words| strip_styles(&ran.out).contains(words));
    stage.check_claim(complete, "turn, undo and redo are in the log")?;
    stage.run(&["snapshot", "du"], 0)?;
    stage.run(&["snapshot", "verify"], 0)?;
    stage.run_silently(&["doctor"])?;
    stage.check_claim(true, "database and captures are sound")
}

fn exec_args<'a>(title: &'a str, command: &[&'a str]) -> Vec<&'a str> {
    [&["exec", "--title", title, "--"], command].concat()
}

/// The session that was used last.
fn newest_session_id(stage: &mut TourSandbox<'_>) -> Result<String, CliError> {
    let ran = stage.run_silently(&["status", "--json"])?;
    let status: Value = serde_json::from_str(&ran.out)?;
    Ok(status["session"]["id"].as_str().unwrap_or_default().to_owned())
}

/// The command a hint names, without the name of the program.
fn hinted_command(err: &str) -> Option<String> {
    let err = strip_styles(err);
    let (_, rest) = err.split_once("undo them together: `turnstone ")?;
    Some(rest.split_once('`')?.0.to_owned())
}

/// The text without colours.
fn strip_styles(text: &str) -> String {
    anstream::adapter::strip_str(text).to_string()
}
