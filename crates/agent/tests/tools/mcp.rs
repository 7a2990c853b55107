//! Tools of MCP servers: who allows them, what is remembered, and what they write.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use turnstone_agent::mcp::{McpPlace, McpState, McpToolSet, ToolPins};
use turnstone_agent::tool::{CommandSettings, Tool, ToolError};
use turnstone_config::{ConfigEnvironment, ConfigSources, Configuration};
use turnstone_core::permission::AskPolicy;
use turnstone_mcp::ToolServerPoolSettings;

use crate::bash::command_settings;
use crate::fake_host::{ToolFixture, failure};

/// A person's configuration with one server, and the tools that it gives.
struct McpFixture {
    case: ToolFixture,
    configuration: Configuration,
    commands: CommandSettings,
    set: McpToolSet,
}

impl McpFixture {
    /// The scripted server in one of its modes.
    fn new(mode: &str) -> Self {
        let case = ToolFixture::new();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../mcp/tests/servers/scripted.py");
        let state = case.dir.path().join("state");
        let server = json!({"type": "local", "command": ["python3", script, mode, state],
            "environment": {"OWN": "x"}});
        let (home, data) = (case.dir.path().join("home"), case.dir.path().join("data"));
        let file = home.join(".config/opencode/opencode.json");
        fs_err::create_dir_all(file.parent().expect("a parent")).expect("made");
        fs_err::write(file, json!({"mcp": {"s": server}}).to_string()).expect("written");
        let environment = ConfigEnvironment::new(&home, &home.join(".config"), &data)
            .with_variables(&[])
            .with_managed_folder(None);
        let sources = ConfigSources { environment: &environment, project: None };
        let configuration = Configuration::load(&sources).expect("loaded");
        let commands = command_settings();
        let set = McpToolSet::new(
            ToolServerPoolSettings {
                client_name: "test".to_owned(),
                client_version: "1".to_owned(),
                supervisor: Some(commands.supervisor.clone()),
                http: None,
                idle_limit: Duration::from_secs(3600),
            },
            &data,
        );
        Self { case, configuration, commands, set }
    }

    fn mcp_place<'p>(&'p self, root: &'p Path) -> McpPlace<'p> {
        let (configuration, commands) = (&self.configuration, &self.commands);
        McpPlace { configuration, directory: root, root, commands }
    }

    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        self.set.tools(&self.mcp_place(&self.case.root()))
    }

    fn tool(&self, name: &str) -> Arc<dyn Tool> {
        let found = self.tools().into_iter().find(|tool| tool.schema().name == name);
        found.unwrap_or_else(|| panic!("{name} is not offered"))
    }

    fn pins(&self) -> ToolPins {
        ToolPins::new(&self.case.dir.path().join("data"))
    }
}

