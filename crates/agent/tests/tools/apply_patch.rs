//! Applying patches.

use std::os::unix::fs::{PermissionsExt, symlink};

use proptest::prelude::*;
use serde_json::{Value, json};
use turnstone_agent::tool::{ApplyPatchTool, Tool, ToolError, ToolHost, ToolSettings};

use crate::fake_host::{ToolFixture, failure};

fn tool() -> ApplyPatchTool {
    ApplyPatchTool::new(&ToolSettings::default())
}

fn patch(body: &str) -> Value {
    json!({ "patchText": format!("*** Begin Patch\n{body}\n*** End Patch") })
}

#[test]
fn files_are_added_changed_moved_and_deleted_by_one_ask_and_undone() {
    let case = ToolFixture::in_directory("sub");
    case.put("sub/keep.txt", "a\nb\n");
    case.put("sub/old.txt", "old\n");
    case.put("sub/run.sh", "echo 1\n");
    let mode = |mode| std::fs::Permissions::from_mode(mode);
    fs_err::set_permissions(case.root().join("sub/run.sh"), mode(0o755)).expect("set");
    let before = case.files();
    let host = case.host("apply_patch");
    let input = patch(
        "*** Add File: new/a.txt\n+one\n*** Update File: keep.txt\n@@\n a\n-b\n+B\n\
         *** Update File: run.sh\n*** Move to: bin/run.sh\n-echo 1\n+echo 2\n*** Delete File: old.txt",
    );

    let reply = tool().run(&host, &input).expect("applied");

    assert_eq!(case.text("sub/new/a.txt").as_deref(), Some("one\n"));
    assert_eq!(case.text("sub/keep.txt").as_deref(), Some("a\nB\n"));
    assert_eq!(case.text("sub/bin/run.sh").as_deref(), Some("echo 2\n"));
    assert_eq!((case.text("sub/run.sh"), case.text("sub/old.txt")), (None, None));
    let moved = fs_err::metadata(case.root().join("sub/bin/run.sh")).expect("there");
    assert_eq!(moved.permissions().mode() & 0o777, 0o755);
    assert_eq!(
        reply.output,
        "Success. Updated the following files:\nA sub/new/a.txt\nM sub/keep.txt\nM sub/bin/run.sh\nD sub/old.txt"
    );
    assert_eq!(
        host.asked(),
        ["edit: sub/new/a.txt, sub/keep.txt, sub/run.sh, sub/bin/run.sh, sub/old.txt"]
    );
    let files = &reply.metadata["files"];
    let kinds: Vec<&Value> = (0..4).map(|at| &files[at]["type"]).collect();
    assert_eq!(json!(kinds), json!(["add", "update", "move", "delete"]));
    assert_eq!(files[2]["relativePath"], json!("sub/bin/run.sh"));
    assert_eq!(files[2]["movePath"], json!(case.root().join("sub/bin/run.sh")));
    assert_eq!(host.asks()[0].metadata["files"], *files);
    let written = tool().written_paths(host.scope(), &input).expect("known");
    assert_eq!(written.len(), 5);
    assert!(case.undo().is_complete());
    assert_eq!(case.files(), before);
}

