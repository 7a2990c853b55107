//! `turnstone diff`

use serde_json::{Value, json};
use turnstone_core::change::Evidence;
use turnstone_core::model::{Session, SessionFileDiff};
use turnstone_engine::{DiffFormat, DiffTarget, Engine, SessionDiff};
use turnstone_store::Context;

use crate::app::CliApp;
use crate::error::CliError;
use crate::exit_code::ProgramExit;
use crate::number_format;
use crate::point_lookup;
use crate::session_lookup;
use crate::text;
use crate::trace_text::{count_evidence, trace_lines};
use crate::turn_ref::TurnRef;
use crate::ui::{
    ColumnKind, DIM_STYLE, ERROR_STYLE, HEADING_STYLE, SUCCESS_STYLE, TextTable, Ui, WARNING_STYLE,
    apply_style,
};

/// Show the changes of a session, a turn, or between two points
///
/// Contains only what commands and tools of the session changed, not your own edits or those of other
/// sessions. By default, shows the changes of the session that have not been undone. The output is a
/// patch for `git apply`. Files that are too large for it are listed on stderr, and the exit code is 4.
///
/// The evidence for each change is printed on stderr, and per file with --stat and --json: `named` by the
/// tool, `traced` (the command was seen writing the file), `window` (changed while the command ran),
/// `recovered` (the same, found after a crash) or `imported` (from OpenCode's snapshots). Also printed:
/// what others changed during the commands.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  turnstone diff --stat\n  turnstone diff @2\n  turnstone diff --turn trn_0197c2\n  \
                        turnstone diff --from \"before the rewrite\""
)]
pub(crate) struct DiffArgs {
    /// Session ID or unique prefix, or a turn as `@N` [default: the newest session of this directory]
    #[arg(value_name = "ID")]
    target: Option<TurnRef>,

    /// Show the changes of this turn, even if undone: ID, unique prefix, or `@N` as shown by `log`
    #[arg(long, value_name = "TURN", conflicts_with_all = ["message", "from", "to"])]
    turn: Option<TurnRef>,

    /// Show the changes of a prompt's turn, or of the tool calls in one answer
    #[arg(long, value_name = "MESSAGE", conflicts_with_all = ["from", "to"])]
    message: Option<String>,

    /// Start point: a checkpoint, a turn, `before:TURN` or an operation [default: start of session]
    #[arg(long, value_name = "POINT")]
    from: Option<String>,

    /// End point [default: now]
    #[arg(long, value_name = "POINT")]
    to: Option<String>,

    /// Show the number of changed lines per file
    #[arg(long)]
    stat: bool,

    /// Lines of context
    #[arg(long, short = 'U', value_name = "N", default_value_t = 3)]
    context: usize,
}

/// Prints the patch, the statistics or the JSON.
///
/// # Errors
///
/// There is no such session, turn, message or point; or a capture cannot be read.
pub(crate) fn run(ui: &mut Ui, app: &CliApp, args: &DiffArgs) -> Result<ProgramExit, CliError> {
    let (engine, ctx) = (app.open_engine()?, app.context());
    session_lookup::recover_and_report(ui, &engine, &ctx);
    let (session, what) = resolve_comparison(app, &engine, &ctx, args)?;
    let diff =
        engine.history().diffs().diff(&ctx, &session.id, &what, DiffFormat::Git(args.context))?;
    if ui.wants_json() {
        ui.print_json(&diff_json(&session, &diff))?;
    } else if args.stat {
        print_stat(ui, &diff)?;
    } else {
        print_patches(ui, &diff)?;
    }
    print_summary(ui, &diff);
    let is_whole =
        args.stat || ui.wants_json() || diff.files.iter().all(|file| file.patch.is_some());
    // A script must not take part of a patch for all of it.
    Ok(if is_whole { ProgramExit::Ok } else { ProgramExit::Conflict })
}

/// Resolves the session and the states to compare.
fn resolve_comparison(
    app: &CliApp,
    engine: &Engine,
    ctx: &Context,
    args: &DiffArgs,
) -> Result<(Session, DiffTarget), CliError> {
    let (wanted, turn) = match &args.target {
        Some(TurnRef::Prefix(session)) => (Some(session), args.turn.as_ref()),
        Some(number) if is_session_only(args) => (None, Some(number)),
        Some(_) => {
            return Err(CliError::Refused {
                what: "a turn cannot be combined with --turn, --message, --from or --to".to_owned(),
                hint: Some("`turnstone diff @2` shows the second newest turn".to_owned()),
            });
        }
        None => (None, args.turn.as_ref()),
    };
    if let (None, Some(turn)) = (wanted, turn) {
        let (id, turn) = session_lookup::resolve_turn(app, engine, ctx, None, turn)?;
        return Ok((engine.store().read(ctx, |r| r.sessions().get(&id))?, DiffTarget::Turn(turn)));
    }
    if let (None, None, Some(message)) = (wanted, turn, &args.message)
        && let Some((session, message)) = session_lookup::find_message(app, engine, ctx, message)?
    {
        return Ok((session, DiffTarget::Message(message)));
    }
    let first = [&args.message, &args.from, &args.to].into_iter().flatten().next();
    let (session, _) = session_lookup::resolve_session_of_point(
        app,
        engine,
        ctx,
        wanted,
        first.map_or("", String::as_str),
    )?;
    let by_id = |typed: &String| -> Result<String, CliError> {
        let own = session.id.as_str().parse().ok();
        Ok(session_lookup::resolve_session_of_point(app, engine, ctx, own.as_ref(), typed)?.1)
    };
    let find = |typed: &Option<String>| match typed {
        None => Ok(None),
        Some(typed) => point_lookup::resolve_point(engine, ctx, &session, &by_id(typed)?).map(Some),
    };
    let what = match (turn, &args.message, &args.from, &args.to) {
        (Some(turn), ..) => DiffTarget::Turn(
            session_lookup::resolve_turn(app, engine, ctx, Some(&session), turn)?.1,
        ),
        (None, Some(message), ..) => DiffTarget::Message(point_lookup::resolve_message(
            engine,
            ctx,
            &session,
            &by_id(message)?,
        )?),
        (None, None, None, None) => DiffTarget::Session,
        (None, None, from, to) => DiffTarget::Points(find(from)?, find(to)?),
    };
    Ok((session, what))
}

