//! Global flags, and the only module that reads environment variables.

use std::ffi::OsString;
use std::fmt;
use std::io::IsTerminal;
use std::path::PathBuf;

use clap::{ArgAction, ColorChoice};
use etcetera::BaseStrategy;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use crate::ui::LogWriter;
use crate::user_git_config::GitConfigLocation;

/// Flags of all commands.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct GlobalArgs {
    /// Data directory [env: TURNSTONE_DATA] [default: turnstone in the XDG data directory]
    #[arg(long, global = true, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub(crate) data: Option<PathBuf>,

    /// Print data as JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,

    /// When to use colours: auto, always or never (NO_COLOR is respected)
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    #[arg(hide_possible_values = true, hide_default_value = true)]
    pub(crate) color: ColorChoice,

    /// Do not page long output (pager: TURNSTONE_PAGER, PAGER or less)
    #[arg(long, global = true)]
    pub(crate) no_pager: bool,

    /// Log more to stderr; repeat for more detail
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub(crate) verbose: u8,

    /// Format output for a terminal of this width
    #[arg(long, global = true, hide = true, value_name = "COLUMNS")]
    pub(crate) width: Option<u16>,
}

/// Environment of the process at startup.
#[derive(Debug)]
pub(crate) struct StartupEnvironment {
    /// Current directory.
    pub(crate) directory: Option<PathBuf>,
    /// Name of the user.
    pub(crate) user: Option<String>,
    /// Default data directory.
    pub(crate) data: Option<PathBuf>,
    /// Private runtime directory for sockets.
    pub(crate) runtime_dir: Option<PathBuf>,
    /// Path of the configuration file.
    pub(crate) config_path: Option<PathBuf>,
    /// Location of the user's git configuration.
    pub(crate) git: GitConfigLocation,
    /// All environment variables; commands inherit them.
    pub(crate) variables: Vec<(OsString, OsString)>,
    /// Path of this executable.
    pub(crate) executable_path: Option<PathBuf>,
    /// Command line arguments, program name first.
    pub(crate) args: Vec<OsString>,
    /// Session whose command runs this program.
    pub(crate) enclosing_session: Option<String>,
    /// Output width from the environment.
    pub(crate) width: Option<u16>,
    /// Whether the user can answer a question.
    pub(crate) can_ask: bool,
    /// Standard output.
    pub(crate) out: StreamTarget,
    /// Standard error.
    pub(crate) err: StreamTarget,
}

/// Properties of an output stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StreamTarget {
    /// Whether it is a terminal.
    pub(crate) terminal: bool,
    /// Whether to use colours.
    pub(crate) colour: bool,
}

impl StartupEnvironment {
    /// Reads the environment.
    pub(crate) fn read() -> Self {
        #[expect(clippy::disallowed_methods, reason = "this is the only reader of the environment")]
        let (directory, user, named, width, runtime, settings) = {
            let user = std::env::var("USER").or_else(|_| std::env::var("LOGNAME"));
            let path = |name: &str| {
                std::env::var_os(name).filter(|path| !path.is_empty()).map(PathBuf::from)
            };
            let width = std::env::var("TURNSTONE_WIDTH").ok().and_then(|n| n.parse().ok());
            let (runtime, settings) = (path("XDG_RUNTIME_DIR"), path("TURNSTONE_CONFIG"));
            let named = path("TURNSTONE_DATA");
            (std::env::current_dir().ok(), user.ok(), named, width, runtime, settings)
        };
        #[expect(clippy::disallowed_methods, reason = "this is the only reader of the environment")]
        let (variables, program, session) = (
            std::env::vars_os().collect(),
            std::env::current_exe().ok(),
            std::env::var("TURNSTONE_SESSION").ok(),
        );
        let colour = |choice| !matches!(choice, anstream::ColorChoice::Never);
        let out = StreamTarget {
            terminal: std::io::stdout().is_terminal(),
            colour: colour(anstream::AutoStream::choice(&std::io::stdout())),
        };
        let err = StreamTarget {
            terminal: std::io::stderr().is_terminal(),
            colour: colour(anstream::AutoStream::choice(&std::io::stderr())),
        };
        let base = etcetera::choose_base_strategy().ok();
        let usual = || Some(base.as_ref()?.data_dir().join("turnstone"));
        let config = base.as_ref().map(BaseStrategy::config_dir);
        let home = base.as_ref().map(|base| base.home_dir().to_owned());
        Self {
            directory,
            user,
            data: named.or_else(usual),
            runtime_dir: runtime.map(|runtime| runtime.join("turnstone")),
            config_path: settings
                .or_else(|| config.as_ref().map(|config| config.join("turnstone/config.json"))),
            git: GitConfigLocation { home, config },
            variables,
            executable_path: program,
            args: std::env::args_os().collect(),
            enclosing_session: session,
            width,
            can_ask: std::io::stdin().is_terminal() && err.terminal,
            out,
            err,
        }
    }
}

/// Width of the terminal on standard output.
pub(crate) fn terminal_width() -> Option<usize> {
    comfy_table::Table::new().width().map(usize::from)
}

/// Sends log events to stderr: warnings, and one level more for every `-v`.
pub(crate) fn start_tracing(verbose: u8) {
    let level = match verbose {
        0 => tracing::Level::WARN,
        1 => tracing::Level::INFO,
        2 => tracing::Level::DEBUG,
        _ => tracing::Level::TRACE,
    };
    let is_terminal = std::io::stderr().is_terminal();
    let subscriber = tracing_subscriber::fmt()
        .with_writer(move || LogWriter::new(is_terminal))
        // Field values are escaped on terminals; ANSI styles would be escaped with them.
        .with_ansi(false)
        .with_max_level(level);
    let installed = match verbose {
        // Who asked for no log gets messages like those of the command itself.
        0 => {
            tracing::subscriber::set_global_default(subscriber.event_format(WarningFormat).finish())
        }
        _ => {
            let subscriber = subscriber.without_time().with_target(verbose > 1).finish();
            tracing::subscriber::set_global_default(subscriber)
        }
    };
    if installed.is_err() {
        tracing::debug!("a log subscriber was already installed");
    }
}

/// Formats log events as messages of a command.
struct WarningFormat;

impl<S, N> FormatEvent<S, N> for WarningFormat
where
    S: tracing::Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        ctx: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &tracing::Event<'_>,
    ) -> fmt::Result {
        let is_error = *event.metadata().level() == tracing::Level::ERROR;
        writer.write_str(if is_error { "error: " } else { "warning: " })?;
        ctx.field_format().format_fields(writer.by_ref(), event)?;
        writeln!(writer)
    }
}
