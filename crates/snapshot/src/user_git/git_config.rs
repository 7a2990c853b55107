//! The part of git's configuration that decides whether files are stored unconverted.

use std::io;

use gix::bstr::{BString, ByteSlice};
use gix::config::file::{Metadata, init};

/// What a configuration file sets for conversions and objects. In doubt, more is assumed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GitConfig {
    /// Line ends are converted, or a filter may have been.
    pub(crate) converts: bool,
    /// It names other files, which say something else.
    pub(crate) includes: Vec<BString>,
    /// Objects may be missing by design.
    pub(crate) partial: bool,
    /// Bytes of an object's name.
    pub(crate) id_bytes: usize,
    /// Each worktree has its own configuration.
    pub(crate) per_worktree: bool,
    pub(crate) attributes_file: Option<BString>,
    pub(crate) excludes_file: Option<BString>,
    /// Where the files are, as submodules say it.
    pub(crate) worktree: Option<BString>,
    /// The folders that the user trusts regardless of their owner; an empty entry clears those before it.
    pub(crate) safe_directories: Vec<BString>,
}

impl GitConfig {
    /// Reads one file.
    pub(crate) fn parse(text: &[u8]) -> io::Result<Self> {
        let options = init::Options::default();
        let file = gix::config::File::from_bytes_no_includes(text, Metadata::api(), options);
        let file =
            file.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))?;
        let mut config = Self {
            converts: false,
            includes: Vec::new(),
            partial: false,
            id_bytes: 20,
            per_worktree: false,
            attributes_file: None,
            excludes_file: None,
            worktree: None,
            safe_directories: Vec::new(),
        };
        for section in file.sections() {
            let header = section.header();
            let part = header.subsection_name().map(ToOwned::to_owned).unwrap_or_default();
            let name = header.name().to_ascii_lowercase();
            if matches!(&name[..], b"include" | b"includeif") {
                config.includes.extend(section.values("path"));
            }
            if name == b"safe" && part.is_empty() {
                config.safe_directories.extend(section.values("directory"));
            }
            // A key without a value is a yes.
            let value = |key: &str| {
                Some(section.value_implicit(key)?.unwrap_or_else(|| BString::from("true")))
            };
            config.read_section(&name, &part, &value);
        }
        Ok(config)
    }

    fn read_section(&mut self, name: &[u8], part: &[u8], value: &dyn Fn(&str) -> Option<BString>) {
        let is_on = |key: &str| value(key).is_some_and(|value| !is_false_value(&value));
        match name {
            b"core" => {
                self.converts |= is_on("autocrlf") || value("eol").is_some();
                self.attributes_file = value("attributesFile").or(self.attributes_file.take());
                self.excludes_file = value("excludesFile").or(self.excludes_file.take());
                self.worktree = value("worktree").or(self.worktree.take());
            }
            // What stores pointers changes every size; anything else might keep it.
            b"filter" => {
                let acts = ["clean", "smudge", "process"];
                self.converts |= part != b"lfs" && acts.iter().any(|key| value(key).is_some());
            }
            b"extensions" => {
                self.partial |= value("partialClone").is_some();
                self.per_worktree |= is_on("worktreeConfig");
                if value("objectFormat").is_some_and(|format| format == "sha256") {
                    self.id_bytes = 32;
                }
            }
            b"remote" => {
                self.partial |= is_on("promisor") || value("partialCloneFilter").is_some();
            }
            _ => {}
        }
    }

    /// What both files say together.
    pub(crate) fn merge(self, other: Self) -> Self {
        Self {
            converts: self.converts || other.converts,
            includes: [self.includes, other.includes].concat(),
            partial: self.partial || other.partial,
            id_bytes: self.id_bytes.max(other.id_bytes),
            per_worktree: self.per_worktree || other.per_worktree,
            attributes_file: other.attributes_file.or(self.attributes_file),
            excludes_file: other.excludes_file.or(self.excludes_file),
            worktree: other.worktree.or(self.worktree),
            safe_directories: [self.safe_directories, other.safe_directories].concat(),
        }
    }
}

fn is_false_value(value: &[u8]) -> bool {
    let no = [&b"false"[..], b"no", b"off", b"0", b""];
    no.iter().any(|word| value.trim().eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> GitConfig {
        GitConfig::parse(text.as_bytes()).unwrap()
    }

    /// Proves R10.
    #[test]
    fn converting_settings_are_detected() {
        for text in [
            "[core]\n\tautocrlf = true\n",
            "[core]\n\tautocrlf = input\n",
            "[CORE]\nAutoCRLF\n",
            "[core]\n\teol = crlf\n",
            "[filter \"secret\"]\n\tclean = rot13\n",
            "[filter \"x\"]\n\tprocess = y\n",
        ] {
            assert!(config(text).converts, "{text}");
        }
        for text in [
            "",
            "[core]\n\tautocrlf = false\n\tfilemode = true\n",
            "[filter \"lfs\"]\n\tclean = git-lfs clean -- %f\n",
            "# [core] autocrlf = true\n",
        ] {
            assert!(!config(text).converts, "{text}");
        }
        assert!(GitConfig::parse(b"[core\nautocrlf").is_err());
    }

    #[test]
    fn object_format_and_partial_clone_are_detected() {
        assert_eq!(config("[extensions]\n\tobjectFormat = sha256\n").id_bytes, 32);
        assert!(config("[extensions]\n\tpartialClone = origin\n").partial);
        assert!(config("[remote \"origin\"]\n\tpromisor = true\n").partial);
        assert!(!config("[remote \"origin\"]\n\turl = x\n").partial);
        assert_eq!(config("[includeIf \"gitdir:x\"]\n\tpath = y\n").includes, ["y"]);
    }
}