/// True if nothing but the session, or the turn in its place, was given.
const fn is_session_only(args: &DiffArgs) -> bool {
    args.turn.is_none() && args.message.is_none() && args.from.is_none() && args.to.is_none()
}

fn diff_json(session: &Session, diff: &SessionDiff) -> Value {
    let not_covered: Vec<Value> = diff
        .not_covered
        .iter()
        .map(|(root, path, why)| json!({ "root": root.path, "path": path, "why": why }))
        .collect();
    let file_json = |file: &SessionFileDiff| {
        let mut value = json!(file);
        if let Some(evidence) = find_evidence(diff, file) {
            value["evidence"] = json!(evidence);
        }
        value
    };
    json!({
        "session": session.id,
        "summary": diff.summary(),
        "files": diff.files.iter().map(file_json).collect::<Vec<_>>(),
        "not_covered": not_covered,
        "traces": diff.traces,
    })
}

/// How a file of a diff is known; `None` for files of imported turns that have no change set.
fn find_evidence(diff: &SessionDiff, file: &SessionFileDiff) -> Option<Evidence> {
    diff.evidence.get(file.file.as_deref()?).copied()
}

fn print_stat(ui: &mut Ui, diff: &SessionDiff) -> Result<(), CliError> {
    let columns = [
        ("", ColumnKind::Text),
        ("", ColumnKind::Number),
        ("", ColumnKind::Number),
        ("", ColumnKind::Text),
        ("", ColumnKind::Text),
    ];
    let mut grid = TextTable::new(&columns);
    for file in &diff.files {
        let (plus, minus) = match file.patch.as_deref() {
            Some(patch) if is_binary_patch(patch) => ("binary".to_owned(), String::new()),
            Some(_) => (format!("+{}", file.additions), format!("-{}", file.deletions)),
            None => ("large".to_owned(), String::new()),
        };
        let status = file.status.clone().unwrap_or_default();
        let evidence = find_evidence(diff, file).map_or("", Evidence::as_str).to_owned();
        grid.add_row(&[status, plus, minus, evidence, display_path(file)]);
    }
    ui.print_table(&grid)
}

/// True for the patch of a file that is no text.
fn is_binary_patch(patch: &str) -> bool {
    patch.is_empty() || patch.lines().any(|line| line == "GIT binary patch")
}

/// Prints patches, coloured on terminals.
fn print_patches(ui: &mut Ui, diff: &SessionDiff) -> Result<(), CliError> {
    for file in &diff.files {
        match file.patch.as_deref() {
            Some("") => ui.print_note(&format!("{}: binary", display_path(file))),
            None => ui.print_note(&format!("{}: too large, not in the patch", display_path(file))),
            Some(patch) if ui.has_colour() => {
                for line in patch.split_terminator('\n') {
                    ui.print_line(&colour_patch_line(line))?;
                }
            }
            Some(patch) => ui.print_bytes(patch.as_bytes())?,
        }
    }
    Ok(())
}

fn colour_patch_line(line: &str) -> String {
    let style = match line.as_bytes() {
        [b'+', b'+', b'+', ..] | [b'-', b'-', b'-', ..] | [b'd', b'i', b'f', b'f', ..] => {
            HEADING_STYLE
        }
        [b'+', ..] => SUCCESS_STYLE,
        [b'-', ..] => ERROR_STYLE,
        [b'@', ..] => WARNING_STYLE,
        [b' ', ..] => return line.to_owned(),
        _ => DIM_STYLE,
    };
    apply_style(style, line)
}

/// Prints totals and the paths without recorded content.
fn print_summary(ui: &mut Ui, diff: &SessionDiff) {
    let summary = diff.summary();
    let count = |number: &serde_json::Number| {
        usize::try_from(number.as_u64().unwrap_or(0)).unwrap_or(usize::MAX)
    };
    match diff.files.is_empty() {
        true => ui.print_note("no differences"),
        false => {
            let files = number_format::format_counted(diff.files.len(), "file");
            let uncounted = diff.files.iter().filter(|file| file.patch.is_none()).count();
            if uncounted == diff.files.len() {
                ui.print_note(&format!("{files} changed, too large to count lines"));
            } else {
                let plus = number_format::format_counted(count(&summary.additions), "line");
                let minus = number_format::format_counted(count(&summary.deletions), "line");
                ui.print_note(&format!("{files} changed, {plus} added, {minus} removed"));
            }
        }
    }
    let kinds = count_evidence(diff.evidence.values().copied());
    if !kinds.is_empty() {
        ui.print_dim_note(&format!("evidence: {kinds}"));
    }
    for line in diff.traces.iter().flat_map(|trace| trace_lines(&trace.report)) {
        ui.print_dim_note(&line);
    }
    for (_, path, why) in &diff.not_covered {
        let path = text::sanitize_line(&path.to_string());
        ui.print_note(&format!("not recorded: {path} ({})", text::sanitize_line(why)));
    }
}

fn display_path(file: &SessionFileDiff) -> String {
    text::sanitize_line(file.file.as_deref().unwrap_or_default())
}
