//! IDs of sessions and projects, shortened to a unique prefix.

use std::str::FromStr;

use turnstone_core::id::SessionId;
use turnstone_core::model::Project;
use turnstone_store::{Context, Store};

use crate::error::CliError;

/// Candidates listed for an ambiguous prefix.
const MAX_CANDIDATES: usize = 5;

/// An ID or a prefix of one, as typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IdPrefix(String);

impl FromStr for IdPrefix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
        if text.is_empty() || text.len() > 128 || !text.bytes().all(plain) {
            return Err("an ID consists of letters, digits, _ and -".to_owned());
        }
        Ok(Self(text.to_owned()))
    }
}

impl IdPrefix {
    /// The typed text.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// The session with this ID or unique prefix.
    ///
    /// # Errors
    ///
    /// [`CliError::NoSession`] and [`CliError::AmbiguousSession`].
    pub(crate) fn resolve_session(
        &self,
        store: &Store,
        ctx: &Context,
    ) -> Result<SessionId, CliError> {
        let typed = self.0.as_str();
        if let Ok(id) = typed.parse::<SessionId>()
            && store.read(ctx, |r| r.sessions().find(&id))?.is_some()
        {
            return Ok(id);
        }
        let bare = format!("{}_{typed}", SessionId::PREFIX);
        let mut found = store.read(ctx, |r| {
            let mut ids = r.sessions().ids_with_prefix(&bare, MAX_CANDIDATES + 1)?;
            // `ses…` may be the type prefix, or the start of an ID body that looks like it.
            if typed.starts_with(SessionId::PREFIX) {
                ids.extend(r.sessions().ids_with_prefix(typed, MAX_CANDIDATES + 1)?);
            }
            Ok(ids)
        })?;
        match found.len() {
            0 => Err(CliError::NoSession(typed.to_owned())),
            1 => Ok(found.remove(0)),
            _ => self.ambiguous_session_error(store, ctx, found),
        }
    }

    fn ambiguous_session_error(
        &self,
        store: &Store,
        ctx: &Context,
        mut found: Vec<SessionId>,
    ) -> Result<SessionId, CliError> {
        let more = found.len() > MAX_CANDIDATES;
        found.truncate(MAX_CANDIDATES);
        let candidates = store.read(ctx, |r| {
            let title = |id: SessionId| {
                let title = r.sessions().find(&id)?.map(|session| session.title);
                Ok((id, title.unwrap_or_default()))
            };
            found.into_iter().map(title).collect()
        })?;
        Err(CliError::AmbiguousSession { prefix: self.0.clone(), candidates, more })
    }

    /// The project with this ID or unique prefix.
    ///
    /// # Errors
    ///
    /// [`CliError::NoProject`] and [`CliError::AmbiguousProject`].
    pub(crate) fn resolve_project<'a>(
        &self,
        projects: &'a [Project],
    ) -> Result<&'a Project, CliError> {
        let typed = self.0.as_str();
        if let Some(exact) = projects.iter().find(|project| project.id.as_str() == typed) {
            return Ok(exact);
        }
        let begins = |project: &&Project| project.id.as_str().starts_with(typed);
        let found: Vec<&Project> = projects.iter().filter(begins).collect();
        match found.as_slice() {
            [] => Err(CliError::NoProject(typed.to_owned())),
            [only] => Ok(only),
            many => Err(CliError::AmbiguousProject {
                prefix: typed.to_owned(),
                candidates: many.iter().take(MAX_CANDIDATES).map(|p| p.id.to_string()).collect(),
            }),
        }
    }
}
