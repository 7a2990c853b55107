//! Pages of lists that continue in both directions from a row: only the rows of the page are loaded.

use rusqlite::{OptionalExtension, named_params};
use turnstone_core::id::{ProjectId, SessionId};

use super::list::{MessageWithParts, SELECT_MESSAGES, SessionRow, row_payload};
use super::load::message_from_payload;
use super::reader::ReadTx;
use crate::error::Result;
use crate::table_row_ids::{MessageNum, SessionNum};

/// Towards which end of a list rows are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanDirection {
    /// From newer rows to older ones.
    Older,
    /// From older rows to newer ones.
    Newer,
}

/// Which rows of a list to read: up to `limit`, beginning next to a row or at an end of the list.
#[derive(Clone, Copy, Debug)]
pub struct ListWindow<'a> {
    /// The id of the row next to the window; `None` begins at the end of the list.
    pub anchor: Option<&'a str>,
    /// Towards which end.
    pub direction: ScanDirection,
    /// The most rows.
    pub limit: usize,
}

/// Which sessions of all that are visible; every field narrows the list.
#[derive(Clone, Debug, Default)]
pub struct CreationFilter {
    /// Of this project.
    pub project: Option<ProjectId>,
    /// In exactly this directory.
    pub directory: Option<String>,
    /// In this path below the worktree, or deeper.
    pub path: Option<String>,
    /// With these characters in the title.
    pub search: Option<String>,
    /// Created by this actor.
    pub actor: Option<String>,
}

/// The statement that reads a window of sessions by creation time. The inner query follows the index
/// `session_created` from the anchor on; images are loaded for the rows it returns.
macro_rules! select_by_creation {
    ($beyond:literal, $order:literal) => {
        concat!(
            "
SELECT session.num, session.updated, session.image, event.payload, event.refs, session.cost,
       tokens_input, tokens_output, tokens_reasoning, tokens_cache_read, tokens_cache_write,
       EXISTS (SELECT 1 FROM head WHERE head.session = session.num)
FROM (SELECT num AS page_num, created AS page_created, id AS page_id FROM session
      WHERE hidden = 0
        AND ",
            $beyond,
            "
        AND (:project IS NULL OR project = (SELECT num FROM project WHERE id = :project))
        AND (:directory IS NULL OR directory = :directory)
        AND (:path IS NULL OR path = :path
             OR substr(CAST(path AS BLOB), 1, octet_length(:below)) = CAST(:below AS BLOB))
        AND (:search IS NULL OR instr(lower(title), lower(:search)) > 0)
        AND (:actor IS NULL OR session.actor IN
             (SELECT num FROM actor
              WHERE name = :actor OR substr(name, 1, length(:actor) + 1) = :actor || char(10)))
      ORDER BY ",
            $order,
            " LIMIT :limit) AS page
JOIN session ON session.num = page.page_num
LEFT JOIN event ON event.cursor = session.image
ORDER BY ",
            $order
        )
    };
}

/// Newest first; sessions of one moment by id.
const OLDER_SESSIONS: &str = select_by_creation!(
    "created <= :created AND (created < :created OR id > :id)",
    "page_created DESC, page_id ASC"
);

const NEWER_SESSIONS: &str = select_by_creation!(
    "created >= :created AND (created > :created OR id < :id)",
    "page_created ASC, page_id DESC"
);

const NEWER_MESSAGES: &str = "
SELECT message.num, image, payload, refs
FROM message LEFT JOIN event ON event.cursor = message.image
WHERE message.session = ?1 AND message.num > ?2 ORDER BY message.num ASC LIMIT ?3";

fn sql_limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// Reads pages of lists that continue in both directions.
#[derive(Clone, Copy)]
pub struct PageQueries<'a> {
    pub(crate) read: ReadTx<'a>,
}

