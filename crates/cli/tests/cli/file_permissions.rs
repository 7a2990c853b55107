//! What the program keeps is closed to other users, whatever the file mode mask it is started with.

use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::exec::TEST_PATH;
use crate::fixture::{CliFixture, ProgramOutput};

/// Runs the program under a file mode mask.
fn run_with_umask(case: &CliFixture, mask: &str, args: &[&str]) -> ProgramOutput {
    let script = format!("umask {mask}; exec \"$0\" \"$@\"");
    let mut command = assert_cmd::Command::new("sh");
    command
        .env_clear()
        .envs([("PATH", TEST_PATH), ("TZ", "UTC"), ("USER", "ada")])
        .env("HOME", case.path("home"))
        .env("TURNSTONE_DATA", case.data_dir())
        .env("XDG_RUNTIME_DIR", case.path("run"))
        .current_dir(case.path("p"))
        .args(["-c", &script, env!("CARGO_BIN_EXE_turnstone")])
        .args(args);
    case.run_command(&mut command)
}

fn file_mode(path: &Path) -> u32 {
    fs_err::symlink_metadata(path).expect("metadata").permissions().mode() & 0o7777
}

/// Everything below a directory that others may use; checkouts of worktrees are the user's.
fn find_accessible(directory: &Path, found: &mut Vec<(PathBuf, String)>) -> usize {
    let mut seen = 0;
    for entry in fs_err::read_dir(directory).expect("readable") {
        let path = entry.expect("an entry").path();
        let kind = fs_err::symlink_metadata(&path).expect("metadata").file_type();
        assert!(!kind.is_symlink() && !kind.is_char_device(), "{}", path.display());
        if file_mode(&path) & 0o077 != 0 || kind.is_dir() && file_mode(&path) != 0o700 {
            found.push((path.clone(), format!("{:o}", file_mode(&path))));
        }
        seen += 1;
        let is_checkout = path.parent().is_some_and(|parent| parent.ends_with("worktree"));
        if kind.is_dir() && !is_checkout {
            seen += find_accessible(&path, found);
        }
    }
    seen
}

/// Uses everything that leaves a file in the data directory, or in one the user names.
fn run_all_writing_commands(case: &CliFixture, mask: &str) {
    // Longer than what is kept in memory: the output is spilled.
    let long = "yes 0123456789abcdef | head -c 5000000; mkdir -p made/inner; echo x > made/inner/f";
    let exec = ["exec", "--title", "t", "--", "sh", "-c", long];
    for (args, code) in [
        (&exec[..], 0),
        (&["checkpoint", "here"], 0),
        (&["exec", "--", "sh", "-c", "rm -r made; echo y > other"], 0),
        (&["undo"], 0),
        (&["snapshot", "track"], 0),
        (&["snapshot", "gc"], 0),
        (&["db", "backup"], 0),
        (&["db", "backup", "../backup"], 0),
        (&["db", "compact"], 0),
        (&["search", "t"], 0),
        (&["doctor"], 0),
    ] {
        let ran = run_with_umask(case, mask, args);
        assert_eq!(ran.code, code, "{args:?} {ran:?}");
    }
}

/// Proves R46.
#[test]
fn stored_files_are_private_whatever_the_umask() {
    for mask in ["000", "022", "0777"] {
        let case = CliFixture::empty();
        fs_err::create_dir_all(case.path("run")).expect("made");
        run_all_writing_commands(&case, mask);
        let id = case.run_json(&["session", "list"])["sessions"][0]["id"]
            .as_str()
            .expect("a session")
            .to_owned();
        // A file that was there before is closed, too.
        fs_err::write(case.path("old.json"), "").expect("written");
        for file in ["new.json", "old.json"] {
            let path = case.path(file);
            let ran = run_with_umask(&case, mask, &["export", &id, "-o", &path.to_string_lossy()]);
            assert_eq!((ran.code, file_mode(&path)), (0, 0o600), "{file} with {mask}: {ran:?}");
        }
        let mut found = Vec::new();
        let mut seen = 0;
        for directory in [case.data_dir(), case.path("backup")] {
            assert_eq!(file_mode(&directory), 0o700, "{} with {mask}", directory.display());
            seen += find_accessible(&directory, &mut found);
        }
        assert!(seen > 20 && found.is_empty(), "{mask}: {seen} seen, open: {found:#?}");
    }
}

#[test]
fn commands_and_worktrees_use_the_users_umask() {
    let case = CliFixture::empty();
    let ran = run_with_umask(
        &case,
        "027",
        &["exec", "--", "sh", "-c", "umask; mkdir -p d/e; echo x > d/e/f"],
    );
    assert_eq!(ran.out.trim(), "0027", "{ran:?}");
    assert_eq!(run_with_umask(&case, "027", &["exec", "--", "rm", "-r", "d"]).code, 0);
    assert_eq!(run_with_umask(&case, "027", &["undo"]).code, 0);
    assert_eq!(file_mode(&case.path("p/d/e")), 0o750, "a restored directory");
    assert_eq!(run_with_umask(&case, "022", &["man", "pages"]).code, 0);
    assert_eq!(file_mode(&case.path("p/pages")), 0o755);
    assert_eq!(file_mode(&case.path("p/pages/turnstone.1")), 0o644);
}

#[test]
fn opening_tightens_data_directory_permissions() {
    let case = CliFixture::with_sessions();
    fs_err::set_permissions(case.data_dir(), PermissionsExt::from_mode(0o755)).expect("opened");
    assert_eq!(run_with_umask(&case, "022", &["session", "list"]).code, 0);
    assert_eq!(file_mode(&case.data_dir()), 0o700);
}
