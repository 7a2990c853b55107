//! The environment of every git process, built by one function.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use super::configuration::GitSetting;
use super::repository::GitRepository;

/// Settings above those of every repository and user.
const SETTINGS: [(&str, &str); 38] = [
    // No program of a repository or a user is started.
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("core.sshCommand", "false"),
    ("core.gitProxy", "false"),
    ("core.editor", "false"),
    ("core.pager", "cat"),
    ("core.askPass", "false"),
    ("core.alternateRefsCommand", "false"),
    ("sequence.editor", "false"),
    ("credential.helper", ""),
    ("diff.external", ""),
    ("interactive.diffFilter", ""),
    ("commit.gpgSign", "false"),
    ("tag.gpgSign", "false"),
    ("gpg.program", "false"),
    ("gpg.openpgp.program", "false"),
    ("gpg.x509.program", "false"),
    ("gpg.ssh.program", "false"),
    ("gpg.ssh.defaultKeyCommand", ""),
    ("gc.recentObjectsHook", ""),
    // Only the repository that is named counts.
    ("safe.bareRepository", "explicit"),
    ("submodule.recurse", "false"),
    ("fetch.recurseSubmodules", "false"),
    ("push.recurseSubmodules", "no"),
    ("diff.submodule", "short"),
    ("status.submoduleSummary", "false"),
    // Nothing is fetched, and nothing continues in the background.
    ("protocol.allow", "never"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    // Larger files are not compared line by line: that takes many times their size in memory.
    ("core.bigFileThreshold", "16m"),
    // Answers look the same everywhere.
    ("core.quotePath", "false"),
    ("core.safecrlf", "false"),
    ("color.ui", "false"),
    ("advice.detachedHead", "false"),
    ("checkout.defaultRemote", ""),
    ("status.relativePaths", "false"),
    ("worktree.useRelativePaths", "false"),
    ("worktree.guessRemote", "false"),
];

/// Variables that are the same for every command.
const VARIABLES: [(&str, &str); 14] = [
    ("LC_ALL", "C"),
    ("TERM", "dumb"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_NO_REPLACE_OBJECTS", "1"),
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_PAGER", "cat"),
    ("GIT_EDITOR", "false"),
    ("GIT_SEQUENCE_EDITOR", "false"),
    ("GIT_ASKPASS", "false"),
    ("GIT_SSH_COMMAND", "false"),
    ("GIT_ALLOW_PROTOCOL", "none"),
    ("GIT_ATTR_NOSYSTEM", "1"),
    ("GIT_LITERAL_PATHSPECS", "1"),
];

/// The environment that git gets; everything else is omitted.
#[derive(Clone, Debug, Default)]
pub struct GitEnvironment {
    /// Where programs are; only absolute folders count.
    pub path: OsString,
    /// The home of the user, whose own settings count; without it only the repository's do.
    pub home: Option<OsString>,
    /// The folder of the user's settings, where it is not below the home.
    pub config_home: Option<OsString>,
}

/// Which configuration a command sees.
#[derive(Clone, Copy, Debug)]
pub(super) enum ConfigurationSource<'a> {
    /// No repository and no file at all.
    Nothing,
    /// The settings given here, and of the repository its data only.
    Isolated {
        repository: &'a GitRepository,
        /// The folder used in place of the shared one.
        common_dir: &'a Path,
        settings: &'a [GitSetting],
    },
    /// The repository's and the user's files, below the settings given here.
    Files { repository: &'a GitRepository, settings: &'a [GitSetting] },
}

/// Builds the whole environment of a git process: it inherits nothing else.
///
/// Settings travel as numbered variables, where no name can be cut at an equals sign.
pub(super) fn git_environment(
    user: &GitEnvironment,
    source: ConfigurationSource<'_>,
) -> Vec<(OsString, OsString)> {
    let mut all: Vec<(OsString, OsString)> = Vec::new();
    let mut set = |name: &str, value: &OsStr| all.push((name.into(), value.to_owned()));
    let folders = std::env::split_paths(&user.path).filter(|folder| folder.is_absolute());
    set("PATH", &std::env::join_paths(folders).unwrap_or_default());
    for (name, value) in [("HOME", &user.home), ("XDG_CONFIG_HOME", &user.config_home)] {
        if let Some(value) = value {
            set(name, value);
        }
    }
    VARIABLES.iter().for_each(|(name, value)| set(name, value.as_ref()));
    let (repository, settings) = match source {
        ConfigurationSource::Nothing => (None, &[][..]),
        ConfigurationSource::Isolated { repository, common_dir, settings } => {
            set("GIT_COMMON_DIR", common_dir.as_os_str());
            (Some(repository), settings)
        }
        ConfigurationSource::Files { repository, settings } => (Some(repository), settings),
    };
    if !matches!(source, ConfigurationSource::Files { .. }) {
        set("GIT_CONFIG_NOSYSTEM", OsStr::new("1"));
        set("GIT_CONFIG_GLOBAL", OsStr::new("/dev/null"));
    }
    // A folder that is no repository makes git fail where it would otherwise search for one.
    set("GIT_DIR", repository.map_or(OsStr::new("/dev/null"), |it| it.git_dir.as_os_str()));
    if let Some(repository) = repository {
        set("GIT_WORK_TREE", repository.worktree.as_os_str());
    }
    let fixed = SETTINGS.iter().map(|(key, value)| (OsStr::new(key), OsStr::new(value)));
    let given = settings.iter().map(|(key, value)| (key.as_os_str(), value.as_os_str()));
    let mut count = 0_usize;
    // The last one counts: what is fixed cannot be overridden.
    for (key, value) in given.chain(fixed) {
        set(&format!("GIT_CONFIG_KEY_{count}"), key);
        set(&format!("GIT_CONFIG_VALUE_{count}"), value);
        count += 1;
    }
    set("GIT_CONFIG_COUNT", OsStr::new(&count.to_string()));
    all
}