impl PageQueries<'_> {
    /// Sessions by creation time, newest first, in the direction of the window; each with whether it is
    /// reverted. Empty if the row of the anchor is not visible any more.
    ///
    /// # Errors
    ///
    /// Only what the database refuses.
    pub fn sessions_by_creation(
        &self,
        filter: &CreationFilter,
        window: ListWindow<'_>,
    ) -> Result<Vec<(SessionRow, bool)>> {
        // Without an anchor every moment lies beyond it.
        let end = match window.direction {
            ScanDirection::Older => f64::INFINITY,
            ScanDirection::Newer => f64::NEG_INFINITY,
        };
        let created = match window.anchor {
            None => end,
            Some(id) => match self.session_creation(id)? {
                None => return Ok(Vec::new()),
                Some(created) => created,
            },
        };
        let mut statement = self.read.conn.prepare_cached(match window.direction {
            ScanDirection::Older => OLDER_SESSIONS,
            ScanDirection::Newer => NEWER_SESSIONS,
        })?;
        let mut rows = statement.query(named_params! {
            ":created": created,
            ":id": window.anchor.unwrap_or_default(),
            ":project": filter.project.as_ref().map(ProjectId::as_str),
            ":directory": filter.directory,
            ":path": filter.path,
            ":below": filter.path.as_deref().map(|p| format!("{p}/")),
            ":search": filter.search,
            ":actor": filter.actor,
            ":limit": sql_limit(window.limit),
        })?;
        let mut items = Vec::new();
        while let Some(row) = rows.next()? {
            items.push((self.read.sessions().session_row(row)?, row.get(11)?));
        }
        Ok(items)
    }

    fn session_creation(&self, id: &str) -> Result<Option<f64>> {
        let mut statement = self
            .read
            .conn
            .prepare_cached("SELECT created FROM session WHERE id = ?1 AND hidden = 0")?;
        Ok(statement.query_row([id], |row| row.get(0)).optional()?)
    }

    /// Messages of a session with their parts, in the direction of the window. Empty if the session has no
    /// message of the anchor's id.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoSession`](crate::StoreError::NoSession).
    pub fn messages(
        &self,
        session: &SessionId,
        window: ListWindow<'_>,
    ) -> Result<Vec<MessageWithParts>> {
        let owner = self.read.session_num(session)?;
        let (sql, end) = match window.direction {
            ScanDirection::Older => (SELECT_MESSAGES, MessageNum(i64::MAX)),
            ScanDirection::Newer => (NEWER_MESSAGES, MessageNum(i64::MIN)),
        };
        let from = match window.anchor {
            None => end,
            Some(id) => match self.message_num(owner, id)? {
                None => return Ok(Vec::new()),
                Some(num) => num,
            },
        };
        let mut statement = self.read.conn.prepare_cached(sql)?;
        let mut rows = statement.query((owner, from, sql_limit(window.limit)))?;
        let (mut nums, mut items) = (Vec::new(), Vec::new());
        while let Some(row) = rows.next()? {
            nums.push(row.get::<_, MessageNum>(0)?);
            let message = message_from_payload(session, row_payload(&self.read, row, 1)?)?;
            items.push(MessageWithParts { message, parts: Vec::new() });
        }
        // Parts are read in stream order.
        if window.direction == ScanDirection::Older {
            nums.reverse();
            items.reverse();
        }
        self.read.messages().load_parts_into(owner, session, &nums, &mut items)?;
        if window.direction == ScanDirection::Older {
            items.reverse();
        }
        Ok(items)
    }

    fn message_num(&self, session: SessionNum, id: &str) -> Result<Option<MessageNum>> {
        let mut statement = self
            .read
            .conn
            .prepare_cached("SELECT num FROM message WHERE id = ?1 AND session = ?2")?;
        Ok(statement.query_row((id, session), |row| row.get(0)).optional()?)
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;
    use crate::schema::MIGRATIONS;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a database in memory, for the plans only")]
    fn pages_of_sessions_follow_the_index_of_creation() {
        let conn = Connection::open_in_memory().expect("opens");
        for step in MIGRATIONS {
            conn.execute_batch(step.sql).expect("made");
        }
        for sql in [OLDER_SESSIONS, NEWER_SESSIONS] {
            let mut statement =
                conn.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).expect("prepared");
            // Nothing is bound: the plan does not depend on it.
            let (mut rows, mut steps) = (statement.raw_query(), Vec::<String>::new());
            while let Some(row) = rows.next().expect("explained") {
                steps.push(row.get(3).expect("a step"));
            }
            let first = steps.iter().find(|step| step.contains(" session ")).expect("a step");
            assert!(first.contains("INDEX session_created (created"), "{steps:?}");
        }
    }
}
