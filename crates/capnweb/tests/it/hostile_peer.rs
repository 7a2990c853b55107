//! Peers that mean harm: they are refused or cut off, and nobody else notices.

use std::time::Duration;

use capnweb::session::SessionOptions;
use capnweb::wire::PeerVersion;

use crate::fixture::RawPeer;

fn server_with_limits(change: impl FnOnce(&mut SessionOptions)) -> RawPeer {
    let mut options = SessionOptions::default();
    change(&mut options);
    RawPeer::server(options)
}

/// Says one thing and returns the abort it must be answered with.
fn abort_of(server: &mut RawPeer, line: &str) -> String {
    let said = server.say(&[line]);
    let last = said.last().cloned().unwrap_or_default();
    assert!(last.starts_with("[\"abort\","), "{line} was answered with {said:?}");
    assert!(server.runner.close_reason().is_some());
    assert!(server.say(&["[\"pull\",0]"]).is_empty(), "nothing is said after an abort");
    last
}

fn aborts(line: &str) -> String {
    abort_of(&mut RawPeer::server(SessionOptions::default()), line)
}

#[test]
fn unknown_reference_aborts_the_session() {
    let abort = aborts(r#"["push",["pipeline",99,["a"],[]]]"#);
    assert!(abort.contains("no such entry on exports table: 99"), "{abort}");
    aborts(r#"["push",["import",-1]]"#);
    aborts(r#"["push",["remap",4,[],[],[1]]]"#);
    aborts(r#"["push",["remap",0,[],[["import",9]],[1]]]"#);
    assert!(aborts(r#"["pull",1]"#).contains("no such export ID: 1"));
    assert!(aborts(r#"["release",1,1]"#).contains("no such export ID: 1"));
}

#[test]
fn released_id_stays_invalid() {
    let mut server = RawPeer::server(SessionOptions::default());
    server.say(&[r#"["push",1]"#, r#"["release",1,1]"#]);
    abort_of(&mut server, r#"["pull",1]"#);
    let mut server = RawPeer::server(SessionOptions::default());
    server.say(&[r#"["release",0,1]"#]);
    abort_of(&mut server, r#"["push",["pipeline",0,["greet"],["x"]]]"#);
}

#[test]
fn over_release_aborts_the_session() {
    let abort = aborts(r#"["release",0,2]"#);
    assert!(abort.contains("refcount would go negative: 1 < 2"), "{abort}");
}

#[test]
fn invalid_message_aborts_the_session() {
    for line in ["", "nonsense", "{}", "[]", "[\"zzz\"]", "[\"pull\",true]", "[\"push\",NaN]"] {
        aborts(line);
    }
    aborts(&format!("[\"push\",{}1{}]", "[[".repeat(300), "]]".repeat(300)));
    aborts(r#"["push",["readable",1]]"#);
    aborts(r#"["push",["export",1]]"#);
}

#[test]
fn pipe_can_be_read_only_once() {
    let mut server = RawPeer::server(SessionOptions::default());
    server.say(&[r#"["pipe"]"#, r#"["push",["readable",1]]"#]);
    let abort = abort_of(&mut server, r#"["push",["readable",1]]"#);
    assert!(abort.contains("already consumed"), "{abort}");
}

#[test]
fn unsolicited_resolve_is_ignored_and_releases_its_objects() {
    let mut server = RawPeer::server(SessionOptions::default());
    let said = server.say(&[r#"["resolve",77,["export",-1]]"#, r#"["reject",78,1]"#]);
    assert_eq!(said, [r#"["release",-1,1]"#]);
}

#[test]
fn inherited_names_are_dropped_and_objects_released() {
    let mut server = RawPeer::server(SessionOptions::default());
    let mut said = server.say(&[
        r#"["push",["pipeline",0,["echo"],[{"__proto__":["export",-1],"toJSON":["export",-2],"a":1}]]]"#,
        r#"["pull",1]"#,
    ]);
    said.sort();
    let expected = [r#"["release",-1,1]"#, r#"["release",-2,1]"#, r#"["resolve",1,{"a":1}]"#];
    assert_eq!(said, expected);
}

#[test]
fn repeated_introduction_is_counted() {
    let mut server = RawPeer::server(SessionOptions::default());
    let said = server.say(&[r#"["resolve",77,[[["export",-1],["export",-1]]]]"#]);
    assert_eq!(said, [r#"["release",-1,2]"#]);
}

#[test]
fn promise_reusing_an_id_fails_alone() {
    let mut server = RawPeer::server(SessionOptions::default());
    let said =
        server.say(&[r#"["push",["promise",-1]]"#, r#"["push",["promise",-1]]"#, r#"["pull",2]"#]);
    assert!(said[0].starts_with(r#"["reject",2,"#), "{said:?}");
}

#[test]
fn self_resolving_promise_fails() {
    let mut server = RawPeer::server(SessionOptions::default());
    let said = server.say(&[
        r#"["push",["promise",-1]]"#,
        r#"["pull",1]"#,
        r#"["resolve",-1,["pipeline",1]]"#,
    ]);
    assert!(said.iter().any(|text| text.contains("resolves to itself")), "{said:?}");
}

#[test]
fn promise_cycle_does_not_hang_the_session() {
    let mut server = RawPeer::server(SessionOptions::default());
    server.say(&[
        r#"["push",["promise",-1]]"#,
        r#"["push",["promise",-2]]"#,
        r#"["resolve",-1,{"a":["pipeline",2]}]"#,
        r#"["resolve",-2,{"a":["pipeline",1]}]"#,
    ]);
    let said =
        server.say(&[r#"["push",["pipeline",0,["echo"],[["pipeline",1]]]]"#, r#"["pull",3]"#]);
    assert!(said[0].contains("promises made a value too"), "{said:?}");
}

#[test]
fn exponentially_growing_arguments_are_limited() {
    let mut server = RawPeer::server(SessionOptions::default());
    server.say(&[r#"["push",[["x","x","x","x","x","x","x","x","x","x"]]]"#]);
    for id in 1..12 {
        let ten = vec![format!("[\"pipeline\",{id}]"); 10].join(",");
        server.say(&[&format!("[\"push\",[[{ten}]]]")]);
    }
    let said =
        server.say(&[r#"["push",["pipeline",0,["echo"],[["pipeline",12]]]]"#, r#"["pull",13]"#]);
    assert!(said[0].contains("\"limit\""), "{said:?}");
}

#[test]
fn exponentially_growing_results_are_limited() {
    let mut server = RawPeer::server(SessionOptions::default());
    server.say(&[r#"["push",[["x","x","x","x","x","x","x","x","x","x"]]]"#]);
    for id in 1..12 {
        let ten = vec![format!("[\"pipeline\",{id}]"); 10].join(",");
        server.say(&[&format!("[\"push\",[[{ten}]]]")]);
    }
    let said = server.say(&[r#"["pull",12]"#]);
    assert!(said[0].contains("\"limit\""), "{said:?}");
}

#[test]
fn promise_and_stream_cycles_are_bounded_and_broken() {
    let mut server = server_with_limits(|options| options.limits.imports = 10);
    for ring in 1..=5 {
        let push = format!("[\"push\",[\"promise\",-{ring}]]");
        let tie = format!("[\"resolve\",-{ring},{{\"a\":[\"pipeline\",{ring}]}}]");
        server.say(&[&push, &tie, &format!("[\"release\",{ring},1]")]);
    }
    for ring in 6..=10 {
        server.say(&[&format!("[\"push\",[\"promise\",-{ring}]]")]);
    }
    assert!(abort_of(&mut server, r#"["push",["promise",-11]]"#).contains("\"limit\""));

    let mut server = server_with_limits(|options| options.limits.streams = 2);
    let write =
        |id: u8| format!("[\"stream\",[\"pipeline\",{id},[\"write\"],[[\"readable\",{id}]]]]");
    server.say(&["[\"pipe\"]", &write(1), "[\"release\",1,1]", "[\"pipe\"]"]);
    assert!(abort_of(&mut server, "[\"pipe\"]").contains("\"limit\""));
}

#[test]
fn very_long_promise_chain_is_resolved_and_dropped() {
    let mut server = server_with_limits(|options| options.limits.exports = 100_000);
    server.say(&[r#"["push",{"a":1}]"#]);
    for id in 1..50_000 {
        server.runner.receive(&format!("[\"push\",{{\"a\":[\"pipeline\",{id}]}}]"));
    }
    for id in 1..50_000 {
        server.runner.receive(&format!("[\"release\",{id},1]"));
    }
    let path = vec!["\"a\""; 50_000].join(",");
    let said =
        server.say(&[&format!("[\"push\",[\"pipeline\",50000,[{path}]]]"), r#"["pull",50001]"#]);
    assert_eq!(said, [r#"["resolve",50001,1]"#]);
    let said = server.say(&[r#"["release",50000,1]"#, r#"["pull",0]"#]);
    assert_eq!(said.len(), 1);
}

#[test]
fn tables_pulls_and_maps_have_limits() {
    let mut server = server_with_limits(|options| options.limits.exports = 3);
    server.say(&[r#"["push",1]"#, r#"["push",2]"#]);
    assert!(abort_of(&mut server, r#"["push",3]"#).contains("\"limit\""));

    let mut server = server_with_limits(|options| options.limits.imports = 2);
    server.say(&[r#"["push",[[["export",-1],["export",-2]]]]"#]);
    assert!(abort_of(&mut server, r#"["push",["export",-3]]"#).contains("\"limit\""));

    let mut server = server_with_limits(|options| options.limits.pending_pulls = 2);
    for id in 1..=3 {
        server.say(&[r#"["push",["pipeline",0,["never"],[]]]"#]);
        if id < 3 {
            server.say(&[&format!("[\"pull\",{id}]")]);
        }
    }
    assert!(abort_of(&mut server, r#"["pull",3]"#).contains("\"limit\""));

    let mut server = server_with_limits(|options| options.limits.running_calls = 2);
    for id in 1..=2 {
        let release = format!("[\"release\",{id},1]");
        server.say(&[r#"["push",["pipeline",0,["never"],[]]]"#, &release]);
    }
    let said = server.say(&[r#"["push",["pipeline",0,["never"],[]]]"#, r#"["pull",3]"#]);
    assert!(said[0].contains("too many calls"), "{said:?}");

    let mut server = server_with_limits(|options| options.limits.map_steps = 5);
    let said = server.say(&[
        r#"["push",[[1,2,3]]]"#,
        r#"["push",["remap",1,[],[],[1,2]]]"#,
        r#"["pull",2]"#,
    ]);
    assert!(said[0].contains("too many steps"), "{said:?}");

    let mut server = server_with_limits(|options| options.limits.wire.message_bytes = 40);
    abort_of(&mut server, &format!("[\"push\",\"{}\"]", "x".repeat(40)));
}

#[test]
fn depth_digits_and_substitution_have_limits() {
    let mut server = server_with_limits(|options| options.limits.wire.depth = 4);
    server.say(&["[\"push\",[[[[[[1]]]]]]]"]);
    assert!(abort_of(&mut server, "[\"push\",[[[[[[[[1]]]]]]]]]").contains("depth of 4"));

    let mut server = server_with_limits(|options| options.limits.wire.bigint_digits = 3);
    server.say(&["[\"push\",[\"bigint\",\"123\"]]"]);
    assert!(abort_of(&mut server, "[\"push\",[\"bigint\",\"-123\"]]").contains("3 digits"));

    let mut server = server_with_limits(|options| options.limits.substituted_values = 5);
    let echo = |id: u8| format!("[\"push\",[\"pipeline\",0,[\"echo\"],[[\"pipeline\",{id}]]]]");
    let said = server.say(&["[\"push\",[[1,2]]]", &echo(1), "[\"pull\",2]"]);
    assert_eq!(said, ["[\"resolve\",2,[[1,2]]]"]);
    let said = server.say(&["[\"push\",[[1,2,3,4,5,6]]]", &echo(3), "[\"pull\",4]"]);
    assert!(said[0].contains("\"limit\""), "{said:?}");
}

#[test]
fn blob_size_is_limited() {
    let mut server = server_with_limits(|options| options.limits.blob_bytes = 3);
    let said = server.say(&[
        r#"["pipe"]"#,
        r#"["push",["pipeline",0,["echoBlob"],[["blob","",["readable",1]]]]]"#,
        r#"["pull",2]"#,
        r#"["stream",["pipeline",1,["write"],[["bytes","AQIDBA"]]]]"#,
    ]);
    assert_eq!(said.iter().filter(|text| text.contains("too large")).count(), 2, "{said:?}");
}

#[test]
fn session_age_is_limited() {
    let mut server =
        server_with_limits(|options| options.limits.age = Some(Duration::from_secs(1)));
    server.runner.session().set_age(Duration::from_millis(1_000));
    assert!(server.runner.close_reason().is_none());
    server.runner.session().set_age(Duration::from_millis(1_001));
    assert_eq!(server.runner.close_reason().and_then(|error| error.code()), Some("age"));
}

#[test]
fn batch_waiting_for_its_sender_fails_immediately() {
    let mut server = RawPeer::server(SessionOptions::default());
    server.say(&[
        r#"["push",["promise",-9]]"#,
        r#"["pull",1]"#,
        r#"["push",["pipeline",0,["withCallback"],[["export",-1]]]]"#,
        r#"["pull",2]"#,
        r#"["push",["pipeline",0,["notify"],[["export",-2]]]]"#,
        r#"["pull",3]"#,
    ]);
    server.runner.session().end_input();
    server.poll();
    let said = server.take_output();
    let refused = said.iter().filter(|text| text.contains("\"batch\"")).count();
    assert_eq!(refused, 2, "{said:?}");
    assert_eq!(server.runner.session().pending_pulls(), 0);
}

#[test]
fn v0_4_peer_gets_an_error_instead_of_unknown_forms() {
    let mut server = server_with_limits(|options| options.profile = PeerVersion::V0_4);
    let said = server.say(&[
        r#"["push",["pipeline",0,["readable"],[]]]"#,
        r#"["push",["pipeline",0,["makeBlob"],[]]]"#,
        r#"["push",["pipeline",0,["getInvalidDate"],[]]]"#,
        r#"["push",["pipeline",0,["getBytes"],[]]]"#,
        r#"["pull",1]"#,
        r#"["pull",2]"#,
        r#"["pull",3]"#,
        r#"["pull",4]"#,
    ]);
    assert_eq!(said.len(), 4, "{said:?}");
    assert!(said[..3].iter().all(|text| text.contains("does not understand")), "{said:?}");
    assert_eq!(said[3], r#"["resolve",4,["bytes","AQID"]]"#);
}

#[test]
fn peer_abort_ends_the_session() {
    let mut server = RawPeer::server(SessionOptions::default());
    let said = server.say(&[r#"["abort",["error","Error","enough"]]"#, r#"["pull",0]"#]);
    assert!(said.is_empty());
    assert_eq!(server.runner.close_reason().map(|error| error.message.as_str()), Some("enough"));
    assert_eq!(server.runner.session().table_sizes(), (0, 0));
}
