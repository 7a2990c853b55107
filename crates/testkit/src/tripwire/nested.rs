//! Tripwires with a second repository: bare ones as plain files, `.git` files, submodules, promisors.

use super::repository::HostileRepository;

/// A filter, an fsmonitor and an external diff in a configuration that is written by hand.
fn hostile_config(this: &HostileRepository, first: &str) -> String {
    let program = this.program();
    format!(
        "[core]\n\trepositoryformatversion = 0\n{first}\tfsmonitor = {program}\n[filter \"evil\"]\n\t\
         clean = {program}\n\tsmudge = {program}\n[diff]\n\texternal = {program}\n"
    )
}

/// The reproduction of the report: a bare repository committed as plain files.
pub(super) fn bare_as_files(this: &mut HostileRepository) {
    let proof = format!("{} > proof; cat", this.program());
    this.put("x/HEAD", "ref: refs/heads/main\n");
    for folder in ["refs/heads", "refs/tags", "objects/info", "objects/pack"] {
        this.put(&format!("x/{folder}/.keep"), "");
    }
    let config = format!(
        "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = .\n[filter \"evil\"]\n\t\
         clean = \"{proof}\"\n"
    );
    this.put("x/config", &config);
    this.put("x/.gitattributes", "* filter=evil\n");
    this.put("x/new.txt", "new\n");
    this.git(&["add", "x"]);
    this.git(&["commit", "-q", "-m", "x"]);
    this.examine("x");
}

/// A `.git` file that leads to a git directory which is part of the clone.
pub(super) fn git_file(this: &mut HostileRepository) {
    this.git(&["init", "-q", "--separate-git-dir", "evil", "nested"]);
    this.put("nested/.git", "gitdir: ../evil\n");
    this.put("evil/config", &hostile_config(this, "\tworktree = ../nested\n"));
    this.put("nested/.gitattributes", "* filter=evil\n");
    this.put("nested/file", "file\n");
    this.examine("nested");
}

/// A worktree that the repository says is elsewhere, with files its author chose.
pub(super) fn core_worktree(this: &mut HostileRepository) {
    this.put("../elsewhere/a.txt", "ape\n");
    this.put("../elsewhere/.gitattributes", "* filter=evil\n");
    let elsewhere = this.at("elsewhere").display().to_string();
    this.put(".git/config", &hostile_config(this, &format!("\tworktree = {elsewhere}\n")));
}

/// A submodule with settings of its own, whose commit is not the recorded one.
pub(super) fn submodule(this: &mut HostileRepository) {
    this.git(&["init", "-q", "sub"]);
    for word in ["one", "two"] {
        this.put("sub/s.txt", &format!("{word}\n"));
        this.git(&["-C", "sub", "add", "-A"]);
        this.git(&["-C", "sub", "commit", "-q", "-m", word]);
        if word == "one" {
            this.git(&["add", "sub"]);
            this.put(".gitmodules", "[submodule \"sub\"]\n\tpath = sub\n\turl = ./sub\n");
            this.git(&["commit", "-q", "-m", "sub"]);
        }
    }
    this.put("sub/s.txt", "six\n");
    this.put("sub/.gitattributes", "* filter=evil\n");
    this.put("sub/.git/config", &hostile_config(this, ""));
}

/// The same, and the outer repository asks for the differences inside.
pub(super) fn submodule_diff(this: &mut HostileRepository) {
    submodule(this);
    this.set("diff.submodule", "diff");
    this.set("status.submoduleSummary", "true");
    this.set("submodule.recurse", "true");
}

/// A submodule that is to be updated by a program.
pub(super) fn submodule_update(this: &mut HostileRepository) {
    submodule(this);
    this.set("submodule.sub.url", "./sub");
    this.set("submodule.sub.active", "true");
    this.set("submodule.sub.update", &format!("!{}", this.program()));
}

/// A partial clone: the content of a file is missing, and the program is to bring it.
pub(super) fn promisor(this: &mut HostileRepository) {
    this.set("core.repositoryFormatVersion", "1");
    this.set("extensions.partialClone", "origin");
    this.set("remote.origin.url", &this.at("nowhere").display().to_string());
    this.set("remote.origin.promisor", "true");
    this.trap("remote.origin.uploadpack");
    remove_object(this, "HEAD:a.txt");
}

/// The same by a remote helper.
pub(super) fn promisor_helper(this: &mut HostileRepository) {
    promisor(this);
    this.set("remote.origin.vcs", "trip");
}

fn remove_object(this: &HostileRepository, name: &str) {
    this.git(&["tag", "missing", name]);
    let id = fs_err::read_to_string(this.at("work/.git/refs/tags/missing")).expect("a name");
    this.git(&["tag", "-d", "missing"]);
    let (folder, file) = id.trim_end().split_at(2);
    let object = this.at("work/.git/objects").join(folder).join(file);
    fs_err::remove_file(object).expect("removed");
}

/// Objects of another repository, whose references a program is to list.
pub(super) fn alternate_refs(this: &mut HostileRepository) {
    this.git(&["clone", "-q", "--bare", ".", "../other.git"]);
    let other = this.at("other.git/objects").display().to_string();
    this.put(".git/objects/info/alternates", &format!("{other}\n"));
    this.trap("core.alternateRefsCommand");
}
