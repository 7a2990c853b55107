//! Named consumers of the log: how far each has read, and when it has fallen too far behind (R25).
//!
//! A consumer holds the log: what it has not read stays whole. One that lags by more than the limit
//! is marked `resync`, holds nothing any more, and has to read the whole state again. Readers of a live
//! stream never register, so they never hold anything.

use rusqlite::{Connection, OptionalExtension};
use turnstone_core::time::{EpochMillis, LogCursor};

use crate::error::{Result, StoreError};
use crate::read::ReadTx;
use crate::tx::Tx;

/// A consumer may lag by this long.
pub const MAX_LAG_MS: i64 = 7 * 24 * 60 * 60 * 1000;
/// A consumer may lag by this many bytes of the log.
pub const MAX_LAG_BYTES: u64 = 256 * 1024 * 1024;

/// How far a consumer has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogConsumer {
    /// Its name.
    pub name: String,
    /// It has read the log up to here.
    pub cursor: LogCursor,
    /// When it last said so.
    pub time: EpochMillis,
    /// It fell too far behind: it has to read the whole state again, then be reset.
    pub resync: bool,
}

/// The bytes an event keeps alive: payload, references, values, streamed text, and the row.
const BYTES_AFTER: &str = "
SELECT 64 + coalesce(octet_length(payload), 0) + coalesce(octet_length(refs), 0)
       + coalesce(text_to - text_from, 0)
       + CASE WHEN refs IS NULL THEN 0 ELSE
           (SELECT coalesce(sum(size), 0) FROM blob_use JOIN blob USING (hash)
            WHERE blob_use.cursor = event.cursor) END
FROM event WHERE cursor > ?1";

/// Moves the consumers of the log.
#[derive(Clone, Copy)]
pub struct ConsumerMutations<'a> {
    pub(crate) tx: &'a Tx<'a>,
}

impl ConsumerMutations<'_> {
    /// Notes that the consumer `name` has read the log up to `cursor`; registers it the first time.
    ///
    /// It never goes back: a lower cursor than before changes nothing.
    ///
    /// # Errors
    ///
    /// [`StoreError::Invalid`] if the log does not reach that far.
    pub fn advance(&self, name: &str, cursor: LogCursor) -> Result<()> {
        self.check_cursor(cursor)?;
        self.tx
            .conn
            .prepare_cached(
                "INSERT INTO consumer (name, cursor, time) VALUES (?1, ?2, ?3)
                 ON CONFLICT (name) DO UPDATE SET cursor = max(cursor, excluded.cursor),
                   time = excluded.time",
            )?
            .execute((name, cursor.0, self.tx.now().0))?;
        Ok(())
    }

    /// Lets the consumer `name` start again at `cursor`: it has read the state as of there.
    ///
    /// # Errors
    ///
    /// [`StoreError::Invalid`] if the log does not reach that far.
    pub fn reset(&self, name: &str, cursor: LogCursor) -> Result<()> {
        self.check_cursor(cursor)?;
        self.tx
            .conn
            .prepare_cached(
                "INSERT OR REPLACE INTO consumer (name, cursor, time, resync)
                 VALUES (?1, ?2, ?3, 0)",
            )?
            .execute((name, cursor.0, self.tx.now().0))?;
        Ok(())
    }

    /// Forgets a consumer; it holds the log no longer. Returns false if there was none.
    ///
    /// # Errors
    ///
    /// Only what the database refuses.
    pub fn remove(&self, name: &str) -> Result<bool> {
        let gone =
            self.tx.conn.prepare_cached("DELETE FROM consumer WHERE name = ?1")?.execute([name])?;
        Ok(gone > 0)
    }

    fn check_cursor(&self, cursor: LogCursor) -> Result<()> {
        if (0..=self.tx.group.cursor.get()).contains(&cursor.0) {
            return Ok(());
        }
        Err(StoreError::Invalid(format!("the log does not reach to {cursor}")))
    }

    /// Marks the consumers that lag too far; returns how many there are new.
    pub(crate) fn mark_lagging(&self, oldest: EpochMillis, bytes: u64) -> Result<u64> {
        let laggards = find_lagging_consumers(self.tx.conn, oldest, bytes)?;
        for name in &laggards {
            self.tx
                .conn
                .prepare_cached("UPDATE consumer SET resync = 1 WHERE name = ?1")?
                .execute([name])?;
        }
        Ok(laggards.len() as u64)
    }
}

/// The names of the consumers that lag too far and are not marked yet.
pub(crate) fn find_lagging_consumers(
    conn: &Connection,
    oldest: EpochMillis,
    bytes: u64,
) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for consumer in load_consumers(conn)? {
        if !consumer.resync && is_lagging(conn, consumer.cursor, oldest, bytes)? {
            found.push(consumer.name);
        }
    }
    Ok(found)
}

/// True if what lies after `cursor` is older or larger than allowed.
fn is_lagging(
    conn: &Connection,
    cursor: LogCursor,
    oldest: EpochMillis,
    bytes: u64,
) -> Result<bool> {
    let next: Option<i64> = conn
        .prepare_cached("SELECT time FROM event WHERE cursor > ?1 ORDER BY cursor LIMIT 1")?
        .query_row([cursor.0], |row| row.get(0))
        .optional()?;
    Ok(match next {
        None => false,
        Some(time) => time < oldest.0 || log_bytes_after(conn, cursor, bytes)? > bytes,
    })
}

/// The bytes of the log after `cursor`; stops counting once there are more than `enough`.
pub(crate) fn log_bytes_after(conn: &Connection, cursor: LogCursor, enough: u64) -> Result<u64> {
    let mut statement = conn.prepare_cached(BYTES_AFTER)?;
    let mut rows = statement.query([cursor.0])?;
    let mut sum = 0;
    while let Some(row) = rows.next()? {
        sum += u64::try_from(row.get::<_, i64>(0)?).unwrap_or(0);
        if sum > enough {
            break;
        }
    }
    Ok(sum)
}

/// All consumers, by name.
pub(crate) fn load_consumers(conn: &Connection) -> Result<Vec<LogConsumer>> {
    let mut statement =
        conn.prepare_cached("SELECT name, cursor, time, resync FROM consumer ORDER BY name")?;
    let rows = statement.query_map([], |row| {
        Ok(LogConsumer {
            name: row.get(0)?,
            cursor: LogCursor(row.get(1)?),
            time: EpochMillis(row.get(2)?),
            resync: row.get(3)?,
        })
    })?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Reads the consumers of the log.
#[derive(Clone, Copy)]
pub struct ConsumerQueries<'a> {
    pub(crate) read: ReadTx<'a>,
}

impl ConsumerQueries<'_> {
    /// A consumer, if it ever registered.
    ///
    /// # Errors
    ///
    /// Only what the database refuses.
    pub fn find(&self, name: &str) -> Result<Option<LogConsumer>> {
        Ok(self.list()?.into_iter().find(|consumer| consumer.name == name))
    }

    /// All consumers, by name.
    ///
    /// # Errors
    ///
    /// Only what the database refuses.
    pub fn list(&self) -> Result<Vec<LogConsumer>> {
        load_consumers(self.read.conn)
    }
}
