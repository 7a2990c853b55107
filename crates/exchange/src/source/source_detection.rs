//! What a path is: a database, a data directory, a JSON directory, a file of documents, or `-`.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use fs_err as fs;

use super::database::OpenCodeDatabase;
use super::export_document::ExportDocuments;
use super::json_storage::JsonStorage;
use super::private_copy::create_scratch_dir;
use super::source_limits::{MAX_SOURCE, source_too_large};
use super::{Options, SourceError, SourceReader, json_files, legacy_layout};

const MAGIC: &[u8] = b"SQLite format 3\0";

/// A source that is ready to be read, and what people should know about the choice of it.
pub(crate) struct OpenedSource {
    pub(crate) reader: Box<dyn SourceReader>,
    pub(crate) notes: Vec<String>,
}

impl OpenedSource {
    fn new(reader: impl SourceReader + 'static) -> Self {
        Self { reader: Box::new(reader), notes: Vec::new() }
    }
}

/// Opens what `source` names.
pub(crate) fn open_source(source: &Path, options: &Options) -> Result<OpenedSource, SourceError> {
    if source == Path::new("-") {
        return open_stream(io::stdin().lock(), options);
    }
    let path = source.to_path_buf();
    let meta = fs::metadata(source).map_err(|error| {
        if error.kind() == io::ErrorKind::NotFound {
            return SourceError::Missing { path: path.clone() };
        }
        SourceError::Unreadable { path: path.clone(), source: error }
    })?;
    match (meta.is_dir(), meta.is_file()) {
        (true, _) => open_dir(source, options),
        (_, true) => open_file(source, options),
        (false, false) => Err(SourceError::NotAFile { path }),
    }
}

/// Opens the documents that `input` brings; they are kept in a private file meanwhile.
fn open_stream(input: impl Read, options: &Options) -> Result<OpenedSource, SourceError> {
    let name = PathBuf::from("-");
    let spool = create_scratch_dir(options)?;
    let path = spool.path().join("stream.json");
    let failed = |source| SourceError::Unreadable { path: name.clone(), source };
    let mut file = fs::File::create(&path).map_err(failed)?;
    let copied = io::copy(&mut input.take(MAX_SOURCE + 1), &mut file).map_err(failed)?;
    if copied > MAX_SOURCE {
        return Err(failed(source_too_large()));
    }
    if copied == 0 {
        return Err(SourceError::Empty { path: name });
    }
    Ok(OpenedSource::new(ExportDocuments::open(name, path, Some(spool))?))
}

fn open_file(path: &Path, options: &Options) -> Result<OpenedSource, SourceError> {
    let head = read_file_head(path)?;
    if head.is_empty() {
        return Err(SourceError::Empty { path: path.to_path_buf() });
    }
    if head.starts_with(MAGIC) {
        return Ok(OpenedSource::new(OpenCodeDatabase::open(path, options)?));
    }
    let first = head.iter().find(|byte| !byte.is_ascii_whitespace());
    if !matches!(first, Some(b'{' | b'[')) {
        return Err(SourceError::NotADatabase { path: path.to_path_buf() });
    }
    Ok(OpenedSource::new(ExportDocuments::open(path.to_path_buf(), path.to_path_buf(), None)?))
}

fn read_file_head(path: &Path) -> Result<Vec<u8>, SourceError> {
    let unreadable = |source| SourceError::Unreadable { path: path.to_path_buf(), source };
    let mut head = Vec::new();
    let Some(file) =
        json_files::open_regular(path, json_files::LinkPolicy::Follow).map_err(unreadable)?
    else {
        return Err(SourceError::Missing { path: path.to_path_buf() });
    };
    file.take(512).read_to_end(&mut head).map_err(unreadable)?;
    Ok(head)
}

fn open_dir(dir: &Path, options: &Options) -> Result<OpenedSource, SourceError> {
    if let Some(database) = find_database(dir)? {
        return open_data_dir(dir, &database, options);
    }
    match find_storage(dir) {
        Some(storage) => Ok(OpenedSource::new(storage)),
        None => Err(SourceError::NothingFound {
            path: dir.to_path_buf(),
            looked_for: [
                "opencode.db",
                "opencode-*.db",
                "storage/session/",
                "session/",
                "project/*/storage/",
            ]
            .map(str::to_owned)
            .to_vec(),
        }),
    }
}

/// A data directory with a database. What `storage/` still holds was moved into the database
/// by OpenCode and never deleted, so it is read only if the move cannot have happened (W29).
fn open_data_dir(
    dir: &Path,
    database: &Path,
    options: &Options,
) -> Result<OpenedSource, SourceError> {
    let storage = find_storage(dir);
    let left = match &storage {
        Some(storage) => storage.session_count()?,
        None => 0,
    };
    let opened = if read_file_head(database)?.is_empty() {
        Err(SourceError::Empty { path: database.to_path_buf() })
    } else {
        OpenCodeDatabase::open(database, options)
    };
    match (opened, storage) {
        (Ok(database), Some(storage)) if database.session_count() == 0 && left > 0 => {
            let note = "the database holds no session, so the older files in storage/ were read";
            Ok(OpenedSource { reader: Box::new(storage), notes: vec![note.to_owned()] })
        }
        (Err(SourceError::Empty { .. }), Some(storage)) if left > 0 => {
            let note = "the database is empty, so the older files in storage/ were read";
            Ok(OpenedSource { reader: Box::new(storage), notes: vec![note.to_owned()] })
        }
        (Ok(database), _) => {
            let mut opened = OpenedSource::new(database);
            if left > 0 {
                opened.notes.push(format!(
                    "storage/ still holds {left} session files of before the database; OpenCode has \
                     moved them into it, so they were not read (name storage/ to import them)"
                ));
            }
            Ok(opened)
        }
        (Err(error), _) => Err(error),
    }
}

/// The database of a data directory: `opencode.db`, or that of the one channel there is.
fn find_database(dir: &Path) -> Result<Option<PathBuf>, SourceError> {
    let main = dir.join("opencode.db");
    if main.is_file() {
        return Ok(Some(main));
    }
    let channel = |entry: &json_files::JsonDirEntry| match entry {
        json_files::JsonDirEntry::Other { name }
            if name.starts_with("opencode-") && name.ends_with(".db") =>
        {
            Some(name.clone())
        }
        json_files::JsonDirEntry::Other { .. } | json_files::JsonDirEntry::Json { .. } => None,
    };
    let candidates: Vec<String> = json_files::list_files(dir)?.iter().filter_map(channel).collect();
    match candidates.as_slice() {
        [] => Ok(None),
        [one] => Ok(Some(dir.join(one))),
        _ => Err(SourceError::Ambiguous { path: dir.to_path_buf(), candidates }),
    }
}

/// The JSON storage in or at a directory.
fn find_storage(dir: &Path) -> Option<JsonStorage> {
    let older =
        Some(dir.join("project")).filter(|project| legacy_layout::is_legacy_layout(project));
    let inside = dir.join("storage");
    if JsonStorage::is_json_storage(&inside) || older.is_some() {
        return Some(JsonStorage::new(inside, older));
    }
    JsonStorage::is_json_storage(dir).then(|| JsonStorage::new(dir.to_path_buf(), None))
}
