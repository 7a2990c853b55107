//! Settings of the agent that are neither agents nor models.

use std::path::PathBuf;
use std::time::Duration;

use turnstone_core::context::CompactionSettings;

use crate::error::ConfigError;
use crate::secret::Secret;
use crate::settings_reader::SettingsReader;
use crate::source::{LayerOrigin, SettingsLayer};

/// Everything that tools and the loop are set up with.
#[derive(Clone, Debug)]
pub struct AgentSettings {
    /// Further instruction files: paths, patterns and addresses, each with the folder that relative ones begin
    /// at; none for addresses of the user.
    pub instructions: Vec<(String, Option<PathBuf>)>,
    /// Folders with skills, each with the folder that relative ones begin at.
    pub skill_paths: Vec<(String, Option<PathBuf>)>,
    /// The shell of commands.
    pub shell: Option<String>,
    /// How deep subagents may start subagents.
    pub subagent_depth: u32,
    /// When conversations are compacted.
    pub compaction: CompactionSettings,
    /// Whether the output of old tool calls is dropped from conversations.
    pub is_pruning: bool,
    /// How many lines and bytes of a tool's output the model reads; the rest is in a file.
    pub tool_output: (usize, usize),
    /// Servers of further tools.
    pub mcp: Vec<McpServer>,
    /// How long a call of such a tool may take unless its server says otherwise.
    pub mcp_timeout: Option<Duration>,
    /// Programs that format what was written.
    pub formatters: Vec<FormatterSetting>,
    /// True if no formatter runs at all.
    pub are_formatters_disabled: bool,
    /// Commands around tool calls.
    pub hooks: Vec<HookSetting>,
    /// Tools that subagents do not have.
    pub primary_tools: Vec<String>,
    /// True if the loop goes on after a person has refused.
    pub continues_after_refusal: bool,
}

/// A server of tools.
#[derive(Clone, Debug)]
pub struct McpServer {
    /// Its name, which begins the names of its tools.
    pub name: String,
    /// Whether it is used.
    pub is_enabled: bool,
    /// How it is reached.
    pub transport: McpTransport,
    /// How long a call may take.
    pub timeout: Option<Duration>,
}

/// How a server of tools is reached.
#[derive(Clone, Debug)]
pub enum McpTransport {
    /// A program of this machine.
    Local {
        /// The program and its arguments.
        command: Vec<String>,
        /// Where it runs, from the root of the project; there if nothing is set.
        directory: Option<String>,
        /// Variables that it gets; their values may be secrets.
        environment: Vec<(String, Secret)>,
    },
    /// A server.
    Remote {
        /// Its address.
        url: String,
        /// Headers of every request; their values may be secrets.
        headers: Vec<(String, Secret)>,
    },
}

/// A program that formats files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormatterSetting {
    /// Its name.
    pub name: String,
    /// True if a formatter of this name does not run.
    pub is_disabled: bool,
    /// The program and its arguments; `$FILE` is the file.
    pub command: Vec<String>,
    /// Variables that it gets.
    pub environment: Vec<(String, String)>,
    /// The endings of its files, with the dot.
    pub extensions: Vec<String>,
}

/// When a hook runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookTiming {
    /// Before a tool call; it can refuse the call.
    BeforeTool,
    /// After a tool call.
    AfterTool,
}

/// A command that runs around tool calls. What it writes belongs to the call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookSetting {
    /// When it runs.
    pub moment: HookTiming,
    /// The tools it runs for, with `*` and `?`.
    pub tool: String,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// How long it may take.
    pub timeout: Option<Duration>,
}

/// Lines and bytes of a tool's output that the model reads.
const DEFAULT_OUTPUT: (usize, usize) = (2_000, 50 << 10);
const DEFAULT_SUBAGENT_DEPTH: u64 = 1;

impl AgentSettings {
    /// Reads the settings.
    pub(crate) fn read(
        layers: &[SettingsLayer],
        settings: &SettingsReader<'_>,
        (disables_compaction, disables_pruning): (bool, bool),
    ) -> Result<Self, ConfigError> {
        let depth = settings.count("subagent_depth")?.unwrap_or(DEFAULT_SUBAGENT_DEPTH);
        let experimental = settings.find_table("experimental")?;
        let experimental = experimental.as_ref();
        let mcp_timeout = experimental.map(|it| it.count("mcp_timeout")).transpose()?.flatten();
        let primary_tools = experimental.map(|it| it.texts("primary_tools")).transpose()?;
        let continues = experimental.map(|it| it.flag("continue_loop_on_deny")).transpose()?;
        // Checked here for its type; where each entry comes from is found in the layers.
        settings.texts("instructions")?;
        if let Some(skills) = settings.find_table("skills")? {
            skills.texts("paths")?;
        }
        let (formatters, are_formatters_disabled) = read_formatters(settings)?;
        let (mut compaction, is_pruning) = read_compaction(settings)?;
        compaction.auto &= !disables_compaction;
        Ok(Self {
            instructions: located_texts(layers, &["instructions"]),
            skill_paths: located_texts(layers, &["skills", "paths"]),
            shell: settings.text("shell")?.filter(|shell| !shell.is_empty()),
            subagent_depth: u32::try_from(depth).unwrap_or(u32::MAX),
            compaction,
            is_pruning: is_pruning && !disables_pruning,
            tool_output: read_output_limits(settings)?,
            mcp: read_mcp_servers(settings)?,
            mcp_timeout: mcp_timeout.map(Duration::from_millis),
            formatters,
            are_formatters_disabled,
            hooks: read_hooks(settings)?,
            primary_tools: primary_tools.unwrap_or_default(),
            continues_after_refusal: continues.flatten().unwrap_or(false),
        })
    }
}

