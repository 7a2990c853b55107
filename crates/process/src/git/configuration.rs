//! The settings that count for a repository, as git itself reads them, and which of them are passed on.
//!
//! Two lists decide. Commands that read or write files see no configuration but ours: only the settings
//! of [`PASSED_KEYS`] are copied into it. Commands that manage worktrees need the repository's own
//! configuration; there every setting that names a program is overridden by [`neutral_value`].

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use super::error::GitError;

/// The settings that describe the file system, the line ends and the sparse checkout: without them git
/// would see changes where there are none. None of them can start a program.
const PASSED_KEYS: [&str; 14] = [
    "core.attributesfile",
    "core.autocrlf",
    "core.checkstat",
    "core.eol",
    "core.excludesfile",
    "core.filemode",
    "core.ignorecase",
    "core.precomposeunicode",
    "core.protecthfs",
    "core.protectntfs",
    "core.sparsecheckout",
    "core.sparsecheckoutcone",
    "core.symlinks",
    "core.trustctime",
];

/// A setting that overrides all files: its name and its value.
pub(super) type GitSetting = (OsString, OsString);

#[derive(Clone, Debug, PartialEq, Eq)]
struct GitConfigEntry {
    /// True if the repository itself sets it, not the user or the system.
    is_local: bool,
    key: Vec<u8>,
    /// A setting without a value means true.
    value: Vec<u8>,
}

/// What `git config --list --show-scope -z` prints, in the order in which it counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct GitConfiguration {
    entries: Vec<GitConfigEntry>,
}

impl GitConfiguration {
    /// Reads the list.
    pub(super) fn parse(answer: &[u8]) -> Result<Self, GitError> {
        let unreadable = |part: &[u8]| {
            let answer = String::from_utf8_lossy(part).chars().take(200).collect();
            GitError::Unreadable { command: "config".to_owned(), answer }
        };
        let mut entries = Vec::new();
        let mut words = answer.split(|byte| *byte == 0);
        while let Some(scope) = words.next() {
            if scope.is_empty() {
                break;
            }
            let line = words.next().ok_or_else(|| unreadable(scope))?;
            let mut parts = line.splitn(2, |byte| *byte == b'\n');
            let key = parts.next().filter(|key| key.contains(&b'.'));
            let key = key.ok_or_else(|| unreadable(line))?.to_vec();
            let value = parts.next().unwrap_or(b"true").to_vec();
            match scope {
                b"local" | b"worktree" => {
                    entries.push(GitConfigEntry { is_local: true, key, value })
                }
                b"system" | b"global" => {
                    entries.push(GitConfigEntry { is_local: false, key, value })
                }
                // Our own, which a repository cannot set.
                b"command" => {}
                _ => return Err(unreadable(scope)),
            }
        }
        Ok(Self { entries })
    }

    fn last_value(&self, key: &[u8], wanted: impl Fn(&GitConfigEntry) -> bool) -> Option<&[u8]> {
        let found = self.entries.iter().rfind(|entry| entry.key == key && wanted(entry));
        found.map(|entry| &entry.value[..])
    }

    /// The effective value from any scope. The key is in lower case.
    pub(super) fn value(&self, key: &str) -> Option<String> {
        self.last_value(key.as_bytes(), |_| true)
            .map(|value| String::from_utf8_lossy(value).into_owned())
    }

    /// The bytes of the value that counts, and whether the repository itself set it.
    pub(super) fn value_and_origin(&self, key: &str) -> Option<(&[u8], bool)> {
        let found = self.entries.iter().rfind(|entry| entry.key == key.as_bytes())?;
        Some((&found.value, found.is_local))
    }

    /// The value that the repository itself sets.
    pub(super) fn local_value(&self, key: &str) -> Option<String> {
        let value = self.last_value(key.as_bytes(), |entry| entry.is_local);
        value.map(|value| String::from_utf8_lossy(value).into_owned())
    }

