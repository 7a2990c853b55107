//! Every known way in which a repository makes git run a program.

use super::nested;
use super::repository::HostileRepository;

/// How plain git is made to run the program.
#[derive(Clone, Copy, Debug)]
pub enum Fire {
    /// By this command.
    By(&'static [&'static str]),
    /// By this command, if git is new enough.
    Perhaps(&'static [&'static str]),
    /// Not by a test: why.
    Never(&'static str),
}

/// One way.
#[derive(Clone, Copy)]
pub struct Tripwire {
    /// What it is about.
    pub name: &'static str,
    /// How plain git fires it.
    pub fire: Fire,
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

const fn way(name: &'static str, fire: Fire, prepare: fn(&mut HostileRepository)) -> Tripwire {
    Tripwire { name, fire, prepare }
}

const DIFF: Fire = Fire::By(&["diff"]);
const STATUS: Fire = Fire::By(&["status"]);
const ADD: Fire = Fire::By(&["worktree", "add", "-q", "../plain-tree"]);
const COMMIT: Fire = Fire::By(&["commit", "-q", "--allow-empty", "-m", "x"]);
const UPDATE_REF: Fire = Fire::By(&["update-ref", "refs/heads/tmp", "HEAD"]);
const CREDENTIAL: Fire = Fire::By(&["credential", "fill"]);

/// All of them.
pub const TRIPWIRES: &[Tripwire] = &[
    way("filter clean", DIFF, |it| {
        it.trap("filter.evil.clean");
        it.attribute("filter=evil");
    }),
    way("filter smudge", ADD, |it| {
        it.trap("filter.evil.smudge");
        it.set("filter.evil.required", "true");
        it.attribute("filter=evil");
    }),
    way("filter process", DIFF, |it| {
        it.trap("filter.evil.process");
        it.set("filter.evil.required", "true");
        it.attribute("filter=evil");
    }),
    way("filter process on checkout", ADD, |it| {
        it.trap("filter.evil.process");
        it.attribute("filter=evil");
    }),
    way("filter a=b clean", DIFF, |it| {
        it.trap("filter.a=b.clean");
        it.attribute("filter=a=b");
    }),
    way("filter a=b smudge", ADD, |it| {
        it.trap("filter.a=b.smudge");
        it.set("filter.a=b.required", "true");
        it.attribute("filter=a=b");
    }),
    way("filter with dots and upper case", DIFF, |it| {
        it.trap("filter.A.b.C.clean");
        it.attribute("filter=A.b.C");
    }),
    way("filter with quotes and a backslash", DIFF, |it| {
        it.trap("filter.a\"b\\c'd.clean");
        it.attribute("filter=a\"b\\c'd");
    }),
    way("filter in a section with a dot", DIFF, |it| {
        let config = format!("[filter.one \"two\"]\n\tclean = {}\n", it.program());
        it.put(".git/config", &config);
        it.attribute("filter=one.two");
    }),
    way(
        "filter with a line feed",
        Fire::Never("git accepts no line feed in the name of a section"),
        |it| it.attribute("filter=evil"),
    ),
    way("committed attributes", ADD, |it| {
        it.commit(".gitattributes", "* filter=evil\n");
        it.trap("filter.evil.smudge");
    }),
    way("attributes file", DIFF, |it| {
        it.put("attributes", "* filter=evil\n");
        it.set("core.attributesFile", &it.at("work/attributes").display().to_string());
        it.trap("filter.evil.clean");
    }),
    way("filter of the user", DIFF, |it| {
        it.git(&["config", "--global", "filter.evil.clean", &it.program()]);
        it.git(&["config", "--global", "filter.evil.smudge", &it.program()]);
        it.attribute("filter=evil");
    }),
    way("include", DIFF, |it| {
        it.put("included", &format!("[filter \"evil\"]\n\tclean = {}\n", it.program()));
        it.set("include.path", "../included");
        it.attribute("filter=evil");
    }),
    way("include on a condition that a new worktree meets", ADD, |it| {
        it.put("included", &format!("[filter \"evil\"]\n\tsmudge = {}\n", it.program()));
        it.set("includeIf.gitdir:**/worktrees/**.path", "../included");
        it.attribute("filter=evil");
    }),
    way("include on a branch", ADD, |it| {
        it.put("included", &format!("[filter \"evil\"]\n\tsmudge = {}\n", it.program()));
        it.set("includeIf.onbranch:**.path", "../included");
        it.attribute("filter=evil");
    }),
    way("configuration of the worktree", DIFF, |it| {
        it.set("core.repositoryFormatVersion", "1");
        it.set("extensions.worktreeConfig", "true");
        let text = format!("[filter \"evil\"]\n\tclean = {}\n", it.program());
        it.put(".git/config.worktree", &text);
        it.attribute("filter=evil");
    }),
    way("hook post-checkout", ADD, |it| it.hook(".git/hooks", "post-checkout")),
    way("hook reference-transaction", UPDATE_REF, |it| {
        it.hook(".git/hooks", "reference-transaction");
    }),
    way("hook post-index-change", Fire::By(&["reset", "-q", "--hard"]), |it| {
        it.hook(".git/hooks", "post-index-change");
    }),
    way("hooks path", UPDATE_REF, |it| {
        it.hook("hooks", "reference-transaction");
        it.hook("hooks", "post-checkout");
        it.set("core.hooksPath", "hooks");
    }),
    way(
        "hook of the configuration",
        Fire::Perhaps(&["update-ref", "refs/heads/tmp", "HEAD"]),
        |it| {
            for event in ["reference-transaction", "post-checkout", "post-index-change"] {
                it.trap(&format!("hook.{event}.command"));
                it.set(&format!("hook.{event}.event"), event);
            }
        },
    ),
    way("fsmonitor", STATUS, |it| it.trap("core.fsmonitor")),
    way("external diff", DIFF, |it| it.trap("diff.external")),
    way("diff driver", DIFF, |it| {
        it.trap("diff.evil.command");
        it.attribute("diff=evil");
    }),
    way("textconv", DIFF, |it| {
        it.trap("diff.evil.textconv");
        it.attribute("diff=evil");
    }),
    way("merge driver", Fire::By(&["merge-tree", "--write-tree", "main", "other"]), |it| {
        it.trap("merge.evil.driver");
        it.attribute("merge=evil");
    }),
    way("pager", Fire::Never("git starts a pager on a terminal only"), |it| {
        it.trap("core.pager");
        for command in ["config", "diff", "status", "worktree"] {
            it.trap(&format!("pager.{command}"));
        }
    }),
    way("credential helper", CREDENTIAL, |it| it.trap("credential.helper")),
    way("credential helper of a host", CREDENTIAL, |it| {
        it.trap("credential.https://nowhere.invalid.helper");
    }),
    way("askpass", CREDENTIAL, |it| it.trap("core.askPass")),
    way("ssh command", Fire::By(&["ls-remote", "ssh://nowhere.invalid/x"]), |it| {
        it.trap("core.sshCommand");
    }),
    way("git proxy", Fire::By(&["ls-remote", "git://nowhere.invalid/x"]), |it| {
        it.trap("core.gitProxy");
    }),
    way("upload pack", Fire::By(&["ls-remote", "origin"]), |it| {
        it.set("remote.origin.url", ".");
        it.trap("remote.origin.uploadpack");
    }),
    way("remote helper", Fire::By(&["ls-remote", "origin"]), |it| {
        it.set("remote.origin.url", "x");
        it.set("remote.origin.vcs", "trip");
    }),
    way("proxy of a remote", Fire::Never("curl uses it; it names no program"), |it| {
        it.set("remote.origin.proxy", "http://nowhere.invalid");
    }),
    way("editor", Fire::By(&["tag", "-a", "x"]), |it| it.trap("core.editor")),
    way("sequence editor", Fire::By(&["rebase", "-i", "--autostash", "HEAD~1"]), |it| {
        it.trap("sequence.editor");
    }),
    way("gpg", COMMIT, |it| {
        it.set("commit.gpgSign", "true");
        it.trap("gpg.program");
    }),
    way("gpg of a format", COMMIT, |it| {
        it.set("commit.gpgSign", "true");
        it.set("gpg.format", "ssh");
        it.set("user.signingKey", "key::x");
        it.trap("gpg.ssh.program");
    }),
    way("signing key command", COMMIT, |it| {
        it.set("commit.gpgSign", "true");
        it.set("gpg.format", "ssh");
        it.trap("gpg.ssh.defaultKeyCommand");
    }),
    way(
        "alternate references",
        Fire::By(&["rev-list", "--alternate-refs"]),
        nested::alternate_refs,
    ),
    way("alias", Fire::Never("git lets no alias replace a command"), |it| {
        for command in ["status", "diff", "config", "reset", "worktree"] {
            it.set(&format!("alias.{command}"), &format!("!{}", it.program()));
        }
    }),
    way("trailer", Fire::By(&["interpret-trailers", "--trailer", "evil=x"]), |it| {
        it.trap("trailer.evil.cmd");
    }),
    way("archive", Fire::By(&["archive", "--format=evil", "HEAD"]), |it| {
        it.trap("tar.evil.command");
    }),
    way("difftool", Fire::By(&["difftool", "-y"]), |it| {
        it.set("diff.tool", "evil");
        it.trap("difftool.evil.cmd");
    }),
    way("recent objects", Fire::Perhaps(&["gc", "--cruft", "--prune=now"]), |it| {
        it.trap("gc.recentObjectsHook");
    }),
    way("bare repository as files", Fire::By(&["add", "-A"]), nested::bare_as_files),
    way(".git file", Fire::By(&["add", "-A"]), nested::git_file),
    way("core.worktree", Fire::By(&["diff"]), nested::core_worktree),
    way("submodule", STATUS, nested::submodule),
    way("differences in a submodule", DIFF, nested::submodule_diff),
    way("submodule update", Fire::By(&["submodule", "update"]), nested::submodule_update),
    way("promisor", Fire::By(&["cat-file", "-p", "HEAD:a.txt"]), nested::promisor),
    way(
        "promisor with a helper",
        Fire::By(&["cat-file", "-p", "HEAD:a.txt"]),
        nested::promisor_helper,
    ),
];
