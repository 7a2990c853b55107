//! Which settings of a project need the user's trust.
//!
//! The list is closed on the safe side: of a table that starts programs nothing is in force, and a setting that
//! is not understood is read as the looser one.

use serde_json::{Map, Value};

use crate::source::has_reference;

/// A setting of a project that is not in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestrictedKey {
    /// The key and the keys it is nested in.
    pub key: Vec<String>,
    /// What it would do.
    pub reason: RestrictionReason,
}

impl RestrictedKey {
    /// Returns the key as `agent.build.permission`.
    #[must_use]
    pub fn dotted(&self) -> String {
        self.key.join(".")
    }
}

/// What a setting would do if it were in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestrictionReason {
    /// It starts a program or connects to a tool server.
    StartsPrograms,
    /// It reads an environment variable, a file outside of the project, or a web address.
    ReadsElsewhere,
    /// It names a server that sessions would be sent to.
    NamesHub,
    /// It shares every session.
    SharesSessions,
    /// It allows what would be asked or denied.
    LoosensPermissions,
    /// It switches the record of changes off, so that nothing could be undone.
    DisablesUndo,
}

impl RestrictionReason {
    /// Returns the reason for people.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::StartsPrograms => "starts programs",
            Self::ReadsElsewhere => "reads variables, files or addresses outside of the project",
            Self::NamesHub => "names a server to share with",
            Self::SharesSessions => "shares every session",
            Self::LoosensPermissions => "loosens permissions",
            Self::DisablesUndo => "switches undo off",
        }
    }
}

/// Keys of a whole table or value that starts programs.
const PROGRAM_KEYS: [&str; 6] = ["mcp", "formatter", "lsp", "shell", "hooks", "plugin"];
/// Keys that name a server to share with.
const HUB_KEYS: [&str; 4] = ["enterprise", "hub", "remote", "server"];

/// Removes what needs trust from the settings of a project's file, and returns what was removed.
///
/// `has_references` is false for Markdown, in which `{env:…}` is only text.
pub(crate) fn restrict_settings(
    settings: &mut Map<String, Value>,
    has_references: bool,
) -> Vec<RestrictedKey> {
    let mut restriction = Restriction::default();
    restriction.restrict_programs_and_sharing(settings);
    restriction.restrict_permissions(settings, &[]);
    for (table, has_permissions) in [("agent", true), ("mode", true), ("command", false)] {
        let Some(Value::Object(entries)) = settings.get_mut(table) else { continue };
        for (name, entry) in entries.iter_mut() {
            let Value::Object(entry) = entry else { continue };
            if has_permissions {
                restriction.restrict_permissions(entry, &[table, name]);
                if entry.get("disable").is_some_and(|value| value != &Value::Bool(true)) {
                    let reason = RestrictionReason::LoosensPermissions;
                    restriction.remove(entry, &[table, name], "disable", reason);
                }
            }
            restriction.restrict_model(entry, &[table, name], "model");
        }
    }
    restriction.restrict_model(settings, &[], "model");
    restriction.restrict_model(settings, &[], "small_model");
    restriction.restrict_paths(settings);
    restriction.restrict_providers(settings);
    if has_references {
        restriction.restrict_references(settings, &mut Vec::new());
    }
    restriction.removed
}

#[derive(Default)]
struct Restriction {
    removed: Vec<RestrictedKey>,
}

impl Restriction {
    fn remove(
        &mut self,
        table: &mut Map<String, Value>,
        path: &[&str],
        key: &str,
        reason: RestrictionReason,
    ) {
        // The order of the other keys counts, so this one is not swapped with the last.
        if table.shift_remove(key).is_some() {
            self.note(path, key, reason);
        }
    }

    fn note(&mut self, path: &[&str], key: &str, reason: RestrictionReason) {
        let key = path.iter().copied().chain([key]).map(str::to_owned).collect();
        self.removed.push(RestrictedKey { key, reason });
    }

    fn restrict_programs_and_sharing(&mut self, settings: &mut Map<String, Value>) {
        for key in PROGRAM_KEYS {
            // `false` switches a feature off and starts nothing.
            if settings.get(key).is_some_and(|value| value != &Value::Bool(false)) {
                self.remove(settings, &[], key, RestrictionReason::StartsPrograms);
            }
        }
        for key in HUB_KEYS {
            self.remove(settings, &[], key, RestrictionReason::NamesHub);
        }
        let shares = |value: &Value| !matches!(value.as_str(), Some("manual" | "disabled"));
        if settings.get("share").is_some_and(shares) {
            self.remove(settings, &[], "share", RestrictionReason::SharesSessions);
        }
        if settings.get("autoshare").is_some_and(|value| value != &Value::Bool(false)) {
            self.remove(settings, &[], "autoshare", RestrictionReason::SharesSessions);
        }
        if settings.get("snapshot").is_some_and(|value| value != &Value::Bool(true)) {
            self.remove(settings, &[], "snapshot", RestrictionReason::DisablesUndo);
        }
        if let Some(Value::Object(experimental)) = settings.get_mut("experimental") {
            let path = &["experimental"];
            let loosens = RestrictionReason::LoosensPermissions;
            self.remove(experimental, path, "continue_loop_on_deny", loosens);
            self.remove(experimental, path, "hook", RestrictionReason::StartsPrograms);
        }
    }

