//! Reading where no file can be made or grow: SQLite's shared memory is a file, too.

use std::fs::File;

use rusqlite::Connection;
use turnstone_core::time::EpochMillis;

use crate::connection::{self, ConnectionPurpose};
use crate::data_layout::DataLayout;
use crate::database_open::share_open_lock;
use crate::error::DatabaseOpenError;
use crate::lease_owner;
use crate::migration::{self, SchemaCompatibility};
use crate::schema::MIGRATIONS;

/// A connection to read with.
pub(crate) struct ReadConnection {
    pub(crate) conn: Connection,
    /// Keeps writers away while the connection works without shared memory; dropped after it.
    lock: Option<File>,
}

impl ReadConnection {
    /// A connection that works next to writers.
    pub(crate) const fn shared(conn: Connection) -> Self {
        Self { conn, lock: None }
    }

    /// True if no other connection can be opened next to this one.
    pub(crate) const fn is_exclusive(&self) -> bool {
        self.lock.is_some()
    }

    /// Does something to the connection first.
    pub(crate) fn try_map<E>(
        self,
        change: impl FnOnce(Connection) -> Result<Connection, E>,
    ) -> Result<Self, E> {
        Ok(Self { conn: change(self.conn)?, lock: self.lock })
    }

    /// The connection, if it may be used again; the others are closed, and let writers in.
    pub(crate) fn into_reusable(self) -> Option<Connection> {
        self.lock.is_none().then_some(self.conn)
    }
}

/// Opens the database for reading, with shared memory if there is room for it.
pub(crate) fn open_for_reading(
    layout: &DataLayout,
    now: EpochMillis,
) -> Result<ReadConnection, DatabaseOpenError> {
    let path = layout.database();
    let full = match connection::open(&path, ConnectionPurpose::Read) {
        Err(error) if error.is_full() => error,
        opened => return opened.map(ReadConnection::shared),
    };
    let lock = share_open_lock(layout)?;
    // Who has the database open has shared memory, and reading needs no room then.
    let owners = lease_owner::list_live_owners(layout, now).map_err(DatabaseOpenError::Recovery)?;
    if !owners.is_empty() {
        return connection::open(&path, ConnectionPurpose::Read)
            .map(ReadConnection::shared)
            .map_err(|_| full);
    }
    let conn = connection::open_without_shared_memory(&path)?;
    Ok(ReadConnection { conn, lock: Some(lock) })
}

/// True if the database can be read by this version although nothing can be written.
pub(crate) fn is_readable(layout: &DataLayout, now: EpochMillis) -> bool {
    let newest = MIGRATIONS.last().map_or(0, |m| m.version);
    let path = layout.database();
    let looked = open_for_reading(layout, now)
        .and_then(|opened| migration::check_schema_compatibility(&opened.conn, &path));
    matches!(looked, Ok(SchemaCompatibility::Supported(version)) if version == newest)
}
