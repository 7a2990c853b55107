//! The flags of `turnstone run`.

use std::path::PathBuf;

use crate::id_prefix::IdPrefix;

/// Let the agent work on a prompt, and follow it here
///
/// The agent runs in this program, on the files of this directory. Its text goes to stdout as it comes; tools,
/// retries and questions go to stderr. What it may not do without you is asked here: once, always (for this
/// project), or no. Without a terminal such calls are refused. Text from standard input is appended to the prompt.
/// Every change can be undone with `turnstone undo`, also after Ctrl-C or a crash. Exits with 0 if the prompt was
/// answered, 1 if the model or the configuration failed or a call was refused for lack of a terminal, 4 if the session
/// is busy, 130 after Ctrl-C. If neither a flag nor the configuration names a model, one of a provider with a key is
/// taken.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  turnstone run \"fix the tide table\"\n  \
                        turnstone run --continue \"now add a test\"\n  \
                        git diff | turnstone run --agent plan \"review this\"\n  \
                        turnstone run --model anthropic/claude-sonnet-4-5 --max-cost 0.50 \"find the bug\"")]
pub(crate) struct RunArgs {
    /// What the agent is to do
    #[arg(value_name = "PROMPT")]
    pub(super) prompt: Vec<String>,

    /// Model, as PROVIDER/MODEL; `turnstone models` lists them
    #[arg(short, long, value_name = "MODEL")]
    pub(super) model: Option<String>,

    /// Agent, such as build or plan
    #[arg(long, value_name = "NAME")]
    pub(super) agent: Option<String>,

    /// Variant of the model: how hard it thinks
    #[arg(long, value_name = "NAME")]
    pub(super) variant: Option<String>,

    /// Continue this session: ID or unique prefix
    #[arg(short, long, value_name = "ID", conflicts_with = "continues")]
    pub(super) session: Option<IdPrefix>,

    /// Continue the newest session of this directory
    #[arg(short, long = "continue")]
    pub(super) continues: bool,

    /// Attach a file: text, an image or a PDF; can be repeated
    #[arg(short, long = "file", value_name = "PATH", value_hint = clap::ValueHint::FilePath)]
    pub(super) files: Vec<PathBuf>,

    /// Output: text for people, or json with one event per line
    #[arg(long, value_name = "FORMAT", value_enum, default_value = "text")]
    pub(super) format: RunFormat,

    /// End before a request that would cost more than this in all, in US dollars
    #[arg(long, value_name = "USD", value_parser = parse_dollars)]
    pub(super) max_cost: Option<f64>,

    /// Title of a new session [default: the model writes one]
    #[arg(long, value_name = "TITLE", conflicts_with_all = ["session", "continues"])]
    pub(super) title: Option<String>,

    /// Allow once whatever no rule denies, without asking
    #[arg(long)]
    pub(super) auto: bool,

    /// Show the reasoning of the model
    #[arg(long)]
    pub(super) thinking: bool,
}

/// What is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum RunFormat {
    /// For people.
    Text,
    /// One event per line.
    Json,
}

fn parse_dollars(text: &str) -> Result<f64, String> {
    let amount = text.trim_start_matches('$').parse::<f64>().ok();
    let amount = amount.filter(|amount| amount.is_finite() && *amount > 0.0);
    amount.ok_or_else(|| "an amount in US dollars, such as 0.50".to_owned())
}
