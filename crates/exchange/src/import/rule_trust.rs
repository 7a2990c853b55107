//! What a source says about permissions: stored apart from the rules in effect, and put into effect only if
//! a person trusts the source.

use turnstone_core::model::{MessageBody, Project, Session};
use turnstone_core::permission::PermissionRule;
use turnstone_core::wire::IMPORTED_TOOLS;

use super::import_run::ImportRun;
use crate::import_report::ImportedRules;

/// Whether what a source says about permissions takes effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum RuleTrust {
    /// It is stored and not in effect.
    #[default]
    Inert,
    /// A person said so: it is in effect.
    Trusted,
}

/// Gives `session` the rules it has here, and those of the source apart from them or before them.
///
/// Rules in effect stay, whatever the source says: a person set them, or trusted an import. Returns the
/// rules of the source that were not in effect before.
pub(super) fn merge_session_rules(
    session: &mut Session,
    here: Option<&Session>,
    trust: RuleTrust,
) -> Vec<PermissionRule> {
    let carried = session.permission.take();
    let live = here.and_then(|here| here.permission.clone());
    let fresh = rules_not_in(carried.iter().flatten(), live.as_deref().unwrap_or_default());
    if fresh.is_empty() {
        // An empty list differs from a missing one when an export is compared with its source.
        session.permission = live.or(carried.filter(Vec::is_empty));
        return fresh;
    }
    match trust {
        RuleTrust::Inert => {
            session.permission = live;
            session.imported_permission.clone_from(&fresh);
        }
        // Behind them, what is in effect here still decides.
        RuleTrust::Trusted => {
            session.permission =
                Some(fresh.iter().cloned().chain(live.into_iter().flatten()).collect());
        }
    }
    fresh
}

/// The same for a project that is here; rules of several sources add up.
pub(super) fn merge_project_rules(
    project: &mut Project,
    carried: &[PermissionRule],
    trust: RuleTrust,
) {
    let live = project.permission.as_deref().unwrap_or_default();
    let fresh = rules_not_in(carried.iter(), live);
    match trust {
        RuleTrust::Inert => {
            let added = rules_not_in(fresh.iter(), &project.imported_permission);
            project.imported_permission.extend(added);
        }
        RuleTrust::Trusted if fresh.is_empty() => {}
        RuleTrust::Trusted => {
            project.imported_permission.retain(|rule| !fresh.contains(rule));
            let live = project.permission.take();
            project.permission =
                Some(fresh.into_iter().chain(live.into_iter().flatten()).collect());
        }
    }
}

/// The rules that `known` does not have, each once.
pub(super) fn rules_not_in<'r>(
    rules: impl Iterator<Item = &'r PermissionRule>,
    known: &[PermissionRule],
) -> Vec<PermissionRule> {
    let mut fresh: Vec<PermissionRule> = Vec::new();
    for rule in rules {
        if !known.contains(rule) && !fresh.contains(rule) {
            fresh.push(rule.clone());
        }
    }
    fresh
}

/// Puts the tools a prompt of a source switches on or off where nothing evaluates them; returns how many
/// there are. Those that are in effect here stay.
pub(super) fn move_tools_to_imported(body: &mut MessageBody, here: Option<&MessageBody>) -> usize {
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

/// Where the report lists rules of the source.
pub(super) fn carried_rules<'r>(run: &'r mut ImportRun<'_>) -> &'r mut ImportedRules {
    match run.trust {
        RuleTrust::Inert => &mut run.report.untrusted,
        RuleTrust::Trusted => &mut run.report.trusted,
    }
}