/// The texts of a list with the folder of the file that has them: the user's relative paths begin at the
/// directory that is worked in, a project's at its own file.
fn located_texts(layers: &[SettingsLayer], key: &[&str]) -> Vec<(String, Option<PathBuf>)> {
    let mut located: Vec<(String, Option<PathBuf>)> = Vec::new();
    let is_united = key == ["instructions"];
    for layer in layers {
        let Some(entries) = layer.find(key).and_then(|value| value.as_array()) else { continue };
        if !is_united {
            located.clear();
        }
        let folder = match layer.origin {
            LayerOrigin::Project => layer.path.parent().map(std::path::Path::to_owned),
            LayerOrigin::User => None,
        };
        for text in entries.iter().filter_map(|entry| entry.as_str()) {
            if !located.iter().any(|(known, _)| known == text) {
                located.push((text.to_owned(), folder.clone()));
            }
        }
    }
    located
}

/// The settings of compactions, and whether old output is dropped.
fn read_compaction(
    settings: &SettingsReader<'_>,
) -> Result<(CompactionSettings, bool), ConfigError> {
    let usual = CompactionSettings::default();
    let Some(table) = settings.find_table("compaction")? else { return Ok((usual, true)) };
    let compaction = CompactionSettings {
        auto: table.flag("auto")?.unwrap_or(usual.auto),
        tail_turns: table.count("tail_turns")?.map(to_usize),
        preserve_recent_tokens: table.count("preserve_recent_tokens")?,
        reserved: table.count("reserved")?,
        ..usual
    };
    Ok((compaction, table.flag("prune")?.unwrap_or(true)))
}

fn to_usize(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

fn read_output_limits(settings: &SettingsReader<'_>) -> Result<(usize, usize), ConfigError> {
    let Some(table) = settings.find_table("tool_output")? else { return Ok(DEFAULT_OUTPUT) };
    let (lines, bytes) = (table.count("max_lines")?, table.count("max_bytes")?);
    let (usual_lines, usual_bytes) = DEFAULT_OUTPUT;
    Ok((lines.map_or(usual_lines, to_usize), bytes.map_or(usual_bytes, to_usize)))
}

fn secrets(table: Vec<(String, String)>) -> Vec<(String, Secret)> {
    table.into_iter().map(|(name, value)| (name, Secret::new(value))).collect()
}

fn read_mcp_servers(settings: &SettingsReader<'_>) -> Result<Vec<McpServer>, ConfigError> {
    let mut servers = Vec::new();
    for (name, fields) in settings.tables("mcp")? {
        let is_enabled = fields.flag("enabled")?.unwrap_or(true);
        let transport = match fields.text("type")?.as_deref() {
            Some("local") => McpTransport::Local {
                command: fields.texts("command")?,
                directory: fields.text("cwd")?.filter(|it| !it.is_empty()),
                environment: secrets(fields.text_table("environment")?),
            },
            Some("remote") => McpTransport::Remote {
                url: fields.text("url")?.unwrap_or_default(),
                headers: secrets(fields.text_table("headers")?),
            },
            // An entry may only switch a server off that nothing else defines.
            None if !is_enabled => continue,
            _ => return Err(fields.error("type", "it must be local or remote")),
        };
        match &transport {
            McpTransport::Local { command, .. } if command.is_empty() => {
                return Err(fields.error("command", "it must name a program"));
            }
            McpTransport::Remote { url, .. } if url.is_empty() => {
                return Err(fields.error("url", "it must be an address"));
            }
            McpTransport::Local { .. } | McpTransport::Remote { .. } => {}
        }
        let timeout = fields.count("timeout")?.map(Duration::from_millis);
        servers.push(McpServer { name, is_enabled, transport, timeout });
    }
    Ok(servers)
}

fn read_formatters(
    settings: &SettingsReader<'_>,
) -> Result<(Vec<FormatterSetting>, bool), ConfigError> {
    // `false` switches all of them off, `true` is the default.
    if let Some(serde_json::Value::Bool(is_on)) = settings.map().get("formatter") {
        return Ok((Vec::new(), !is_on));
    }
    let mut formatters = Vec::new();
    for (name, fields) in settings.tables("formatter")? {
        formatters.push(FormatterSetting {
            name,
            is_disabled: fields.flag("disabled")?.unwrap_or(false),
            command: fields.texts("command")?,
            environment: fields.text_table("environment")?,
            extensions: fields.texts("extensions")?,
        });
    }
    Ok((formatters, false))
}

fn read_hooks(settings: &SettingsReader<'_>) -> Result<Vec<HookSetting>, ConfigError> {
    let Some(table) = settings.find_table("hooks")? else { return Ok(Vec::new()) };
    let mut hooks = Vec::new();
    for (key, moment) in
        [("before_tool", HookTiming::BeforeTool), ("after_tool", HookTiming::AfterTool)]
    {
        for fields in table.list_of_tables(key)? {
            let command = fields.texts("command")?;
            if command.is_empty() {
                return Err(table.error(key, "every hook needs a command: a list of texts"));
            }
            hooks.push(HookSetting {
                moment,
                tool: fields.text("tool")?.unwrap_or_else(|| "*".to_owned()),
                command,
                timeout: fields.count("timeout")?.map(Duration::from_millis),
            });
        }
    }
    let known = ["before_tool", "after_tool"];
    if let Some(key) = table.map().keys().find(|key| !known.contains(&key.as_str())) {
        return Err(table.error(key, "hooks are called before_tool and after_tool"));
    }
    Ok(hooks)
}
