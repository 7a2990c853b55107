//! Every known way in which a repository makes git run a program.

use super::hostile_repository::HostileRepository;
use super::nested_repositories;

/// How plain git is made to run the program.
#[derive(Clone, Copy, Debug)]
pub enum TripwireTrigger {
    /// By this command.
    Command(&'static [&'static str]),
    /// By this command, if git is new enough.
    CommandIfSupported(&'static [&'static str]),
    /// Not by a test: why.
    Untestable(&'static str),
}

/// One way in which a repository makes git run a program.
#[derive(Clone, Copy)]
pub struct Tripwire {
    /// The feature of git that it uses.
    pub name: &'static str,
    /// How plain git fires it.
    pub trigger: TripwireTrigger,
    prepare: fn(&mut HostileRepository),
}

impl Tripwire {
    /// Creates a repository with this tripwire.
    #[must_use]
    pub fn create(&self) -> HostileRepository {
        let mut repository = HostileRepository::new();
        (self.prepare)(&mut repository);
        // What preparing it may have set off does not count.
        drop(repository.take_trace());
        repository
    }
}

const fn new_tripwire(
    name: &'static str,
    fire: TripwireTrigger,
    prepare: fn(&mut HostileRepository),
) -> Tripwire {
    Tripwire { name, trigger: fire, prepare }
}

const DIFF: TripwireTrigger = TripwireTrigger::Command(&["diff"]);
const STATUS: TripwireTrigger = TripwireTrigger::Command(&["status"]);
const ADD: TripwireTrigger = TripwireTrigger::Command(&["worktree", "add", "-q", "../plain-tree"]);
const COMMIT: TripwireTrigger =
    TripwireTrigger::Command(&["commit", "-q", "--allow-empty", "-m", "x"]);
const UPDATE_REF: TripwireTrigger =
    TripwireTrigger::Command(&["update-ref", "refs/heads/tmp", "HEAD"]);
const CREDENTIAL: TripwireTrigger = TripwireTrigger::Command(&["credential", "fill"]);

