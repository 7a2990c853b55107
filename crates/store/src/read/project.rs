//! Queries on projects and their approved rules.

use crate::read::reader::ReadTx;
use rusqlite::OptionalExtension;
use serde_json::Value;
use turnstone_core::id::ProjectId;
use turnstone_core::model::Project;
use turnstone_core::permission::PermissionRule;

use super::load::load_project;
use crate::error::Result;

/// Reads projects and their approved rules.
#[derive(Clone, Copy)]
pub struct ProjectQueries<'a> {
    pub(crate) read: ReadTx<'a>,
}

impl ProjectQueries<'_> {
    /// A project, if it exists.
    ///
    /// # Errors
    ///
    /// Only what the database refuses.
    pub fn find(&self, id: &ProjectId) -> Result<Option<Project>> {
        let num: Option<i64> = self
            .read
            .conn
            .prepare_cached("SELECT num FROM project WHERE id = ?1")?
            .query_row([id.as_str()], |row| row.get(0))
            .optional()?;
        num.map(|num| load_project(self.read.conn, self.read.blobs, num)).transpose()
    }

    /// All projects, oldest first.
    ///
    /// # Errors
    ///
    /// Only what the database refuses.
    pub fn list(&self) -> Result<Vec<Project>> {
        let mut statement =
            self.read.conn.prepare_cached("SELECT num FROM project ORDER BY num")?;
        let nums: Vec<i64> =
            statement.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
        nums.into_iter().map(|num| load_project(self.read.conn, self.read.blobs, num)).collect()
    }

    /// The rules approved for a project, oldest first.
    ///
    /// # Errors
    ///
    /// Only what the database refuses.
    pub fn approved_rules(&self, project: &ProjectId) -> Result<Vec<PermissionRule>> {
        let mut statement = self.read.conn.prepare_cached(
            "SELECT permission, pattern, action FROM approval
             WHERE project = (SELECT num FROM project WHERE id = ?1) ORDER BY granted",
        )?;
        let rows = statement.query_map([project.as_str()], |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?, row.get::<_, String>(2)?))
        })?;
        rows.map(|row| {
            let (permission, pattern, action) = row?;
            let action = serde_json::from_value(Value::String(action))?;
            Ok(PermissionRule::new(&permission, &pattern, action))
        })
        .collect()
    }
}
