//! The tools of a directory, set up as its configuration says.

use std::sync::Arc;

use turnstone_config::{AgentMode, Configuration, HookTiming};

use super::bounded_tool::BoundedTool;
use super::directory_configuration::DirectoryConfiguration;
use super::hooked_tool::{HookedTool, ToolHook};
use super::nearby_files::NearbyFiles;
use super::provider_cache::ProviderCache;
use super::run_settings::RunEnvironment;
use super::skill_files::list_skills;
use crate::mcp::{McpPlace, McpToolSet};
use crate::tool::{
    CommandFormatter, CommandSettings, FileFormatter, FormatterCommand, HookCommand, HookMoment,
    SubagentInfo, Tool, ToolOutputLimits, ToolSettings, builtin_tools, find_command_shell,
};
use crate::wire::PublicPageFetcher;

/// Returns the tools of a directory, sorted by name.
pub(super) fn list_tools(
    environment: &RunEnvironment,
    providers: &ProviderCache,
    servers: &McpToolSet,
    place: &DirectoryConfiguration,
) -> Vec<Arc<dyn Tool>> {
    let configuration = &place.configuration;
    let commands = command_settings(environment, configuration);
    let (lines, bytes) = configuration.settings().tool_output;
    let limits = ToolOutputLimits { lines, bytes };
    let settings = ToolSettings {
        output_limits: limits,
        commands: Some(commands.clone()),
        formatter: find_formatter(configuration, &commands),
        fetcher: Some(Arc::new(PublicPageFetcher::new(providers.client().clone()))),
        subagents: list_subagents(configuration),
        skills: list_skills(&environment.configuration, place),
        instructions: Some(Arc::new(NearbyFiles)),
    };
    let hooks = list_hooks(configuration);
    let mut tools = builtin_tools(&settings);
    tools.extend(servers.tools(&mcp_place(place, &commands)));
    tools.sort_by_cached_key(|tool| tool.schema().name);
    let can_delegate = !settings.subagents.is_empty();
    let bound = |tool| -> Arc<dyn Tool> {
        let tool = HookedTool::wrap(tool, &hooks, &commands);
        Arc::new(BoundedTool { tool, limits, can_delegate })
    };
    tools.into_iter().map(bound).collect()
}

/// Returns where the servers of a directory are wanted.
pub(super) fn mcp_place<'p>(
    place: &'p DirectoryConfiguration,
    commands: &'p CommandSettings,
) -> McpPlace<'p> {
    McpPlace {
        configuration: &place.configuration,
        directory: &place.directory,
        root: &place.root,
        commands,
    }
}

pub(super) fn command_settings(
    environment: &RunEnvironment,
    configuration: &Configuration,
) -> CommandSettings {
    let keys = configuration.key_values();
    let mut secrets = configuration.key_variables();
    secrets.extend(keys.iter().map(|key| key.expose().to_owned()));
    let shell = configuration.settings().shell.as_deref();
    CommandSettings {
        supervisor: environment.supervisor.clone(),
        shell: find_command_shell(shell, &environment.variables),
        variables: environment.variables.clone(),
        secrets,
        is_traced: environment.is_traced,
    }
}

fn find_formatter(
    configuration: &Configuration,
    commands: &CommandSettings,
) -> Option<Arc<dyn FileFormatter>> {
    let settings = configuration.settings();
    if settings.are_formatters_disabled {
        return None;
    }
    let used = settings.formatters.iter().filter(|it| !it.is_disabled && !it.command.is_empty());
    let formatters: Vec<FormatterCommand> = used
        .map(|formatter| FormatterCommand {
            command: HookCommand {
                words: formatter.command.clone(),
                environment: formatter.environment.clone(),
                timeout: None,
            },
            extensions: formatter.extensions.clone(),
        })
        .collect();
    if formatters.is_empty() {
        return None;
    }
    Some(Arc::new(CommandFormatter { commands: commands.clone(), formatters }))
}

fn list_subagents(configuration: &Configuration) -> Vec<SubagentInfo> {
    let callable = configuration.agents().iter().filter(|agent| agent.mode != AgentMode::Primary);
    let info = |agent: &turnstone_config::AgentProfile| SubagentInfo {
        name: agent.name.clone(),
        description: agent.description.clone().unwrap_or_default(),
    };
    callable.filter(|agent| !agent.is_hidden).map(info).collect()
}

fn list_hooks(configuration: &Configuration) -> Vec<ToolHook> {
    let hook = |setting: &turnstone_config::HookSetting| ToolHook {
        moment: match setting.moment {
            HookTiming::BeforeTool => HookMoment::Before,
            HookTiming::AfterTool => HookMoment::After,
        },
        tool: setting.tool.clone(),
        command: HookCommand {
            words: setting.command.clone(),
            environment: Vec::new(),
            timeout: setting.timeout,
        },
    };
    configuration.settings().hooks.iter().map(hook).collect()
}
