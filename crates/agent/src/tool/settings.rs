//! What the built-in tools need besides their host.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use turnstone_engine::SupervisorProgram;

use super::{PageFetcher, SkillInfo, SubagentInfo, ToolError, ToolHost};

/// What the built-in tools need besides their host.
#[derive(Clone, Default)]
pub struct ToolSettings {
    /// How much of an output the model reads at once.
    pub output_limits: ToolOutputLimits,
    /// How commands are run; without it, no tool runs any.
    pub commands: Option<CommandSettings>,
    /// Formats the files that a call has written.
    pub formatter: Option<Arc<dyn FileFormatter>>,
    /// Fetches pages of the web; without it, no tool does.
    pub fetcher: Option<Arc<dyn PageFetcher>>,
    /// The agents that may be called as subagents.
    pub subagents: Vec<SubagentInfo>,
    /// The skills that may be loaded.
    pub skills: Vec<SkillInfo>,
    /// Finds the instruction files near a file that is read.
    pub instructions: Option<Arc<dyn NearbyInstructions>>,
}

/// How commands are run.
#[derive(Clone)]
pub struct CommandSettings {
    /// How this program is started again to watch over a command.
    pub supervisor: SupervisorProgram,
    /// The shell: see `find_command_shell`.
    pub shell: OsString,
    /// The variables of this process; keys and secrets are removed for each command.
    pub variables: Vec<(OsString, OsString)>,
    /// Names of variables that hold keys of providers, and the keys.
    pub secrets: Vec<String>,
    /// Whether to record what commands write, so that changes of others are not taken for theirs.
    pub is_traced: bool,
}

impl fmt::Debug for CommandSettings {
    /// Shows neither variables nor keys.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = out.debug_struct("CommandSettings");
        shown.field("supervisor", &self.supervisor).field("shell", &self.shell);
        shown.field("is_traced", &self.is_traced).finish_non_exhaustive()
    }
}

/// How much of an output the model reads at once; the rest goes to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToolOutputLimits {
    /// Lines.
    pub lines: usize,
    /// Bytes.
    pub bytes: usize,
}

impl Default for ToolOutputLimits {
    fn default() -> Self {
        Self { lines: 2_000, bytes: 50 << 10 }
    }
}

/// Formats files that a call has written. What it writes belongs to the call.
pub trait FileFormatter: Send + Sync {
    /// Formats files of a call and returns those that it may have changed.
    ///
    /// # Errors
    ///
    /// The turn was aborted. A formatter that fails is no error: the file stays as it was written.
    fn format(&self, host: &dyn ToolHost, files: &[PathBuf]) -> Result<Vec<PathBuf>, ToolError>;
}

/// Finds the instruction files that hold for a file and that the model has not read yet.
pub trait NearbyInstructions: Send + Sync {
    /// Returns the files between a file and the directory of the session, with their text.
    fn find(&self, host: &dyn ToolHost, file: &Path) -> Vec<InstructionFile>;
}

/// An instruction file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstructionFile {
    /// Where it is.
    pub path: PathBuf,
    /// Its text.
    pub text: String,
}
