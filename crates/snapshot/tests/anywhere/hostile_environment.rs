//! Variables and settings that would make git itself do something else have no effect.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Runs the example that edits and captures by a fixed plan, and returns what it printed.
fn run_capture_example(dir: &Path, trap: impl FnOnce(&mut Command)) -> String {
    fs_err::create_dir(dir.join("work")).unwrap();
    let test = std::env::current_exe().unwrap();
    let program: PathBuf =
        test.parent().and_then(Path::parent).unwrap().join("examples/snapshot_store");
    #[expect(clippy::disallowed_methods, reason = "the program under test")]
    let mut command = Command::new(program);
    command.arg(dir).args(["load", "7", "5"]);
    trap(&mut command);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn git_environment_and_settings_do_not_affect_captures() {
    let (plain, trapped, home) =
        (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let ran = home.path().join("ran");
    let touch = format!("touch '{}'", ran.display());
    let config = format!(
        "[core]\n\tautocrlf = true\n\thooksPath = {home}\n\tfsmonitor = \"{touch}\"\n\tabbrev = 4\n\
         \texcludesFile = {home}/all\n\tattributesFile = {home}/attributes\n\tcompression = 0\n\
         [color]\n\tui = always\n[init]\n\ttemplateDir = {home}/template\n\
         [filter \"trap\"]\n\tclean = \"{touch}; tr a-z A-Z\"\n\trequired = true\n\
         [diff]\n\texternal = \"{touch}\"\n\tnoprefix = true\n[extensions]\n\tobjectFormat = sha256\n\
         [gc]\n\tauto = 1\n",
        home = home.path().display(),
    );
    fs_err::write(home.path().join(".gitconfig"), config).unwrap();
    fs_err::write(home.path().join("all"), "*\n").unwrap();
    fs_err::write(home.path().join("attributes"), "* filter=trap text eol=crlf\n").unwrap();
    fs_err::create_dir_all(home.path().join("template/hooks")).unwrap();

    let wanted = run_capture_example(plain.path(), |_| ());
    let found = run_capture_example(trapped.path(), |command| {
        let elsewhere = home.path().join("elsewhere");
        for name in [
            "GIT_DIR",
            "GIT_WORK_TREE",
            "GIT_COMMON_DIR",
            "GIT_INDEX_FILE",
            "GIT_OBJECT_DIRECTORY",
            "GIT_ALTERNATE_OBJECT_DIRECTORIES",
            "GIT_TEMPLATE_DIR",
            "GIT_NAMESPACE",
            "GIT_CEILING_DIRECTORIES",
        ] {
            command.env(name, &elsewhere);
        }
        command.env("HOME", home.path()).env("GIT_CONFIG_GLOBAL", home.path().join(".gitconfig"));
        command.env("GIT_CONFIG_COUNT", "1");
        command.env("GIT_CONFIG_KEY_0", "core.autocrlf").env("GIT_CONFIG_VALUE_0", "true");
        command.env("GIT_EXTERNAL_DIFF", &touch).env("GIT_DEFAULT_HASH", "sha256");
    });

    assert!(wanted.lines().count() == 5);
    assert_eq!(found, wanted);
    assert!(!ran.exists());
    assert!(!home.path().join("elsewhere").exists());
    assert!(!trapped.path().join("store/git/hooks").exists());
}
