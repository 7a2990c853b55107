//! Why a source cannot be read, and how it is opened.

use std::io;
use std::path::PathBuf;

/// How a source is opened.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Where private copies are made; the system's directory for temporary files if absent.
    pub scratch: Option<PathBuf>,
}

/// Why nothing can be imported from a source. The source is as it was.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// There is no such file or directory.
    #[error("{} does not exist", path.display())]
    Missing {
        /// What was named.
        path: PathBuf,
    },
    /// It exists and cannot be read.
    #[error("{} cannot be read", path.display())]
    Unreadable {
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It is something else than a file or a directory.
    #[error("{} is neither a file nor a directory", path.display())]
    NotAFile {
        /// What was named.
        path: PathBuf,
    },
    /// One element of a document is larger than what is held in memory. Nothing was imported.
    #[error("{place} of {} is larger than {} MiB", path.display(), limit >> 20)]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Which element, as `document 1, message 2, part 3`.
        place: String,
        /// The most an element may have, in bytes.
        limit: u64,
    },
    /// The file is neither a database nor JSON.
    #[error("{} is not a SQLite database (or it is encrypted), and not JSON either", path.display())]
    NotADatabase {
        /// The file.
        path: PathBuf,
    },
    /// The database is damaged so that not even its sessions can be listed.
    #[error("the database {} is damaged: {reason}", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What SQLite said.
        reason: String,
    },
    /// The file holds nothing at all.
    #[error("{} is empty", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// The database lacks what every known version has.
    #[error("{} is not a database of a known OpenCode version: it lacks {}", path.display(), missing.join(", "))]
    UnknownSchema {
        /// The file.
        path: PathBuf,
        /// The missing tables and columns.
        missing: Vec<String>,
    },
    /// The directory holds nothing that can be imported.
    #[error("{} contains nothing to import; looked for {}", path.display(), looked_for.join(", "))]
    NothingFound {
        /// The directory.
        path: PathBuf,
        /// What was looked for in it.
        looked_for: Vec<String>,
    },
    /// The directory holds more than one database.
    #[error("{} contains more than one database: {}; choose one of them", path.display(), candidates.join(", "))]
    Ambiguous {
        /// The directory.
        path: PathBuf,
        /// The databases.
        candidates: Vec<String>,
    },
    /// The file is not an export document.
    #[error("{} is not an OpenCode export: {reason}", path.display())]
    NotAnExport {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The database was written to whenever it was copied.
    #[error("{} changes faster than it can be copied", path.display())]
    Unstable {
        /// The file.
        path: PathBuf,
    },
    /// The private copy cannot be made.
    #[error("cannot create a private copy in {}", path.display())]
    Scratch {
        /// Where it was to be made.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl SourceError {
    /// The step that helps.
    #[must_use]
    pub const fn remedy(&self) -> &'static str {
        match self {
            Self::Missing { .. } => {
                "give OpenCode's data directory (usually ~/.local/share/opencode), its opencode.db, \
                 its storage/ directory, an export file, or - for standard input"
            }
            Self::Unreadable { .. } => "make it readable for your user",
            Self::NotAFile { .. } => "give a file or a directory, or - for standard input",
            Self::TooLarge { .. } => "remove this element from the file and import the rest",
            Self::NotADatabase { .. } | Self::NotAnExport { .. } => {
                "give opencode.db, or write an export with `opencode export ID > FILE`"
            }
            Self::Corrupt { .. } => {
                "salvage it with `sqlite3 FILE .recover | sqlite3 NEW` and import the new file"
            }
            Self::Empty { .. } | Self::NothingFound { .. } => {
                "check the path; `opencode db path` prints the path of its database"
            }
            Self::UnknownSchema { .. } => {
                "export the sessions with `opencode export ID > FILE` and import these files"
            }
            Self::Ambiguous { .. } => "give the path of the database file",
            Self::Unstable { .. } => "end OpenCode, or try again when it is idle",
            Self::Scratch { .. } => "free some space there, or set TMPDIR to another directory",
        }
    }
}
