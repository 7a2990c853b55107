//! The files that imported turns changed elsewhere: those of which no capture exists here (R21).

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use turnstone_core::change::{ChangeRoot, Evidence};
use turnstone_core::id::{PartId, SessionId, TurnId};
use turnstone_core::model::PartBody;
use turnstone_core::rel_path::RelPath;
use turnstone_store::{Context, ReadTx, TurnRow};

use super::selection::UndoSelection;
use super::types::IMPORTED_REASON;
use crate::error::Result;
use crate::history::timeline::{Timeline, TimelinePosition};

/// Files of patches that were made elsewhere.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ImportedFiles {
    /// Those below the directory of the session.
    pub(crate) inside: Vec<(ChangeRoot, RelPath, String)>,
    /// The others, as the source names them; what no capture looks at too, such as `.git`.
    pub(crate) outside: Vec<String>,
}

/// What is known here of the changes of a turn.
#[derive(Default)]
struct KnownChanges {
    /// Its own calls were tracked.
    is_tracked: bool,
    /// The patch parts that became change sets.
    parts: BTreeSet<PartId>,
}

impl UndoSelection {
    /// The files of the imported ones among some turns that no change set covers.
    pub(super) fn list_files_of_imported(
        &self,
        ctx: &Context,
        session: &SessionId,
        line: &Timeline,
        turns: &[&TurnRow],
    ) -> Result<ImportedFiles> {
        let mut files = ImportedFiles::default();
        for (turn, from, to) in line.turns_on_timeline() {
            if turn.imported && turns.iter().any(|chosen| chosen.id == turn.id) {
                let more = self.list_imported_files(ctx, session, line, (from, to))?;
                files.inside.extend(more.inside);
                files.outside.extend(more.outside);
            }
        }
        Ok(files)
    }

    /// The files of patches between two positions that no change set covers.
    pub(crate) fn list_imported_files(
        &self,
        ctx: &Context,
        session: &SessionId,
        line: &Timeline,
        (from, to): (TimelinePosition, TimelinePosition),
    ) -> Result<ImportedFiles> {
        let positions = line.outline.iter().enumerate().flat_map(|(at, it)| {
            it.parts.iter().enumerate().map(move |(nth, part)| ((at, nth + 1), part))
        });
        let patches: Vec<(TimelinePosition, &PartId)> = positions
            .filter(|(at, (_, kind))| *at >= from && *at < to && kind == "patch")
            .map(|(at, (id, _))| (at, id))
            .collect();
        if patches.is_empty() {
            return Ok(ImportedFiles::default());
        }
        let (directory, files) = self.store.read(ctx, |r| {
            let mut known: HashMap<TurnId, KnownChanges> = HashMap::new();
            let mut files = BTreeSet::new();
            for (at, id) in patches {
                if let Some(turn) = line.turn_at(at) {
                    if !known.contains_key(&turn.id) {
                        known.insert(turn.id.clone(), read_known_changes(r, session, &turn.id)?);
                    }
                    let known = known.get(&turn.id);
                    if known.is_some_and(|it| it.is_tracked || it.parts.contains(id)) {
                        continue;
                    }
                }
                if let PartBody::Patch(patch) = r.messages().get_part(session, id)?.body {
                    files.extend(patch.files);
                }
            }
            Ok((r.sessions().get(session)?.directory, files))
        })?;
        let root = ChangeRoot { store: String::new(), path: directory };
        let mut found = ImportedFiles::default();
        for file in files {
            match path_below(&root.path, &file) {
                Some(path) => found.inside.push((root.clone(), path, IMPORTED_REASON.to_owned())),
                None => found.outside.push(file),
            }
        }
        Ok(found)
    }
}

/// A path of a source below a directory; nothing for one that is not there, or that no capture looks at.
fn path_below(directory: &str, file: &str) -> Option<RelPath> {
    let path = Path::new(file);
    path.strip_prefix(directory).unwrap_or(path).to_string_lossy().parse().ok()
}

fn read_known_changes(
    r: &ReadTx<'_>,
    session: &SessionId,
    turn: &TurnId,
) -> turnstone_store::Result<KnownChanges> {
    let mut known = KnownChanges::default();
    for row in r.change_sets().of_turn(session, turn)? {
        match (row.set.evidence, row.set.part) {
            (Evidence::Imported, Some(part)) => drop(known.parts.insert(part)),
            (Evidence::Imported, None) => {}
            (Evidence::Named | Evidence::Window | Evidence::Traced | Evidence::Recovered, _) => {
                known.is_tracked = true
            }
        }
    }
    Ok(known)
}
