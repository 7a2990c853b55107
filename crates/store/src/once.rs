//! Calls that are made once: what a repeat of an idempotency key finds (R43).
//!
//! A call that is one mutation is remembered with it ([`Store::write_once`]). A call of several leaves
//! a mark in the transaction of its first event, and its answer when it is over: whoever repeats it
//! after a crash in between is told where it began instead of doing it twice.

use rusqlite::OptionalExtension;
use turnstone_core::time::Cursor;

use crate::context::Context;
use crate::error::Result;
use crate::read::Reader;
use crate::store::Store;
use crate::tx::Tx;

/// What is known of a call by its key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recall {
    /// Its first event; nothing if it has changed nothing yet.
    pub began: Option<Cursor>,
    /// What it was answered; nothing if it was cut off, or is still on its way.
    pub answer: Option<String>,
}

/// A key cannot hold a line break: it came in a header.
fn mark(key: &str) -> String {
    format!("{key}\nbegan")
}

fn answer(key: &str) -> String {
    format!("{key}\nanswer")
}

impl Reader<'_> {
    fn kept(&self, actor: &str, key: &str) -> Result<Option<String>> {
        Ok(self
            .conn
            .prepare_cached(
                "SELECT result FROM idempotency
                 WHERE actor = (SELECT num FROM actor WHERE name = ?1) AND key = ?2",
            )?
            .query_row((actor, key), |row| row.get(0))
            .optional()?)
    }
}

impl Tx<'_> {
    /// Notes that the call under this context's key has begun, with its first event.
    pub(crate) fn mark_begun(&self, cursor: i64) -> Result<()> {
        let Some(key) = &self.ctx.idempotency else { return Ok(()) };
        self.keep(&mark(key), &cursor.to_string())
    }

    fn keep(&self, key: &str, result: &str) -> Result<()> {
        self.weigh(result.len() as u64);
        self.conn
            .prepare_cached(
                "INSERT INTO idempotency (actor, key, result, time) VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT (actor, key) DO NOTHING",
            )?
            .execute((self.user()?, key, result, self.now().0))?;
        Ok(())
    }
}

impl Store {
    /// What is known of the call under this context's key and actor.
    ///
    /// # Errors
    ///
    /// Only what the database refuses.
    pub fn recall(&self, ctx: &Context) -> Result<Recall> {
        let Some(key) = &ctx.idempotency else { return Ok(Recall::default()) };
        let actor = ctx.actor.as_str();
        self.read(ctx, |r| {
            let began = r.kept(actor, &mark(key))?.and_then(|text| text.parse().ok()).map(Cursor);
            Ok(Recall { began, answer: r.kept(actor, &answer(key))? })
        })
    }

    /// Keeps the answer of the call under this context's key; the first one counts.
    ///
    /// # Errors
    ///
    /// Only what the database refuses.
    pub fn keep_answer(&self, ctx: &Context, text: String) -> Result<()> {
        let Some(key) = ctx.idempotency.clone() else { return Ok(()) };
        self.write(ctx, move |tx| tx.keep(&answer(&key), &text)).wait()
    }
}