/// All known tripwires.
pub const TRIPWIRES: &[Tripwire] = &[
    new_tripwire("filter clean", DIFF, |it| {
        it.set_config_to_trap("filter.evil.clean");
        it.set_attribute("filter=evil");
    }),
    new_tripwire("filter smudge", ADD, |it| {
        it.set_config_to_trap("filter.evil.smudge");
        it.set_config("filter.evil.required", "true");
        it.set_attribute("filter=evil");
    }),
    new_tripwire("filter process", DIFF, |it| {
        it.set_config_to_trap("filter.evil.process");
        it.set_config("filter.evil.required", "true");
        it.set_attribute("filter=evil");
    }),
    new_tripwire("filter process on checkout", ADD, |it| {
        it.set_config_to_trap("filter.evil.process");
        it.set_attribute("filter=evil");
    }),
    new_tripwire("filter a=b clean", DIFF, |it| {
        it.set_config_to_trap("filter.a=b.clean");
        it.set_attribute("filter=a=b");
    }),
    new_tripwire("filter a=b smudge", ADD, |it| {
        it.set_config_to_trap("filter.a=b.smudge");
        it.set_config("filter.a=b.required", "true");
        it.set_attribute("filter=a=b");
    }),
    new_tripwire("filter with dots and upper case", DIFF, |it| {
        it.set_config_to_trap("filter.A.b.C.clean");
        it.set_attribute("filter=A.b.C");
    }),
    new_tripwire("filter with quotes and a backslash", DIFF, |it| {
        it.set_config_to_trap("filter.a\"b\\c'd.clean");
        it.set_attribute("filter=a\"b\\c'd");
    }),
    new_tripwire("filter in a section with a dot", DIFF, |it| {
        let config = format!("[filter.one \"two\"]\n\tclean = {}\n", it.trap_program());
        it.write_file(".git/config", &config);
        it.set_attribute("filter=one.two");
    }),
    new_tripwire(
        "filter with a line feed",
        TripwireTrigger::Untestable("git accepts no line feed in the name of a section"),
        |it| it.set_attribute("filter=evil"),
    ),
    new_tripwire("committed attributes", ADD, |it| {
        it.commit(".gitattributes", "* filter=evil\n");
        it.set_config_to_trap("filter.evil.smudge");
    }),
    new_tripwire("attributes file", DIFF, |it| {
        it.write_file("attributes", "* filter=evil\n");
        it.set_config(
            "core.attributesFile",
            &it.sibling_path("work/attributes").display().to_string(),
        );
        it.set_config_to_trap("filter.evil.clean");
    }),
    new_tripwire("filter of the user", DIFF, |it| {
        it.run_git(&["config", "--global", "filter.evil.clean", &it.trap_program()]);
        it.run_git(&["config", "--global", "filter.evil.smudge", &it.trap_program()]);
        it.set_attribute("filter=evil");
    }),
    new_tripwire("include", DIFF, |it| {
        it.write_file("included", &format!("[filter \"evil\"]\n\tclean = {}\n", it.trap_program()));
        it.set_config("include.path", "../included");
        it.set_attribute("filter=evil");
    }),
    new_tripwire("include on a condition that a new worktree meets", ADD, |it| {
        it.write_file(
            "included",
            &format!("[filter \"evil\"]\n\tsmudge = {}\n", it.trap_program()),
        );
        it.set_config("includeIf.gitdir:**/worktrees/**.path", "../included");
        it.set_attribute("filter=evil");
    }),
    new_tripwire("include on a branch", ADD, |it| {
        it.write_file(
            "included",
            &format!("[filter \"evil\"]\n\tsmudge = {}\n", it.trap_program()),
        );
        it.set_config("includeIf.onbranch:**.path", "../included");
        it.set_attribute("filter=evil");
    }),
    new_tripwire("configuration of the worktree", DIFF, |it| {
        it.set_config("core.repositoryFormatVersion", "1");
        it.set_config("extensions.worktreeConfig", "true");
        let text = format!("[filter \"evil\"]\n\tclean = {}\n", it.trap_program());
        it.write_file(".git/config.worktree", &text);
        it.set_attribute("filter=evil");
    }),
    new_tripwire("hook post-checkout", ADD, |it| it.install_hook(".git/hooks", "post-checkout")),
    new_tripwire("hook reference-transaction", UPDATE_REF, |it| {
        it.install_hook(".git/hooks", "reference-transaction");
    }),
    new_tripwire(
        "hook post-index-change",
        TripwireTrigger::Command(&["reset", "-q", "--hard"]),
        |it| {
            it.install_hook(".git/hooks", "post-index-change");
        },
    ),
    new_tripwire("hooks path", UPDATE_REF, |it| {
        it.install_hook("hooks", "reference-transaction");
        it.install_hook("hooks", "post-checkout");
        it.set_config("core.hooksPath", "hooks");
    }),
    new_tripwire(
        "hook of the configuration",
        TripwireTrigger::CommandIfSupported(&["update-ref", "refs/heads/tmp", "HEAD"]),
        |it| {
            for event in ["reference-transaction", "post-checkout", "post-index-change"] {
                it.set_config_to_trap(&format!("hook.{event}.command"));
                it.set_config(&format!("hook.{event}.event"), event);
            }
        },
    ),
    new_tripwire("fsmonitor", STATUS, |it| it.set_config_to_trap("core.fsmonitor")),
    new_tripwire("external diff", DIFF, |it| it.set_config_to_trap("diff.external")),
    new_tripwire("diff driver", DIFF, |it| {
        it.set_config_to_trap("diff.evil.command");
        it.set_attribute("diff=evil");
    }),
    new_tripwire("textconv", DIFF, |it| {
        it.set_config_to_trap("diff.evil.textconv");
        it.set_attribute("diff=evil");
    }),
    new_tripwire(
        "merge driver",
        TripwireTrigger::Command(&["merge-tree", "--write-tree", "main", "other"]),
        |it| {
            it.set_config_to_trap("merge.evil.driver");
            it.set_attribute("merge=evil");
        },
    ),
    new_tripwire(
        "pager",
        TripwireTrigger::Untestable("git starts a pager on a terminal only"),
        |it| {
            it.set_config_to_trap("core.pager");
            for command in ["config", "diff", "status", "worktree"] {
                it.set_config_to_trap(&format!("pager.{command}"));
            }
        },
    ),
    new_tripwire("credential helper", CREDENTIAL, |it| it.set_config_to_trap("credential.helper")),
    new_tripwire("credential helper of a host", CREDENTIAL, |it| {
        it.set_config_to_trap("credential.https://nowhere.invalid.helper");
    }),
    new_tripwire("askpass", CREDENTIAL, |it| it.set_config_to_trap("core.askPass")),
    new_tripwire(
        "ssh command",
        TripwireTrigger::Command(&["ls-remote", "ssh://nowhere.invalid/x"]),
        |it| {
            it.set_config_to_trap("core.sshCommand");
        },
    ),
    new_tripwire(
        "git proxy",
        TripwireTrigger::Command(&["ls-remote", "git://nowhere.invalid/x"]),
        |it| {
            it.set_config_to_trap("core.gitProxy");
        },
    ),
    new_tripwire("upload pack", TripwireTrigger::Command(&["ls-remote", "origin"]), |it| {
        it.set_config("remote.origin.url", ".");
        it.set_config_to_trap("remote.origin.uploadpack");
    }),
    new_tripwire("remote helper", TripwireTrigger::Command(&["ls-remote", "origin"]), |it| {
        it.set_config("remote.origin.url", "x");
        it.set_config("remote.origin.vcs", "trip");
    }),
    new_tripwire(
        "proxy of a remote",
        TripwireTrigger::Untestable("curl uses it; it names no program"),
        |it| {
            it.set_config("remote.origin.proxy", "http://nowhere.invalid");
        },
    ),
    new_tripwire("editor", TripwireTrigger::Command(&["tag", "-a", "x"]), |it| {
        it.set_config_to_trap("core.editor")
    }),
    new_tripwire(
        "sequence editor",
        TripwireTrigger::Command(&["rebase", "-i", "--autostash", "HEAD~1"]),
        |it| {
            it.set_config_to_trap("sequence.editor");
        },
    ),
    new_tripwire("gpg", COMMIT, |it| {
        it.set_config("commit.gpgSign", "true");
        it.set_config_to_trap("gpg.program");
    }),
    new_tripwire("gpg of a format", COMMIT, |it| {
        it.set_config("commit.gpgSign", "true");
        it.set_config("gpg.format", "ssh");
        it.set_config("user.signingKey", "key::x");
        it.set_config_to_trap("gpg.ssh.program");
    }),
    new_tripwire("signing key command", COMMIT, |it| {
        it.set_config("commit.gpgSign", "true");
        it.set_config("gpg.format", "ssh");
        it.set_config_to_trap("gpg.ssh.defaultKeyCommand");
    }),
    new_tripwire(
        "alternate references",
        TripwireTrigger::Command(&["rev-list", "--alternate-refs"]),
        nested_repositories::alternate_refs,
    ),
    new_tripwire(
        "alias",
        TripwireTrigger::Untestable("git lets no alias replace a command"),
        |it| {
            for command in ["status", "diff", "config", "reset", "worktree"] {
                it.set_config(&format!("alias.{command}"), &format!("!{}", it.trap_program()));
            }
        },
    ),
    new_tripwire(
        "trailer",
        TripwireTrigger::Command(&["interpret-trailers", "--trailer", "evil=x"]),
        |it| {
            it.set_config_to_trap("trailer.evil.cmd");
        },
    ),
    new_tripwire(
        "archive",
        TripwireTrigger::Command(&["archive", "--format=evil", "HEAD"]),
        |it| {
            it.set_config_to_trap("tar.evil.command");
        },
    ),
    new_tripwire("difftool", TripwireTrigger::Command(&["difftool", "-y"]), |it| {
        it.set_config("diff.tool", "evil");
        it.set_config_to_trap("difftool.evil.cmd");
    }),
    new_tripwire(
        "recent objects",
        TripwireTrigger::CommandIfSupported(&["gc", "--cruft", "--prune=now"]),
        |it| {
            it.set_config_to_trap("gc.recentObjectsHook");
        },
    ),
    new_tripwire(
        "bare repository as files",
        TripwireTrigger::Command(&["add", "-A"]),
        nested_repositories::bare_as_files,
    ),
    new_tripwire(
        ".git file",
        TripwireTrigger::Command(&["add", "-A"]),
        nested_repositories::dot_git_file,
    ),
    new_tripwire(
        "core.worktree",
        TripwireTrigger::Command(&["diff"]),
        nested_repositories::core_worktree,
    ),
    new_tripwire("submodule", STATUS, nested_repositories::submodule),
    new_tripwire("differences in a submodule", DIFF, nested_repositories::submodule_diff),
    new_tripwire(
        "submodule update",
        TripwireTrigger::Command(&["submodule", "update"]),
        nested_repositories::submodule_update,
    ),
    new_tripwire(
        "promisor",
        TripwireTrigger::Command(&["cat-file", "-p", "HEAD:a.txt"]),
        nested_repositories::promisor,
    ),
    new_tripwire(
        "promisor with a helper",
        TripwireTrigger::Command(&["cat-file", "-p", "HEAD:a.txt"]),
        nested_repositories::promisor_helper,
    ),
];
