//! `turnstone undo` and a file that was being saved when a command started.

use std::io::Write;
use std::time::Duration;

use crate::exec::{await_file, exec_shell, run_program, start_program};
use crate::fixture::CliFixture;
use crate::undo_modes::{read_text, write_file};

/// Proves R1.
#[test]
fn save_that_a_command_overlapped_is_not_undone_to_its_truncated_state() {
    let case = CliFixture::empty();
    write_file(&case, "saved", "old text\n");
    write_file(&case, "changed", "one\n");
    exec_shell(&case, "true");
    // An editor truncates the file, and writes it when the command is running.
    let mut save = fs_err::File::create(case.path("p/saved")).expect("truncated");
    let script = "echo two >> changed; touch ../started; while [ ! -e ../go ]; do sleep 0.05; done";
    let mut command = start_program(&case, &["exec", "--no-trace", "--", "sh", "-c", script]);
    await_file(&case.path("started"));
    save.write_all(b"the complete new text\n").expect("written");
    drop(save);
    write_file(&case, "../go", "");
    assert!(command.wait().expect("ends").success());

    let ran = run_program(&case, &["undo"]);

    assert_eq!(read_text(&case, "saved"), "the complete new text\n", "{ran:?}");
    assert_eq!(read_text(&case, "changed"), "one\n", "what was finished is undone: {ran:?}");
    assert!(ran.out.contains("saved  ("), "and it is named: {}", ran.out);
}

/// Proves R1.
#[test]
fn file_emptied_just_before_a_command_is_not_undone_to_its_empty_state() {
    let case = CliFixture::empty();
    write_file(&case, "saved", "old text\n");
    exec_shell(&case, "true");
    // The file must be older than its last write, or it might have been created empty.
    std::thread::sleep(Duration::from_millis(200));
    // Another program saves the file in two steps, and holds it open in neither.
    write_file(&case, "saved", "");
    let script = "touch ../started; while [ ! -e ../go ]; do sleep 0.05; done";
    let mut command = start_program(&case, &["exec", "--no-trace", "--", "sh", "-c", script]);
    await_file(&case.path("started"));
    write_file(&case, "saved", "the complete new text\n");
    write_file(&case, "../go", "");
    assert!(command.wait().expect("ends").success());

    let ran = run_program(&case, &["undo"]);

    assert_eq!(read_text(&case, "saved"), "the complete new text\n", "{ran:?}");
    assert!(ran.code == 4 && ran.out.contains("saved  ("), "and it is named: {ran:?}");
}

/// Proves R1.
#[test]
fn file_caught_in_the_middle_of_a_rewrite_is_not_undone_to_that_state() {
    let case = CliFixture::empty();
    write_file(&case, "saved", "AAAA\nBBBB\n");
    exec_shell(&case, "true");
    let mut save = fs_err::OpenOptions::new().write(true).open(case.path("p/saved")).expect("open");
    save.write_all(b"1111\n").expect("half");
    let script = "touch ../started; while [ ! -e ../go ]; do sleep 0.05; done";
    let mut command = start_program(&case, &["exec", "--no-trace", "--", "sh", "-c", script]);
    await_file(&case.path("started"));
    save.write_all(b"2222\n").expect("the rest");
    drop(save);
    write_file(&case, "../go", "");
    assert!(command.wait().expect("ends").success());

    let ran = run_program(&case, &["undo"]);

    assert_eq!(read_text(&case, "saved"), "1111\n2222\n", "{ran:?}");
}

/// Runs a command while a save goes on that began long ago, and undoes it; returns what is left.
fn undo_over_old_save(case: &CliFixture, before_command: impl Fn()) -> String {
    write_file(case, "saved", "old text\n");
    exec_shell(case, "true");
    let mut save = fs_err::File::create(case.path("p/saved")).expect("truncated");
    let now = save.metadata().and_then(|meta| meta.modified()).expect("a time");
    let long_ago = now - Duration::from_secs(60);
    save.file().set_modified(long_ago).expect("set");
    before_command();
    let script = "echo n > n; touch ../started; while [ ! -e ../go ]; do sleep 0.05; done";
    let mut command = start_program(case, &["exec", "--", "sh", "-c", script]);
    await_file(&case.path("started"));
    save.write_all(b"the complete new text\n").expect("written");
    drop(save);
    write_file(case, "../go", "");
    assert!(command.wait().expect("ends").success());
    let ran = run_program(case, &["undo"]);
    assert!(!case.path("p/n").exists(), "{ran:?}");
    read_text(case, "saved")
}

/// Proves R1.
#[test]
fn save_that_began_long_before_the_command_is_not_undone_to_its_truncated_state() {
    let case = CliFixture::empty();
    assert_eq!(undo_over_old_save(&case, || {}), "the complete new text\n");
}

/// Proves R1.
#[test]
fn save_that_another_command_captured_is_not_undone_to_its_truncated_state() {
    let case = CliFixture::empty();
    let left = undo_over_old_save(&case, || drop(exec_shell(&case, "true")));
    assert_eq!(left, "the complete new text\n");
}

/// Proves R1.
#[test]
fn save_among_many_new_files_is_not_undone_to_its_truncated_state() {
    let case = CliFixture::empty();
    let left = undo_over_old_save(&case, || {
        (0..1001).for_each(|number| write_file(&case, &format!("new{number}"), ""));
    });
    assert_eq!(left, "the complete new text\n");
}

/// Proves R4.
#[test]
fn file_that_was_closed_before_the_command_is_undone_even_if_it_only_grew() {
    let case = CliFixture::empty();
    write_file(&case, "f", "one\n");
    write_file(&case, "empty", "");
    exec_shell(&case, "echo two >> f; echo x > empty");

    let ran = run_program(&case, &["undo"]);

    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!((read_text(&case, "f").as_str(), read_text(&case, "empty").as_str()), ("one\n", ""));
}