    /// The settings that isolated commands see besides the fixed ones.
    pub(super) fn passed_settings(&self) -> Vec<GitSetting> {
        let value = |key: &str| {
            Some((key.into(), to_os_string(self.last_value(key.as_bytes(), |_| true)?)))
        };
        PASSED_KEYS.iter().filter_map(|key| value(key)).collect()
    }

    /// The configuration file of an isolated repository: its format, and nothing else.
    ///
    /// # Errors
    ///
    /// An extension has a value that no extension has.
    pub(super) fn format_file(&self) -> Result<String, GitError> {
        let version = self.local_value("core.repositoryformatversion");
        let version = version.unwrap_or_else(|| "0".to_owned());
        let mut file = format!("[core]\n\trepositoryformatversion = {}\n", check_plain(&version)?);
        file.push_str("\tbare = false\n[extensions]\n");
        for GitConfigEntry { key, value, .. } in self.entries.iter().filter(|entry| entry.is_local)
        {
            let Some(name) = key.strip_prefix(b"extensions.") else { continue };
            // The first would read another file of the repository, the second would fetch.
            if matches!(name, b"worktreeconfig" | b"partialclone") {
                continue;
            }
            let (name, value) = (String::from_utf8_lossy(name), String::from_utf8_lossy(value));
            file.push_str(&format!("\t{} = {}\n", check_plain(&name)?, check_plain(&value)?));
        }
        Ok(file)
    }

