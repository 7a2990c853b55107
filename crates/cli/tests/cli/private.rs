//! What the program keeps is closed to other users, whatever the file mode mask it is started with.

use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::case::{Case, Ran};
use crate::exec::PATH;

/// Runs the program under a file mode mask.
fn masked(case: &Case, mask: &str, args: &[&str]) -> Ran {
    let script = format!("umask {mask}; exec \"$0\" \"$@\"");
    let mut command = assert_cmd::Command::new("sh");
    command
        .env_clear()
        .envs([("PATH", PATH), ("TZ", "UTC"), ("USER", "ada")])
        .env("HOME", case.place("home"))
        .env("TURNSTONE_DATA", case.data())
        .env("XDG_RUNTIME_DIR", case.place("run"))
        .current_dir(case.place("p"))
        .args(["-c", &script, env!("CARGO_BIN_EXE_turnstone")])
        .args(args);
    case.ran(&mut command)
}

fn mode(path: &Path) -> u32 {
    fs_err::symlink_metadata(path).expect("metadata").permissions().mode() & 0o7777
}

/// Everything below a directory that others may use; checkouts of worktrees are the user's.
fn open_to_others(directory: &Path, found: &mut Vec<(PathBuf, String)>) -> usize {
    let mut seen = 0;
    for entry in fs_err::read_dir(directory).expect("readable") {
        let path = entry.expect("an entry").path();
        let kind = fs_err::symlink_metadata(&path).expect("metadata").file_type();
        assert!(!kind.is_symlink() && !kind.is_char_device(), "{}", path.display());
        if mode(&path) & 0o077 != 0 || kind.is_dir() && mode(&path) != 0o700 {
            found.push((path.clone(), format!("{:o}", mode(&path))));
        }
        seen += 1;
        let is_checkout = path.parent().is_some_and(|parent| parent.ends_with("worktree"));
        if kind.is_dir() && !is_checkout {
            seen += open_to_others(&path, found);
        }
    }
    seen
}

/// Uses everything that leaves a file in the data directory, or in one the user names.
fn use_everything(case: &Case, mask: &str) {
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
        let ran = masked(case, mask, args);
        assert_eq!(ran.code, code, "{args:?} {ran:?}");
    }
}

#[test]
fn everything_that_is_kept_is_closed_whatever_the_mask() {
    for mask in ["000", "022", "0777"] {
        let case = Case::empty();
        fs_err::create_dir_all(case.place("run")).expect("made");
        use_everything(&case, mask);
        let id = case.json(&["session", "list"])[0]["id"].as_str().expect("a session").to_owned();
        // A file that was there before is closed, too.
        fs_err::write(case.place("old.json"), "").expect("written");
        for file in ["new.json", "old.json"] {
            let path = case.place(file);
            let ran = masked(&case, mask, &["export", &id, "-o", &path.to_string_lossy()]);
            assert_eq!((ran.code, mode(&path)), (0, 0o600), "{file} with {mask}: {ran:?}");
        }
        let mut found = Vec::new();
        let mut seen = 0;
        for directory in [case.data(), case.place("backup")] {
            assert_eq!(mode(&directory), 0o700, "{} with {mask}", directory.display());
            seen += open_to_others(&directory, &mut found);
        }
        assert!(seen > 20 && found.is_empty(), "{mask}: {seen} seen, open: {found:#?}");
    }
}

#[test]
fn commands_and_worktrees_get_the_mask_of_the_user() {
    let case = Case::empty();
    let ran =
        masked(&case, "027", &["exec", "--", "sh", "-c", "umask; mkdir -p d/e; echo x > d/e/f"]);
    assert_eq!(ran.out.trim(), "0027", "{ran:?}");
    assert_eq!(masked(&case, "027", &["exec", "--", "rm", "-r", "d"]).code, 0);
    assert_eq!(masked(&case, "027", &["undo"]).code, 0);
    assert_eq!(mode(&case.place("p/d/e")), 0o750, "a restored directory");
    assert_eq!(masked(&case, "022", &["man", "pages"]).code, 0);
    assert_eq!(mode(&case.place("p/pages")), 0o755);
    assert_eq!(mode(&case.place("p/pages/turnstone.1")), 0o644);
}

#[test]
fn a_looser_data_directory_is_closed_when_it_is_opened() {
    let case = Case::filled();
    fs_err::set_permissions(case.data(), PermissionsExt::from_mode(0o755)).expect("opened");
    assert_eq!(masked(&case, "022", &["session", "list"]).code, 0);
    assert_eq!(mode(&case.data()), 0o700);
}
