//! Starting, sharing, closing and starting again.

use std::time::Duration;

use turnstone_mcp::{ToolServerError, ToolServerStatus, ToolServerTransport};

use crate::fixture::{PoolFixture, act, names, server, wait_until};

#[test]
fn nothing_starts_before_it_is_needed_and_disabled_servers_never_do() {
    let fixture = PoolFixture::new();
    let mut settings = fixture.scripted("refuses-start");
    let idle = fixture.select(&settings);
    assert_eq!(idle.status(), ToolServerStatus::Idle);
    settings.is_enabled = false;
    let disabled = fixture.select(&settings);
    disabled.start();
    assert_eq!(disabled.status(), ToolServerStatus::Disabled);
    assert_eq!(act(&disabled), Err(ToolServerError::Disabled));
    assert!(!fixture.path("state").exists(), "no program ran");
}

#[test]
fn failed_server_is_tried_again_later_and_says_why_it_failed() {
    let fixture = PoolFixture::new();
    let settings = fixture.scripted("refuses-start");
    let error = fixture.fail_to_connect(&settings);
    assert!(error.to_string().contains("no configuration"), "{error}");
    let server = fixture.select(&settings);
    let error = act(&server).expect_err("not yet");
    assert!(matches!(error, ToolServerError::Waiting { .. }), "{error:?}");
    wait_until("the third start", || {
        server.start();
        server.status() == ToolServerStatus::Connected
    });
    assert_eq!(fs_err::read_to_string(fixture.path("state")).expect("read"), "xxx");
    assert!(act(&server).is_ok());
}

#[test]
fn missing_program_and_missing_directory_are_errors() {
    let fixture = PoolFixture::new();
    let mut settings = fixture.scripted("plain");
    if let ToolServerTransport::Local { program, .. } = &mut settings.transport {
        *program = "no-such-program-at-all".into();
    }
    let error = fixture.fail_to_connect(&settings);
    assert!(error.to_string().contains("no-such-program-at-all"), "{error}");
    let mut settings = fixture.scripted("plain");
    if let ToolServerTransport::Local { directory, .. } = &mut settings.transport {
        *directory = fixture.path("missing");
    }
    fixture.fail_to_connect(&settings);
}

#[test]
fn server_is_shared_in_a_directory_and_replaced_when_its_settings_change() {
    let fixture = PoolFixture::new();
    let settings = fixture.scripted("plain");
    let first = fixture.connect(&settings);
    assert_eq!(fixture.select(&settings).status(), ToolServerStatus::Connected, "the same");
    let elsewhere =
        fixture.pool.select(std::path::Path::new("/"), std::slice::from_ref(&settings)).remove(0);
    assert_eq!(elsewhere.status(), ToolServerStatus::Idle, "another directory");
    let mut changed = settings.clone();
    changed.call_timeout = Duration::from_secs(1);
    assert_eq!(fixture.select(&changed).status(), ToolServerStatus::Idle);
    assert_eq!(first.status(), ToolServerStatus::Idle, "the old one ended");
    assert!(matches!(act(&first), Err(ToolServerError::Closed { .. })), "and stays so");
}

#[test]
fn idle_server_is_closed_and_started_again_by_a_call() {
    let fixture = PoolFixture::with_idle_limit(Duration::from_millis(200));
    let server = fixture.connect(&fixture.scripted("plain"));
    wait_until("the end", || server.status() == ToolServerStatus::Idle);
    assert_eq!(names(&server), ["act", "look"]);
    assert_eq!(act(&server).expect("answered").text, "done[0m ok");
}

#[test]
fn servers_end_with_their_pool() {
    let fixture = PoolFixture::new();
    let marker = fixture.path("ended");
    let script = format!("trap 'touch {}; exit' TERM; exec python3 \"$0\" plain", marker.display());
    let python = fixture.scripted("plain");
    let ToolServerTransport::Local { args, .. } = &python.transport else { panic!("local") };
    let server_file = args[0].to_str().expect("text").to_owned();
    // The shell stays to note the end of its group.
    let script = script.replace("exec python3", "python3");
    let server = fixture.connect(&fixture.local(&["bash", "-c", &script, &server_file]));
    assert!(act(&server).is_ok());
    fixture.pool.close();
    wait_until("the end of the program", || marker.exists());
}

#[test]
fn changed_tools_are_listed_again() {
    let fixture = PoolFixture::new();
    let server = fixture.connect(&fixture.scripted("changing"));
    assert_eq!(server.tools()[0].description, "does it");
    assert!(act(&server).is_ok());
    wait_until("the new list", || names(&server) == ["act"]);
    assert_eq!(server.tools()[0].description, "now does something else");
}

#[test]
fn pages_are_joined_and_old_versions_accepted() {
    let fixture = PoolFixture::new();
    assert_eq!(names(&fixture.connect(&fixture.scripted("pages"))), ["page0", "page1", "page2"]);
    let old = PoolFixture::new();
    assert!(act(&old.connect(&old.scripted("old"))).is_ok());
}

#[test]
fn settings_show_no_secrets() {
    let settings = server(ToolServerTransport::Remote {
        url: "https://h/?key=hunter2".to_owned(),
        headers: vec![("authorization".to_owned(), "hunter2".to_owned())],
    });
    assert!(!format!("{settings:?}").contains("hunter2"));
}
