//! The scenario of the agent: a prompt, a person who edits meanwhile, a crash, and the undo of exactly the agent's part.

use serde_json::json;

use super::sandbox::TourSandbox;
use crate::error::CliError;

const HARBOUR: &str =
    "# Harbour\n\nlow 04:10\n\nhigh 10:25\n\nlow 16:40\n\nhigh 22:50\n\n- gulls\n";
/// The file that the agent's command makes, and the one that would end it.
const BIRDS: &str = "birds.md";
const STOP: &str = ".stop";

/// The agent works on a prompt, is killed, continues, and is undone.
pub(super) fn undo_the_agent_after_a_crash(sandbox: &mut TourSandbox<'_>) -> Result<(), CliError> {
    sandbox.print_heading("6. Turnstone's own agent, a crash, and the undo of its part")?;
    sandbox.edit_by_hand("harbour.md", HARBOUR, "you write harbour.md")?;
    let script = write_script(sandbox)?;
    let model = format!("scripted/{script}");
    let prompt = ["run", "--model", &model, "--title", "harbour", "correct the tides"];
    let mut agent = sandbox.start(&prompt)?;
    sandbox.wait_for_recorded("harbour.md")?;
    let corrected = HARBOUR.replace("04:10", "05:10");
    let yours = corrected.replace("# Harbour", "# Harbour of the bay");
    sandbox.edit_by_hand("harbour.md", &yours, "you change the heading while the agent works")?;
    sandbox.create_signal("edited")?;
    sandbox.wait_for_content(BIRDS, "terns")?;
    let killed = agent.kill();
    sandbox.print("# kill -9, in the middle of a command of the agent")?;

    let resumed = sandbox.run(&["run", "--continue", "go on"], 0)?;
    let known = resumed.err.contains("recovered 1 interrupted turn");
    let goes_on = resumed.out.contains("All tides are correct.");
    sandbox.check_claim(
        killed && known && goes_on,
        "the crash lost nothing: the agent goes on in its conversation",
    )?;
    let now = sandbox.read_file("harbour.md").unwrap_or_default();
    let both = yours.replace("22:50", "23:50");
    sandbox.check_claim(now == both, "the file has the lines of both")?;
    let later = now.replace("- gulls", "- gulls and plovers");
    sandbox.edit_by_hand("harbour.md", &later, "you add the plovers")?;

    sandbox.run(&["undo", "@1", "@2"], 0)?;
    let after = sandbox.read_file("harbour.md").unwrap_or_default();
    sandbox.print_line_diff(&later, &after)?;
    let wanted = later.replace("05:10", "04:10").replace("23:50", "22:50");
    let is_gone = sandbox.read_file(BIRDS).is_none();
    sandbox.check_claim(
        after == wanted && is_gone,
        "both turns of the agent are undone, also what its killed command wrote; your lines stayed",
    )
}

/// Writes what the model says and calls; returns the path.
fn write_script(sandbox: &TourSandbox<'_>) -> Result<String, CliError> {
    let edit = |old: &str, new: &str| json!({ "tool": "edit", "input": { "filePath": "harbour.md", "oldString": old, "newString": new } });
    let command = format!(
        "echo '- terns' > {BIRDS}; for n in $(seq 600); do [ -e {STOP} ] && break; sleep 0.05; done"
    );
    let script = json!({ "turns": [
        [{ "text": "I correct the first low water." }, edit("04:10", "05:10")],
        [
            { "text": "Then I list the birds." },
            { "wait_for_file": sandbox.signal_file("edited") },
            { "tool": "bash", "input": { "command": command } }
        ],
        [{ "text": "The last high water is left." }, edit("22:50", "23:50")],
        [{ "text": "All tides are correct." }]
    ] });
    sandbox.write_aside("agent.json", &script.to_string())
}
