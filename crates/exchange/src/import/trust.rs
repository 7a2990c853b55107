//! What a source says about permissions: stored beside the rules in effect, and put into effect only if
//! a person trusts the source.

use turnstone_core::model::{MessageBody, Project, Session};
use turnstone_core::permission::Rule;
use turnstone_core::wire::IMPORTED_TOOLS;

use super::run::Run;
use crate::report::CarriedRules;

/// Whether what a source says about permissions takes effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Trust {
    /// It is stored and not in effect.
    #[default]
    No,
    /// A person said so: it is in effect.
    Yes,
}

/// Gives `session` the rules it has here, and those of the source beside or before them.
///
/// Rules in effect stay, whatever the source says: a person set them, or trusted an import. Returns the
/// rules of the source that were not in effect before.
pub(super) fn merge_session(
    session: &mut Session,
    here: Option<&Session>,
    trust: Trust,
) -> Vec<Rule> {
    let carried = session.permission.take();
    let live = here.and_then(|here| here.permission.clone());
    let fresh = not_in(carried.iter().flatten(), live.as_deref().unwrap_or_default());
    if fresh.is_empty() {
        // An empty list is not the same as none, to whoever compares an export with its source.
        session.permission = live.or(carried.filter(Vec::is_empty));
        return fresh;
    }
    match trust {
        Trust::No => {
            session.permission = live;
            session.imported_permission.clone_from(&fresh);
        }
        // Behind them, what is in effect here still decides.
        Trust::Yes => {
            session.permission =
                Some(fresh.iter().cloned().chain(live.into_iter().flatten()).collect());
        }
    }
    fresh
}

/// The same for a project that is here; rules of several sources add up.
pub(super) fn merge_project(project: &mut Project, carried: &[Rule], trust: Trust) {
    let live = project.permission.as_deref().unwrap_or_default();
    let fresh = not_in(carried.iter(), live);
    match trust {
        Trust::No => {
            let added = not_in(fresh.iter(), &project.imported_permission);
            project.imported_permission.extend(added);
        }
        Trust::Yes if fresh.is_empty() => {}
        Trust::Yes => {
            project.imported_permission.retain(|rule| !fresh.contains(rule));
            let live = project.permission.take();
            project.permission =
                Some(fresh.into_iter().chain(live.into_iter().flatten()).collect());
        }
    }
}

/// The rules that `known` does not have, each once.
pub(super) fn not_in<'r>(rules: impl Iterator<Item = &'r Rule>, known: &[Rule]) -> Vec<Rule> {
    let mut fresh: Vec<Rule> = Vec::new();
    for rule in rules {
        if !known.contains(rule) && !fresh.contains(rule) {
            fresh.push(rule.clone());
        }
    }
    fresh
}

/// Puts the tools a prompt of a source switches on or off where nothing evaluates them; returns how many
/// there are. Those that are in effect here stay.
pub(super) fn set_tools_aside(body: &mut MessageBody, here: Option<&MessageBody>) -> usize {
    let MessageBody::User(user) = body else {
        return 0;
    };
    if let Some(MessageBody::User(here)) = here
        && here.tools == user.tools
    {
        return 0;
    }
    let Some(tools) = user.tools.take() else {
        return 0;
    };
    let count = tools.len();
    user.extra.insert(IMPORTED_TOOLS.to_owned(), tools.into());
    count
}

impl Run<'_> {
    /// Where the report lists rules of the source.
    pub(super) fn carried(&mut self) -> &mut CarriedRules {
        match self.trust {
            Trust::No => &mut self.report.untrusted,
            Trust::Yes => &mut self.report.trusted,
        }
    }
}