#[test]
fn tool_asks_by_default_and_its_definition_is_remembered() {
    let fixture = McpFixture::new("plain");
    let look = fixture.tool("s_look");
    let host = fixture.case.host("s_look");
    let reply = look.run(&host, &json!({"a": 1})).expect("answered");
    assert_eq!(reply.output, r#"{"a": 1}"#);
    assert_eq!(host.asked(), ["s_look: *"]);
    let ask = host.asks().remove(0);
    assert_eq!(
        (ask.policy(), ask.always.as_slice()),
        (AskPolicy::UnlessPersonAllows, &["*".to_owned()][..])
    );
    assert_eq!(ask.metadata["input"], json!({"a": 1}));
    assert_eq!(ask.metadata["description"], "does it", "a person sees what they allow");
    assert_eq!(fixture.pins().list().expect("read").len(), 1);
    let again = fixture.case.host("s_look");
    look.run(&again, &json!({})).expect("answered");
    assert_eq!(again.asks()[0].policy(), AskPolicy::UnlessPersonAllows);
    assert!(!again.asks()[0].metadata.contains_key("changed"));
}

#[test]
fn refused_tool_is_neither_called_nor_remembered() {
    let fixture = McpFixture::new("writes");
    let refuse = |_: &_| Err(ToolError::Rejected("no".to_owned()));
    let host = fixture.case.host("s_act").deciding(refuse);
    let refused = fixture.tool("s_act").run(&host, &json!({}));
    assert_eq!(refused, Err(ToolError::Rejected("no".to_owned())));
    assert!(fixture.case.text("made.txt").is_none() && fixture.case.change_sets().is_empty());
    assert!(fixture.pins().list().expect("read").is_empty());
}

#[test]
fn changed_tool_is_asked_again_whatever_the_rules_say() {
    let fixture = McpFixture::new("changing");
    let before = fixture.tool("s_act");
    fixture.case.run(before.as_ref(), &json!({})).expect("answered");
    // The call made the server change its tools; a step sees that sooner or later.
    let changed = (0..12_000).find_map(|_| {
        std::thread::sleep(Duration::from_millis(10));
        let found = fixture.tool("s_act");
        (found.schema().description != before.schema().description).then_some(found)
    });
    let changed = changed.expect("the new list");
    let stale = failure(fixture.case.run(before.as_ref(), &json!({})));
    assert!(stale.contains("has changed its definition since it was offered"), "{stale}");
    let host = fixture.case.host("s_act");
    changed.run(&host, &json!({})).expect("answered");
    let ask = host.asks().remove(0);
    assert_eq!(ask.policy(), AskPolicy::Always);
    assert_eq!(ask.metadata["changed"], "description");
    assert_eq!(ask.metadata["description"], "now does something else");
    let known = fixture.case.host("s_act");
    changed.run(&known, &json!({})).expect("answered");
    assert_eq!(known.asks()[0].policy(), AskPolicy::UnlessPersonAllows);
    let removed = fixture.pins().remove("s").expect("removed");
    assert_eq!(removed.len(), 2);
}

#[test]
fn what_an_opaque_call_writes_is_undone_and_a_reader_opens_no_window() {
    let fixture = McpFixture::new("writes");
    fixture.case.put("kept.txt", "mine");
    let (act, look) = (fixture.tool("s_act"), fixture.tool("s_look"));
    let host = fixture.case.host("s_look");
    let scope = turnstone_agent::tool::ToolHost::scope(&host);
    assert_eq!(act.written_paths(scope, &Value::Null), None);
    assert_eq!(look.written_paths(scope, &Value::Null), Some(Vec::<PathBuf>::new()));
    fixture.case.run(act.as_ref(), &json!({})).expect("answered");
    assert_eq!(
        fixture.case.text("made.txt").as_deref(),
        Some("by the server"),
        "it runs in the root"
    );
    assert_eq!(fixture.case.change_sets().len(), 1);
    fixture.case.undo();
    assert!(fixture.case.text("made.txt").is_none());
    assert_eq!(fixture.case.text("kept.txt").as_deref(), Some("mine"));
}

#[test]
fn failures_name_the_server_and_an_abort_ends_the_call() {
    let fixture = McpFixture::new("dies");
    let message = failure(fixture.case.run(fixture.tool("s_act").as_ref(), &json!({})));
    assert!(message.starts_with("The server s failed: ") && message.contains("luck"), "{message}");
    let silent = McpFixture::new("silent");
    let tool = silent.tool("s_look");
    let host = silent.case.host("s_look");
    turnstone_agent::tool::ToolHost::abort(&host).request();
    assert_eq!(tool.run(&host, &json!({})), Err(ToolError::Aborted));
    let not_an_object = failure(silent.case.run(tool.as_ref(), &json!([])));
    assert!(not_an_object.contains("must be an object"), "{not_an_object}");
}

#[test]
fn servers_get_their_variables_and_no_keys() {
    let fixture = McpFixture::new("environment");
    let reply = fixture.case.run(fixture.tool("s_look").as_ref(), &json!({})).expect("answered");
    assert!(reply.output.contains("OWN") && reply.output.contains("PATH"), "{}", reply.output);
    assert!(!reply.output.contains("ACME_API_KEY"), "{}", reply.output);
}

#[test]
fn instructions_and_states_are_reported() {
    let fixture = McpFixture::new("control");
    let root = fixture.case.root();
    let place = fixture.mcp_place(&root);
    assert!(fixture.set.instructions(&place).is_empty(), "nothing is started for them");
    let report = fixture.set.report(&place, Duration::from_secs(120)).expect("reported");
    assert_eq!((report[0].name.as_str(), report[0].state), ("s", McpState::Connected));
    let tool = &report[0].tools[0];
    assert_eq!(
        (tool.name.as_deref(), tool.is_pinned, tool.is_read_only),
        (Some("s_fine"), false, true)
    );
    let instructions = fixture.set.instructions(&place);
    assert_eq!(instructions[0].1, "Be[31m careful.");
    let failing = McpFixture::new("refuses-start");
    let root = failing.case.root();
    let report = failing.set.report(&failing.mcp_place(&root), Duration::from_secs(120));
    let report = report.expect("reported").remove(0);
    assert_eq!((report.state, report.tools.len()), (McpState::Failed, 0));
    assert!(report.error.expect("why").contains("no configuration"));
}
