//! Tripwires with a second repository: bare ones as plain files, `.git` files, submodules, promisors.

use super::hostile_repository::HostileRepository;

/// A filter, an fsmonitor and an external diff in a configuration that is written by hand.
fn hostile_config(this: &HostileRepository, first: &str) -> String {
    let program = this.trap_program();
    format!(
        "[core]\n\trepositoryformatversion = 0\n{first}\tfsmonitor = {program}\n[filter \"evil\"]\n\t\
         clean = {program}\n\tsmudge = {program}\n[diff]\n\texternal = {program}\n"
    )
}

/// The reproduction of the report: a bare repository committed as plain files.
pub(super) fn bare_as_files(this: &mut HostileRepository) {
    let proof = format!("{} > proof; cat", this.trap_program());
    this.write_file("x/HEAD", "ref: refs/heads/main\n");
    for folder in ["refs/heads", "refs/tags", "objects/info", "objects/pack"] {
        this.write_file(&format!("x/{folder}/.keep"), "");
    }
    let config = format!(
        "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = .\n[filter \"evil\"]\n\t\
         clean = \"{proof}\"\n"
    );
    this.write_file("x/config", &config);
    this.write_file("x/.gitattributes", "* filter=evil\n");
    this.write_file("x/new.txt", "new\n");
    this.run_git(&["add", "x"]);
    this.run_git(&["commit", "-q", "-m", "x"]);
    this.set_directory("x");
}

/// A `.git` file that leads to a git directory which is part of the clone.
pub(super) fn dot_git_file(this: &mut HostileRepository) {
    this.run_git(&["init", "-q", "--separate-git-dir", "evil", "nested"]);
    this.write_file("nested/.git", "gitdir: ../evil\n");
    this.write_file("evil/config", &hostile_config(this, "\tworktree = ../nested\n"));
    this.write_file("nested/.gitattributes", "* filter=evil\n");
    this.write_file("nested/file", "file\n");
    this.set_directory("nested");
}

/// A worktree that the repository says is elsewhere, with files its author chose.
pub(super) fn core_worktree(this: &mut HostileRepository) {
    this.write_file("../elsewhere/a.txt", "ape\n");
    this.write_file("../elsewhere/.gitattributes", "* filter=evil\n");
    let elsewhere = this.sibling_path("elsewhere").display().to_string();
    this.write_file(".git/config", &hostile_config(this, &format!("\tworktree = {elsewhere}\n")));
}

/// A submodule with settings of its own, whose commit is not the recorded one.
pub(super) fn submodule(this: &mut HostileRepository) {
    this.run_git(&["init", "-q", "sub"]);
    for word in ["one", "two"] {
        this.write_file("sub/s.txt", &format!("{word}\n"));
        this.run_git(&["-C", "sub", "add", "-A"]);
        this.run_git(&["-C", "sub", "commit", "-q", "-m", word]);
        if word == "one" {
            this.run_git(&["add", "sub"]);
            this.write_file(".gitmodules", "[submodule \"sub\"]\n\tpath = sub\n\turl = ./sub\n");
            this.run_git(&["commit", "-q", "-m", "sub"]);
        }
    }
    this.write_file("sub/s.txt", "six\n");
    this.write_file("sub/.gitattributes", "* filter=evil\n");
    this.write_file("sub/.git/config", &hostile_config(this, ""));
}

/// The same, and the outer repository asks for the differences inside.
pub(super) fn submodule_diff(this: &mut HostileRepository) {
    submodule(this);
    this.set_config("diff.submodule", "diff");
    this.set_config("status.submoduleSummary", "true");
    this.set_config("submodule.recurse", "true");
}

/// A submodule that is to be updated by a program.
pub(super) fn submodule_update(this: &mut HostileRepository) {
    submodule(this);
    this.set_config("submodule.sub.url", "./sub");
    this.set_config("submodule.sub.active", "true");
    this.set_config("submodule.sub.update", &format!("!{}", this.trap_program()));
}

/// A partial clone: the content of a file is missing, and the program is to bring it.
pub(super) fn promisor(this: &mut HostileRepository) {
    this.set_config("core.repositoryFormatVersion", "1");
    this.set_config("extensions.partialClone", "origin");
    this.set_config("remote.origin.url", &this.sibling_path("nowhere").display().to_string());
    this.set_config("remote.origin.promisor", "true");
    this.set_config_to_trap("remote.origin.uploadpack");
    remove_object(this, "HEAD:a.txt");
}

/// The same by a remote helper.
pub(super) fn promisor_helper(this: &mut HostileRepository) {
    promisor(this);
    this.set_config("remote.origin.vcs", "trip");
}

fn remove_object(this: &HostileRepository, name: &str) {
    this.run_git(&["tag", "missing", name]);
    let id =
        fs_err::read_to_string(this.sibling_path("work/.git/refs/tags/missing")).expect("a name");
    this.run_git(&["tag", "-d", "missing"]);
    let (folder, file) = id.trim_end().split_at(2);
    let object = this.sibling_path("work/.git/objects").join(folder).join(file);
    fs_err::remove_file(object).expect("removed");
}

/// Objects of another repository, whose references a program is to list.
pub(super) fn alternate_refs(this: &mut HostileRepository) {
    this.run_git(&["clone", "-q", "--bare", ".", "../other.git"]);
    let other = this.sibling_path("other.git/objects").display().to_string();
    this.write_file(".git/objects/info/alternates", &format!("{other}\n"));
    this.set_config_to_trap("core.alternateRefsCommand");
}
