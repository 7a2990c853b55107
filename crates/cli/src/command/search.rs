//! `turnstone search`: full-text search over all sessions.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde_json::{Value, json};
use turnstone_store::{SearchHit, SearchKind, SearchPage, SearchQuery, Snippet};

use crate::app::CliApp;
use crate::error::CliError;
use crate::exit_code::ProgramExit;
use crate::id_prefix::IdPrefix;
use crate::number_format;
use crate::project_flag;
use crate::text;
use crate::time_format;
use crate::ui::{DIM_STYLE, HEADING_STYLE, ID_STYLE, MATCH_STYLE, Ui, apply_style};

/// Search titles, messages, reasoning, tool calls and changed paths
///
/// All words must match. Use quotes for a phrase and * at the end of a word for a prefix:
/// `turnstone search '"summer time" tid*'`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  turnstone search tide table\n  \
                        turnstone search --project --kind tool 'cargo test'")]
pub(crate) struct SearchArgs {
    /// Words to search for
    #[arg(required = true)]
    words: Vec<String>,

    /// Search only the current project, or the project with this ID
    #[arg(long, value_name = "ID", num_args = 0..=1, require_equals = true)]
    project: Option<Option<IdPrefix>>,

    /// Search only this session
    #[arg(long, value_name = "ID")]
    session: Option<IdPrefix>,

    /// Search only this kind of text; can be repeated
    #[arg(long, short, value_name = "KIND", value_parser = kinds())]
    kind: Vec<SearchKind>,

    /// Search only what this actor wrote
    #[arg(long, value_name = "NAME")]
    actor: Option<String>,

    /// Include archived sessions
    #[arg(long)]
    archived: bool,

    /// Maximum number of results
    #[arg(long, short = 'n', value_name = "N", default_value_t = 20)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=200))]
    limit: u32,

    /// Continue from the cursor of a previous search
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
}

fn kinds() -> impl TypedValueParser<Value = SearchKind> {
    PossibleValuesParser::new(SearchKind::ALL.map(SearchKind::name))
        .try_map(|name| SearchKind::parse(&name).ok_or("unknown kind"))
}

/// Prints the matches.
///
/// # Errors
///
/// The error of the store.
pub(crate) fn run(ui: &mut Ui, app: &CliApp, args: &SearchArgs) -> Result<ProgramExit, CliError> {
    let (engine, ctx) = (app.open_engine()?, app.context());
    let store = engine.store();
    let mut query = SearchQuery::new(args.words.join(" "));
    if let Some(wanted) = &args.project {
        query.filter.project =
            Some(project_flag::resolve_project_or_current(app, &engine, &ctx, wanted.as_ref())?);
    }
    query.filter.session =
        args.session.as_ref().map(|prefix| prefix.resolve_session(store, &ctx)).transpose()?;
    query.filter.kinds.clone_from(&args.kind);
    query.filter.archived = args.archived;
    query.filter.actor.clone_from(&args.actor);
    query.cursor.clone_from(&args.cursor);
    query.limit = args.limit as usize;
    let page = store.session_search().query(&ctx, &query)?;
    if ui.wants_json() {
        let hits: Vec<Value> = page.hits.iter().map(hit_json).collect();
        ui.print_json(&json!({
            "hits": hits, "next_cursor": page.next, "capped": page.capped, "behind": page.behind,
        }))?;
    } else {
        print_hits(ui, app, &page)?;
    }
    print_remaining(ui, args, &page);
    Ok(ProgramExit::Ok)
}

fn hit_json(hit: &SearchHit) -> Value {
    let matches: Vec<[usize; 2]> =
        hit.snippet.matches.iter().map(|range| [range.start, range.end]).collect();
    json!({
        "session": hit.session,
        "title": hit.title,
        "message": hit.message,
        "part": hit.part,
        "kind": hit.kind.name(),
        "time": hit.time,
        "rank": hit.rank,
        "snippet": hit.snippet.text,
        "matches": matches,
    })
}

/// Prints the hits, those of one session under its title.
fn print_hits(ui: &mut Ui, app: &CliApp, page: &SearchPage) -> Result<(), CliError> {
    let mut last = None;
    for hit in &page.hits {
        if last != Some(&hit.session) {
            if last.is_some() {
                ui.print_line("")?;
            }
            let title = apply_style(HEADING_STYLE, text::sanitize_line(&hit.title));
            ui.print_line(&format!("{}  {title}", apply_style(ID_STYLE, &hit.session)))?;
            last = Some(&hit.session);
        }
        if hit.kind == SearchKind::Title {
            continue;
        }
        let label = format!(
            "{} · {}",
            hit.kind.name(),
            time_format::format_local_time(hit.time.0, app.now())
        );
        let room =
            ui.width().map(|width| width.saturating_sub(text::display_width(&label) + 4).max(30));
        ui.print_line(&format!(
            "  {}  {}",
            apply_style(DIM_STYLE, &label),
            highlight_matches(&hit.snippet, room)
        ))?;
    }
    Ok(())
}

/// The snippet with highlighted matches, truncated so that the first match stays visible.
fn highlight_matches(snippet: &Snippet, room: Option<usize>) -> String {
    let text = &snippet.text;
    let first = snippet.matches.first().map_or(0, |range| range.start);
    let room = room.unwrap_or(usize::MAX);
    let (mut start, mut lead) = (0, "");
    if text::display_width(text) > room {
        // A third of the width for the text before the match.
        let early = text[..first].char_indices().rev().nth(room / 3).map(|(at, _)| at);
        if let Some(at) = early {
            (start, lead) = (at, "…");
        }
    }
    let mut line = lead.to_owned();
    let mut left = room.saturating_sub(lead.chars().count());
    let mut at = start;
    let ends = snippet.matches.iter().filter(|range| range.start >= start);
    let pieces = ends.flat_map(|range| [(range.start, false), (range.end, true)]);
    for (end, is_match) in pieces.chain([(text.len(), false)]) {
        let piece = text::truncate_to_width(&text::sanitize_line(&text[at..end]), left);
        let cut_short = text::display_width(&text[at..end]) > left;
        left = left.saturating_sub(text::display_width(&piece));
        line.push_str(&if is_match { apply_style(MATCH_STYLE, piece) } else { piece });
        if cut_short {
            break;
        }
        at = end;
    }
    line
}

/// Reports what is not on this page.
fn print_remaining(ui: &mut Ui, args: &SearchArgs, page: &SearchPage) {
    if page.hits.is_empty() {
        let words = text::sanitize_line(&args.words.join(" "));
        ui.print_note(&format!("no matches for {words}"));
    }
    if page.capped {
        ui.print_dim_note("too many matches: only the newest were ranked; add a word");
    }
    if page.behind > 0 {
        let events = number_format::format_counted(page.behind, "event");
        ui.print_dim_note(&format!("not indexed yet: the newest {events}"));
    }
    if let Some(cursor) = page.next.as_ref().filter(|_| !ui.wants_json()) {
        ui.print_hint(&format!("for more results, add `--cursor {cursor}`"));
    }
}