    /// Keeps denials and questions of `permission`, and of `tools` what is switched off.
    fn restrict_permissions(&mut self, table: &mut Map<String, Value>, path: &[&str]) {
        let reason = RestrictionReason::LoosensPermissions;
        let inner: Vec<&str> = path.iter().copied().chain(["permission"]).collect();
        match table.get_mut("permission") {
            Some(Value::Object(permissions)) => {
                self.remove_allowed(permissions, &inner);
                for (permission, patterns) in permissions.iter_mut() {
                    let Value::Object(patterns) = patterns else { continue };
                    let at: Vec<&str> =
                        inner.iter().copied().chain([permission.as_str()]).collect();
                    self.remove_allowed(patterns, &at);
                }
            }
            Some(Value::String(word)) if word == "allow" => {
                self.remove(table, path, "permission", reason);
            }
            _ => {}
        }
        if let Some(Value::Object(tools)) = table.get_mut("tools") {
            let on = tools.iter().filter(|(_, value)| value == &&Value::Bool(true));
            let on: Vec<String> = on.map(|(tool, _)| tool.clone()).collect();
            let at: Vec<&str> = path.iter().copied().chain(["tools"]).collect();
            for tool in on {
                self.remove(tools, &at, &tool, reason);
            }
        }
    }

    fn remove_allowed(&mut self, table: &mut Map<String, Value>, path: &[&str]) {
        let allowed = table.iter().filter(|(_, value)| value.as_str() == Some("allow"));
        for key in allowed.map(|(key, _)| key.clone()).collect::<Vec<_>>() {
            self.remove(table, path, &key, RestrictionReason::LoosensPermissions);
        }
    }

    /// The answers of a scripted model come from a file: with it, a repository would call tools.
    fn restrict_model(&mut self, table: &mut Map<String, Value>, path: &[&str], key: &str) {
        let is_scripted =
            |value: &Value| value.as_str().is_some_and(|it| it.starts_with("scripted/"));
        if table.get(key).is_some_and(is_scripted) {
            self.remove(table, path, key, RestrictionReason::StartsPrograms);
        }
    }

    /// Instructions, skills and references that are not below the project.
    fn restrict_paths(&mut self, settings: &mut Map<String, Value>) {
        let reason = RestrictionReason::ReadsElsewhere;
        self.restrict_list(settings, &[], "instructions");
        if let Some(Value::Object(skills)) = settings.get_mut("skills") {
            self.restrict_list(skills, &["skills"], "paths");
            self.remove(skills, &["skills"], "urls", reason);
        }
        for key in ["references", "reference"] {
            self.remove(settings, &[], key, reason);
        }
    }

    fn restrict_list(&mut self, table: &mut Map<String, Value>, path: &[&str], key: &str) {
        let Some(Value::Array(entries)) = table.get_mut(key) else { return };
        let all = entries.len();
        entries.retain(|entry| entry.as_str().is_none_or(is_inside_project));
        if entries.len() < all {
            self.note(path, key, RestrictionReason::ReadsElsewhere);
        }
    }

    /// Variables that a provider's key or address would be taken from, and proxies that would see requests.
    fn restrict_providers(&mut self, settings: &mut Map<String, Value>) {
        let reason = RestrictionReason::ReadsElsewhere;
        let Some(Value::Object(providers)) = settings.get_mut("provider") else { return };
        for (name, provider) in providers.iter_mut() {
            let Value::Object(provider) = provider else { continue };
            let path = ["provider", name.as_str()];
            self.remove(provider, &path, "env", reason);
            if let Some(Value::Object(options)) = provider.get_mut("options") {
                self.remove(options, &["provider", name, "options"], "proxy", reason);
            }
            self.restrict_variables(provider, &mut path.map(str::to_owned).to_vec());
        }
    }

    /// Removes addresses with `${VARIABLE}`.
    fn restrict_variables(&mut self, table: &mut Map<String, Value>, path: &mut Vec<String>) {
        let reason = RestrictionReason::ReadsElsewhere;
        for key in table.keys().cloned().collect::<Vec<_>>() {
            match table.get_mut(&key) {
                Some(Value::Object(inner)) => {
                    path.push(key);
                    self.restrict_variables(inner, path);
                    path.pop();
                }
                Some(Value::String(text)) if text.contains("${") => {
                    let path: Vec<&str> = path.iter().map(String::as_str).collect();
                    self.remove(table, &path, &key, reason);
                }
                _ => {}
            }
        }
    }

    /// Removes every setting that still has `{env:…}` or `{file:…}` in it.
    fn restrict_references(&mut self, table: &mut Map<String, Value>, path: &mut Vec<String>) {
        let reason = RestrictionReason::ReadsElsewhere;
        for key in table.keys().cloned().collect::<Vec<_>>() {
            let Some(value) = table.get_mut(&key) else { continue };
            if let (Value::Object(inner), false) = (&mut *value, has_reference(&key)) {
                path.push(key);
                self.restrict_references(inner, path);
                path.pop();
            } else if has_reference(&key) || mentions_reference(value) {
                let path: Vec<&str> = path.iter().map(String::as_str).collect();
                self.remove(table, &path, &key, reason);
            }
        }
    }
}

fn mentions_reference(value: &Value) -> bool {
    match value {
        Value::String(text) => has_reference(text),
        Value::Array(entries) => entries.iter().any(mentions_reference),
        Value::Object(table) => {
            table.iter().any(|(key, value)| has_reference(key) || mentions_reference(value))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// True for a relative path without `..` that is no address.
fn is_inside_project(path: &str) -> bool {
    let is_elsewhere = path.starts_with(['/', '~', '$'])
        || path.contains("://")
        || path.split(['/', '\\']).any(|part| part == "..");
    !is_elsewhere
}
