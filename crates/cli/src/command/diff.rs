//! `turnstone diff`

use serde_json::{Value, json};
use turnstone_core::model::{FileDiff, Session};
use turnstone_engine::{Compared, Differences, Engine, Form};
use turnstone_store::Context;

use crate::app::App;
use crate::choice;
use crate::error::CliError;
use crate::exit::Exit;
use crate::figure;
use crate::point;
use crate::reference::Prefix;
use crate::text;
use crate::ui::{BAD, Column, DIM, GOOD, Grid, HEAD, Ui, WARN, paint};

/// Show what a session changed, or a turn, an answer, or what lies between two points
///
/// Only what its commands and tools changed: nothing that you or another session did in between is
/// in it. Without a choice: what the session changed and nobody has taken back. Prints a patch
/// that `git apply` takes.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  turnstone diff --stat\n  turnstone diff --turn trn_0197c2\n  \
                        turnstone diff --from \"before the rewrite\""
)]
pub(crate) struct DiffArgs {
    /// The session [default: the newest of this directory]
    #[arg(value_name = "ID")]
    session: Option<Prefix>,

    /// What this turn changed, taken back or not
    #[arg(long, value_name = "TURN", conflicts_with_all = ["message", "from", "to"])]
    turn: Option<Prefix>,

    /// What the turn of this prompt changed, or the calls of this answer
    #[arg(long, value_name = "MESSAGE", conflicts_with_all = ["from", "to"])]
    message: Option<String>,

    /// From this point: a checkpoint, a turn, `before:TURN` or an operation [default: the beginning]
    #[arg(long, value_name = "POINT")]
    from: Option<String>,

    /// To this point [default: the present]
    #[arg(long, value_name = "POINT")]
    to: Option<String>,

    /// Say for each file how much changed
    #[arg(long)]
    stat: bool,

    /// Lines around each change
    #[arg(long, short = 'U', value_name = "N", default_value_t = 3)]
    context: usize,
}

/// Prints it.
///
/// # Errors
///
/// There is no such session, turn, message or point; or a capture cannot be read.
pub(crate) fn run(ui: &mut Ui, app: &App, args: &DiffArgs) -> Result<Exit, CliError> {
    let (engine, ctx) = (app.engine()?, app.context());
    choice::settle(ui, &engine, &ctx);
    let (session, what) = meant(app, &engine, &ctx, args)?;
    let diff = engine.diff(&ctx, &session.id, &what, Form::Git(args.context))?;
    if ui.wants_json() {
        ui.json(&value(&session, &diff))?;
    } else if args.stat {
        print_stat(ui, &diff)?;
    } else {
        print_patches(ui, &diff)?;
    }
    tell(ui, &diff);
    Ok(Exit::Ok)
}

/// The session, and what of it is compared.
fn meant(
    app: &App,
    engine: &Engine,
    ctx: &Context,
    args: &DiffArgs,
) -> Result<(Session, Compared), CliError> {
    if let (None, Some(prefix)) = (&args.session, &args.turn) {
        let (id, turn) = choice::turn(app, engine, ctx, None, prefix)?;
        return Ok((engine.store().read(ctx, |r| r.get_session(&id))?, Compared::Turn(turn)));
    }
    let session = choice::session(app, engine, ctx, args.session.as_ref())?;
    let find = |typed: &Option<String>| {
        typed.as_ref().map(|typed| point::find(engine, ctx, &session, typed)).transpose()
    };
    let what = match (&args.turn, &args.message, &args.from, &args.to) {
        (Some(prefix), ..) => {
            Compared::Turn(choice::turn(app, engine, ctx, Some(&session), prefix)?.1)
        }
        (None, Some(message), ..) => {
            Compared::Message(point::find_message(engine, ctx, &session, message)?)
        }
        (None, None, None, None) => Compared::Session,
        (None, None, from, to) => Compared::Points(find(from)?, find(to)?),
    };
    Ok((session, what))
}

fn value(session: &Session, diff: &Differences) -> Value {
    let not_covered: Vec<Value> = diff
        .not_covered
        .iter()
        .map(|(root, path, why)| json!({ "root": root.path, "path": path, "why": why }))
        .collect();
    json!({
        "session": session.id,
        "summary": diff.summary(),
        "files": diff.files,
        "not_covered": not_covered,
    })
}

fn print_stat(ui: &mut Ui, diff: &Differences) -> Result<(), CliError> {
    let columns =
        [("", Column::Text), ("", Column::Figure), ("", Column::Figure), ("", Column::Text)];
    let mut grid = Grid::new(&columns);
    for file in &diff.files {
        let (plus, minus) = match file.patch.as_deref() {
            Some("") => ("binary".to_owned(), String::new()),
            Some(_) => (format!("+{}", file.additions), format!("-{}", file.deletions)),
            None => ("large".to_owned(), String::new()),
        };
        let status = file.status.clone().unwrap_or_default();
        grid.row(&[status, plus, minus, name(file)]);
    }
    ui.table(&grid)
}

/// Patches in colours for people, and as they are for programs.
fn print_patches(ui: &mut Ui, diff: &Differences) -> Result<(), CliError> {
    for file in &diff.files {
        match file.patch.as_deref() {
            Some("") => ui.note(&format!("{}: binary", name(file))),
            None => ui.note(&format!("{}: too large to show", name(file))),
            Some(patch) if ui.has_colour() => {
                for line in patch.split_terminator('\n') {
                    ui.line(&coloured(line))?;
                }
            }
            Some(patch) => ui.raw(patch.as_bytes())?,
        }
    }
    Ok(())
}

fn coloured(line: &str) -> String {
    let style = match line.as_bytes() {
        [b'+', b'+', b'+', ..] | [b'-', b'-', b'-', ..] | [b'd', b'i', b'f', b'f', ..] => HEAD,
        [b'+', ..] => GOOD,
        [b'-', ..] => BAD,
        [b'@', ..] => WARN,
        [b' ', ..] => return line.to_owned(),
        _ => DIM,
    };
    paint(style, line)
}

/// The sum, and what nothing can be said of.
fn tell(ui: &mut Ui, diff: &Differences) {
    let summary = diff.summary();
    let count = |number: &serde_json::Number| {
        usize::try_from(number.as_u64().unwrap_or(0)).unwrap_or(usize::MAX)
    };
    match diff.files.is_empty() {
        true => ui.note("no differences"),
        false => {
            let files = figure::counted(diff.files.len(), "file");
            let plus = figure::counted(count(&summary.additions), "line");
            let minus = figure::counted(count(&summary.deletions), "line");
            ui.note(&format!("{files} changed, {plus} added, {minus} removed"));
        }
    }
    for (_, path, why) in &diff.not_covered {
        let path = text::clean_line(&path.to_string());
        ui.note(&format!("not covered: {path} ({})", text::clean_line(why)));
    }
}

fn name(file: &FileDiff) -> String {
    text::clean_line(file.file.as_deref().unwrap_or_default())
}