    /// The settings that take every program of the configuration away.
    pub(super) fn neutralizing_settings(&self) -> Vec<GitSetting> {
        let mut found: Vec<GitSetting> = Vec::new();
        for entry in &self.entries {
            if let Some(value) = neutral_value(&entry.key) {
                found.push((to_os_string(&entry.key), value.into()));
            }
            let Some(hook) = hook_section(&entry.key) else { continue };
            for (name, value) in [("enabled", "false"), ("event", ""), ("command", ":")] {
                let mut key = to_os_string(hook);
                key.push(format!(".{name}"));
                found.push((key, value.into()));
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// A condition on which the repository includes further settings, which are unknown here.
    pub(super) fn find_local_include_condition(&self) -> Option<String> {
        let is_condition =
            |entry: &&GitConfigEntry| entry.is_local && entry.key.starts_with(b"includeif.");
        let found = self.entries.iter().find(is_condition);
        found.map(|entry| String::from_utf8_lossy(&entry.key).into_owned())
    }
}

/// The value that takes the program of a setting away; `None` if the setting names no program.
///
/// The section and the last part are compared, so that no name in between can hide a setting.
fn neutral_value(key: &[u8]) -> Option<&'static str> {
    let section = key.split(|byte| *byte == b'.').next()?;
    let name = key.rsplit(|byte| *byte == b'.').next()?;
    match (section, name) {
        // Handled with their other keys.
        (b"hook", _) => None,
        (b"filter", b"required") | (b"remote", b"promisor") => Some("false"),
        (b"remote", b"uploadpack" | b"receivepack") | (b"gpg", b"program") => Some("false"),
        (b"remote", b"vcs" | b"proxy") => Some(""),
        (b"submodule", b"update") => Some("none"),
        (b"pager", _) => Some("false"),
        (
            _,
            b"clean" | b"smudge" | b"process" | b"command" | b"cmd" | b"textconv" | b"driver"
            | b"helper" | b"program" | b"defaultkeycommand",
        ) => Some(""),
        _ => None,
    }
}

/// The part of `hook.NAME.key` that names the hook.
fn hook_section(key: &[u8]) -> Option<&[u8]> {
    let end = key.iter().rposition(|byte| *byte == b'.')?;
    let hook = key.get(..end)?;
    hook.starts_with(b"hook.").then_some(hook)
}

/// Refuses what could end a line or begin a section of a configuration file.
fn check_plain(text: &str) -> Result<&str, GitError> {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./:".contains(letter);
    match text.chars().all(is_plain) && !text.is_empty() {
        true => Ok(text),
        false => {
            let answer = text.chars().take(200).collect();
            Err(GitError::Unreadable { command: "config".to_owned(), answer })
        }
    }
}

fn to_os_string(bytes: &[u8]) -> OsString {
    OsString::from_vec(OsStr::from_bytes(bytes).as_bytes().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn configuration(entries: &[(&str, &str)]) -> GitConfiguration {
        let text: String =
            entries.iter().map(|(scope, entry)| format!("{scope}\0{entry}\0")).collect();
        GitConfiguration::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn only_harmless_settings_are_passed() {
        let found = configuration(&[
            ("global", "core.autocrlf\ninput"),
            ("global", "core.excludesfile\n~/ignore"),
            ("local", "core.autocrlf\nfalse"),
            ("local", "core.fsmonitor\n/bin/evil"),
            ("local", "core.worktree\n/elsewhere"),
            ("local", "filter.a=b.clean\nevil\n--twice"),
            ("command", "core.eol\ncrlf"),
            ("worktree", "core.sparsecheckout"),
        ]);
        let passed = [
            ("core.autocrlf", "false"),
            ("core.excludesfile", "~/ignore"),
            ("core.sparsecheckout", "true"),
        ];
        assert_eq!(found.passed_settings(), passed.map(|(key, value)| (key.into(), value.into())));
        assert_eq!(found.local_value("core.excludesfile"), None);
    }

    #[test]
    fn every_setting_that_names_a_program_is_neutralized() {
        let keys = [
            "filter.a=b.clean",
            "filter.x.y\".process",
            "diff.d.textconv",
            "diff.d.command",
            "merge.m.driver",
            "credential.https://h.helper",
            "remote.o.uploadpack",
            "remote.o.vcs",
            "submodule.s.update",
            "pager.config",
            "gpg.ssh.program",
            "gpg.ssh.defaultkeycommand",
            "trailer.t.cmd",
        ];
        for key in keys {
            let found =
                configuration(&[("local", &format!("{key}\nevil"))]).neutralizing_settings();
            assert!(
                matches!(&found[..], [(name, value)] if name == key && value != "evil"),
                "{key}"
            );
        }
        let hook = configuration(&[("local", "hook.h.x.command\nevil")]).neutralizing_settings();
        let expected = [("command", ":"), ("enabled", "false"), ("event", "")];
        let expected =
            expected.map(|(key, value)| (format!("hook.h.x.{key}").into(), value.into()));
        assert_eq!(hook, expected);
        assert_eq!(configuration(&[("local", "branch.main.merge\nx")]).neutralizing_settings(), []);
    }

    #[test]
    fn format_file_holds_only_the_format() {
        let found = configuration(&[
            ("local", "core.repositoryformatversion\n1"),
            ("local", "core.hookspath\n/evil"),
            ("local", "extensions.objectformat\nsha256"),
            ("local", "extensions.worktreeconfig\ntrue"),
            ("local", "extensions.partialclone\norigin"),
            ("global", "extensions.unknown\nx"),
        ]);
        let file = "[core]\n\trepositoryformatversion = 1\n\tbare = false\n[extensions]\n\t\
            objectformat = sha256\n";
        assert_eq!(found.format_file().unwrap(), file);
        let bad = configuration(&[("local", "extensions.noop\nx\n[core]\n\thooksPath = /evil")]);
        assert!(bad.format_file().is_err());
    }

    #[test]
    fn invalid_config_list_is_an_error() {
        for text in [&b"local\0"[..], b"local", b"somewhere\0a.b\nc\0", b"local\0nonsense\0"] {
            assert!(GitConfiguration::parse(text).is_err(), "{}", String::from_utf8_lossy(text));
        }
        assert_eq!(GitConfiguration::parse(b"").unwrap(), GitConfiguration::default());
        let condition = configuration(&[("local", "includeif.gitdir:/x.path\n/y")]);
        assert_eq!(
            condition.find_local_include_condition().as_deref(),
            Some("includeif.gitdir:/x.path")
        );
        let own = configuration(&[("global", "includeif.gitdir:/x.path\n/y")]);
        assert_eq!(own.find_local_include_condition(), None);
    }
}