#[test]
fn patch_that_does_not_fit_changes_no_file() {
    let case = ToolFixture::new();
    case.put("a.txt", "a\nb\n");
    case.put("latin", b"caf\xe9\n");
    symlink("a.txt", case.root().join("link.txt")).expect("linked");
    fs_err::create_dir(case.root().join("folder")).expect("made");
    let before = case.files();
    let good = "*** Add File: new.txt\n+x\n*** Update File: a.txt\n-a\n+A\n";
    for (bad, reason) in [
        ("*** Update File: a.txt\n-missing", "not in the file"),
        ("*** Update File: gone.txt\n-a", "does not exist"),
        ("*** Delete File: gone.txt", "does not exist"),
        ("*** Delete File: folder", "is a directory"),
        ("*** Delete File: link.txt", "symbolic link"),
        ("*** Update File: latin\n-a", "not UTF-8"),
        ("*** Add File: ../out.txt\n+x", "outside of the project"),
        ("*** Update File: a.txt\n*** Move to: /tmp/out.txt\n-b", "outside of the project"),
        ("*** Update File: a.txt\n@@\nb", "line"),
        ("*** Update File: a.txt", "is empty"),
        ("*** Frobnicate File: a.txt", "line"),
    ] {
        let host = case.host("apply_patch");
        let words = failure(tool().run(&host, &patch(&format!("{good}{bad}"))));
        assert!(words.contains(reason), "{bad}: {words}");
        assert!(host.asks().is_empty(), "{bad}");
        assert_eq!(case.files(), before, "{bad}");
    }
    let refused = case.host("apply_patch").deciding(|_| Err(ToolError::Rejected("no".to_owned())));
    assert!(matches!(tool().run(&refused, &patch(good)), Err(ToolError::Rejected(_))));
    let words = failure(case.run(&tool(), &patch("*** Update File: a.txt\n a\n b")));
    assert!(words.contains("would not change"), "{words}");
    assert!(failure(case.run(&tool(), &json!({"patchText": "hello"}))).contains("Begin Patch"));
    assert_eq!(case.files(), before);
    assert!(case.change_sets().is_empty());
}

#[test]
fn several_operations_on_one_file_follow_each_other() {
    let case = ToolFixture::new();
    case.put("a.txt", "a\nb\n");
    let body = "*** Update File: a.txt\n-a\n+A\n*** Update File: ./a.txt\n-b\n+B\n\
                *** Add File: b.txt\n+1\n*** Update File: b.txt\n-1\n+2\n\
                *** Add File: c.txt\n+x\n*** Delete File: c.txt";
    case.run(&tool(), &patch(body)).expect("applied");
    assert_eq!(case.text("a.txt").as_deref(), Some("A\nB\n"));
    assert_eq!(case.text("b.txt").as_deref(), Some("2\n"));
    assert_eq!(case.text("c.txt"), None);
}

#[test]
fn save_of_a_person_while_they_are_asked_is_patched_or_kept() {
    let case = ToolFixture::new();
    case.put("a.txt", "a\nb\n");
    case.put("b.txt", "b\n");
    let file = case.root().join("b.txt");
    let host = case.host("apply_patch").deciding(move |_| {
        fs_err::write(&file, "nothing of it\n").expect("saved");
        Ok(())
    });
    let body = "*** Update File: a.txt\n-a\n+A\n*** Update File: b.txt\n-b\n+B";
    let words = failure(tool().run(&host, &patch(body)));
    assert!(words.contains("does not fit"), "{words}");
    assert_eq!(case.text("a.txt").as_deref(), Some("a\nb\n"), "no file was changed");
    assert_eq!(case.text("b.txt").as_deref(), Some("nothing of it\n"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// A failed call leaves every file as it was, and an undo restores what a successful one changed.
    #[test]
    fn patches_are_applied_wholly_or_not_at_all(
        contents in proptest::collection::vec("[ab\\r\\n]{0,12}", 3),
        operations in proptest::collection::vec((0_u8..5, 0_usize..4, "[ab]{0,2}", "[ab]{0,2}"), 1..4),
    ) {
        let case = ToolFixture::new();
        for (number, content) in contents.iter().enumerate() {
            case.put(&format!("f{number}"), content);
        }
        let before = case.files();
        let mut body = String::new();
        for (kind, file, old, new) in &operations {
            body.push_str(&match kind {
                0 => format!("*** Add File: f{file}\n+{new}\n"),
                1 => format!("*** Delete File: f{file}\n"),
                2 => format!("*** Update File: f{file}\n*** Move to: d/f{file}\n-{old}\n+{new}\n"),
                3 => format!("*** Update File: f{file}\n@@\n {old}\n+{new}\n*** End of File\n"),
                _ => format!("*** Update File: f{file}\n@@\n-{old}\n+{new}\n"),
            });
        }
        let applied = case.run(&tool(), &patch(body.trim_end_matches('\n')));
        if applied.is_err() {
            prop_assert_eq!(case.files(), before);
        } else {
            prop_assert!(case.undo().is_complete());
            prop_assert_eq!(case.files(), before);
        }
    }
}
