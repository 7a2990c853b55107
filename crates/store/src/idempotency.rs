//! Idempotency keys: what a repeated call finds of the first one (R43).
//!
//! A call leaves a mark in the transaction of its first event, and its answer at its end: a client that
//! repeats it after a crash in between learns where it began instead of doing it twice.

use rusqlite::OptionalExtension;
use turnstone_core::call_context::Context;
use turnstone_core::time::LogCursor;

use crate::error::Result;
use crate::read::ReadTx;
use crate::store::Store;
use crate::tx::Tx;

/// What is known of a call by its key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdempotencyRecord {
    /// Its first event; nothing if it has changed nothing yet.
    pub first_event: Option<LogCursor>,
    /// What it was answered; nothing if it was cut off, or is still on its way.
    pub answer: Option<String>,
}

/// A key cannot hold a line break: it came in a header.
fn start_key(key: &str) -> String {
    format!("{key}\nbegan")
}

fn answer_key(key: &str) -> String {
    format!("{key}\nanswer")
}

fn find_stored_result(read: &ReadTx<'_>, actor: &str, key: &str) -> Result<Option<String>> {
    Ok(read
        .conn
        .prepare_cached(
            "SELECT result FROM idempotency
             WHERE actor = (SELECT num FROM actor WHERE name = ?1) AND key = ?2",
        )?
        .query_row((actor, key), |row| row.get(0))
        .optional()?)
}

/// Notes that the call under this context's key has begun, with its first event.
pub(crate) fn record_call_start(tx: &Tx<'_>, cursor: i64) -> Result<()> {
    let Some(key) = &tx.ctx.idempotency_key else { return Ok(()) };
    insert_result(tx, &start_key(key), &cursor.to_string())
}

fn insert_result(tx: &Tx<'_>, key: &str, result: &str) -> Result<()> {
    tx.count_bytes(result.len() as u64);
    tx.conn
        .prepare_cached(
            "INSERT INTO idempotency (actor, key, result, time) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (actor, key) DO NOTHING",
        )?
        .execute((tx.user_num()?, key, result, tx.now().0))?;
    Ok(())
}

/// Finds and stores the answers of calls under their idempotency keys.
#[derive(Clone, Copy)]
pub struct IdempotencyKeys<'a> {
    pub(crate) store: &'a Store,
}

impl IdempotencyKeys<'_> {
    /// What is known of the call under this context's key and actor.
    ///
    /// # Errors
    ///
    /// Only what the database refuses.
    pub fn find(&self, ctx: &Context) -> Result<IdempotencyRecord> {
        let Some(key) = &ctx.idempotency_key else { return Ok(IdempotencyRecord::default()) };
        let actor = ctx.actor.as_str();
        self.store.read(ctx, |r| {
            let began = find_stored_result(r, actor, &start_key(key))?
                .and_then(|text| text.parse().ok())
                .map(LogCursor);
            Ok(IdempotencyRecord {
                first_event: began,
                answer: find_stored_result(r, actor, &answer_key(key))?,
            })
        })
    }

    /// Keeps the answer of the call under this context's key; the first one counts.
    ///
    /// # Errors
    ///
    /// Only what the database refuses.
    pub fn store_answer(&self, ctx: &Context, text: String) -> Result<()> {
        let Some(key) = ctx.idempotency_key.clone() else { return Ok(()) };
        self.store.write(ctx, move |tx| insert_result(tx, &answer_key(&key), &text)).wait()
    }
}
