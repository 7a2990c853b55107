//! What the npm package was seen to say, said to us.

use capnweb::session::SessionOptions;

use crate::fixture::RawPeer;

fn answers(lines: &[&str]) -> Vec<String> {
    let mut answers = RawPeer::server(SessionOptions::default()).say(lines);
    answers.sort();
    answers
}

#[test]
fn pipelined_calls_need_no_intermediate_pull() {
    let said = answers(&[
        r#"["push",["pipeline",0,["user"],[]]]"#,
        r#"["push",["pipeline",0,["greet"],[["pipeline",1,["name"]]]]]"#,
        r#"["push",["pipeline",0,["makeCounter"],[4]]]"#,
        r#"["push",["pipeline",3,["increment"],[2]]]"#,
        r#"["pull",2]"#,
        r#"["pull",4]"#,
    ]);
    assert_eq!(said, [r#"["resolve",2,"hi ann"]"#, r#"["resolve",4,6]"#]);
}

#[test]
fn callback_is_called_and_released() {
    let mut server = RawPeer::server(SessionOptions::default());
    let said = server
        .say(&[r#"["push",["pipeline",0,["withCallback"],[["export",-1]]]]"#, r#"["pull",1]"#]);
    assert_eq!(said, [r#"["push",["pipeline",-1,[],["tick"]]]"#, r#"["pull",1]"#]);
    let mut said = server.say(&[r#"["resolve",1,"tick!"]"#]);
    said.sort();
    let expected =
        [r#"["release",-1,1]"#, r#"["release",1,1]"#, r#"["resolve",1,{"got":"tick!"}]"#];
    assert_eq!(said, expected);
}

#[test]
fn error_messages_match_npm() {
    let said = answers(&[
        r#"["push",["pipeline",0,["failWithProps"],[]]]"#,
        r#"["push",["pipeline",0,["nosuch"],[]]]"#,
        r#"["push",["pipeline",0,["nosuch","deeper"]]]"#,
        r#"["push",["pipeline",0,["user","name"],[]]]"#,
        r#"["push",["pipeline",0,[],[1]]]"#,
        r#"["push",["pipeline",1,["x"],[]]]"#,
        r#"["push",["pipeline",0,["toString"],[]]]"#,
        r#"["pull",1]"#,
        r#"["pull",2]"#,
        r#"["pull",3]"#,
        r#"["pull",4]"#,
        r#"["pull",5]"#,
        r#"["pull",6]"#,
        r#"["pull",7]"#,
    ]);
    let props =
        r#"["error","RangeError","bad range",null,{"code":"E_RANGE","details":{"a":[[1]]}}]"#;
    let type_error =
        |id: u8, message: &str| format!(r#"["reject",{id},["error","TypeError","{message}"]]"#);
    let expected = [
        format!(r#"["reject",1,{props}]"#),
        type_error(2, "'nosuch' is not a function."),
        type_error(3, "Cannot read properties of undefined (reading 'deeper')"),
        type_error(4, "Cannot read properties of undefined (reading 'name')"),
        type_error(5, "'' is not a function."),
        format!(r#"["reject",6,{props}]"#),
        type_error(7, "'toString' is not a function."),
    ];
    assert_eq!(said[..3], expected[..3]);
    assert_eq!(said[4..], expected[4..]);
}

#[test]
fn property_path_reads_like_javascript() {
    let said = answers(&[
        r#"["push",["pipeline",0,["user"],[]]]"#,
        r#"["push",["pipeline",1,["ids",1]]]"#,
        r#"["push",["pipeline",1,["ids","1"]]]"#,
        r#"["push",["pipeline",1,["constructor"]]]"#,
        r#"["push",["pipeline",1,["name","length"]]]"#,
        r#"["push",["pipeline",0,["makeCounter"],[7]]]"#,
        r#"["push",["pipeline",6,["value"]]]"#,
        r#"["push",["pipeline",6,["increment"]]]"#,
        r#"["pull",2]"#,
        r#"["pull",3]"#,
        r#"["pull",4]"#,
        r#"["pull",5]"#,
        r#"["pull",7]"#,
        r#"["pull",8]"#,
        r#"["pull",0]"#,
    ]);
    let expected = [
        r#"["resolve",0,["export",-2]]"#,
        r#"["resolve",2,2]"#,
        r#"["resolve",3,["undefined"]]"#,
        r#"["resolve",4,["undefined"]]"#,
        r#"["resolve",5,["undefined"]]"#,
        r#"["resolve",7,7]"#,
        r#"["resolve",8,["export",-1]]"#,
    ];
    assert_eq!(said, expected);
}

#[test]
fn pushed_import_resolves_to_its_target() {
    let said = answers(&[
        r#"["push",["import",0,["greet"],["bob"]]]"#,
        r#"["push",["import",0,["makeCounter"],[1]]]"#,
        r#"["push",["import",2,["increment"],[1]]]"#,
        r#"["pull",1]"#,
        r#"["pull",3]"#,
    ]);
    assert_eq!(said, [r#"["resolve",1,"hi bob"]"#, r#"["resolve",3,2]"#]);
}

#[test]
fn each_export_of_an_object_gets_its_own_id() {
    let mut server = RawPeer::server(SessionOptions::default());
    let said = server.say(&[r#"["push",["pipeline",0,["twice"],[1]]]"#, r#"["pull",1]"#]);
    assert_eq!(said, [r#"["resolve",1,[[["export",-1],["export",-2]]]]"#]);
    let said = server.say(&[
        r#"["release",-1,1]"#,
        r#"["release",1,1]"#,
        r#"["push",["pipeline",0,["disposed"],[]]]"#,
        r#"["pull",2]"#,
        r#"["release",-2,1]"#,
        r#"["push",["pipeline",0,["disposed"],[]]]"#,
        r#"["pull",3]"#,
    ]);
    assert_eq!(said, [r#"["resolve",2,0]"#, r#"["resolve",3,1]"#]);
}

#[test]
fn map_returns_values_and_promises() {
    let said = answers(&[
        r#"["push",["pipeline",0,["ids"],[]]]"#,
        r#"["push",["remap",1,[],[["import",0]],[["pipeline",-1,["name"],[["pipeline",0]]],{"i":["pipeline",0],"n":["pipeline",1]}]]]"#,
        r#"["pull",2]"#,
    ]);
    let expected = r#"["resolve",2,[[{"i":1,"n":"n1"},{"i":2,"n":"n2"},{"i":3,"n":"n3"}]]]"#;
    assert_eq!(said, [expected]);
}

#[test]
fn map_of_null_is_null_and_empty_function_is_rejected() {
    let said = answers(&[
        r#"["push",null]"#,
        r#"["push",["remap",1,[],[],[5]]]"#,
        r#"["push",7]"#,
        r#"["push",["remap",3,[],[],[[[["pipeline",0]]]]]]"#,
        r#"["push",["remap",3,[],[],[]]]"#,
        r#"["push",["remap",3,[],[],[["pipeline",5]]]]"#,
        r#"["pull",2]"#,
        r#"["pull",4]"#,
        r#"["pull",5]"#,
        r#"["pull",6]"#,
    ]);
    let expected = [
        r#"["reject",5,["error","Error","Invalid empty mapper function."]]"#,
        r#"["reject",6,["error","Error","no such entry on exports table: 5"]]"#,
        r#"["resolve",2,null]"#,
        r#"["resolve",4,[[7]]]"#,
    ];
    assert_eq!(said, expected);
}

#[test]
fn call_waiting_for_an_argument_is_overtaken() {
    let mut server = RawPeer::server(SessionOptions::default());
    let said = server.say(&[
        r#"["push",["pipeline",0,["makeCounter"],[0]]]"#,
        r#"["push",["pipeline",1,["increment"],[["promise",-1]]]]"#,
        r#"["push",["pipeline",1,["increment"],[10]]]"#,
        r#"["pull",2]"#,
        r#"["pull",3]"#,
    ]);
    assert_eq!(said, [r#"["resolve",3,10]"#]);
    let said = server.say(&[r#"["resolve",-1,5]"#]);
    assert_eq!(said, [r#"["release",-1,1]"#, r#"["resolve",2,15]"#]);
}

#[test]
fn peer_stream_is_read_and_acknowledged_per_chunk() {
    let mut server = RawPeer::server(SessionOptions::default());
    let mut said = server.say(&[
        r#"["pipe"]"#,
        r#"["push",["pipeline",0,["consume"],[["readable",1]]]]"#,
        r#"["stream",["pipeline",1,["write"],[1]]]"#,
        r#"["stream",["pipeline",1,["write"],["two"]]]"#,
        r#"["pull",2]"#,
        r#"["stream",["pipeline",1,["close"],[]]]"#,
        r#"["release",1,1]"#,
    ]);
    said.sort();
    let expected = [
        r#"["resolve",2,[[1,"two"]]]"#,
        r#"["resolve",3,["undefined"]]"#,
        r#"["resolve",4,["undefined"]]"#,
        r#"["resolve",5,["undefined"]]"#,
    ];
    assert_eq!(said, expected);
}

#[test]
fn local_stream_is_sent_and_released() {
    let mut server = RawPeer::server(SessionOptions::default());
    let said = server.say(&[r#"["push",["pipeline",0,["readable"],[]]]"#, r#"["pull",1]"#]);
    let expected = [
        r#"["pipe"]"#,
        r#"["resolve",1,["readable",1]]"#,
        r#"["stream",["pipeline",1,["write"],["a"]]]"#,
        r#"["stream",["pipeline",1,["write"],[["bytes","AQID"]]]]"#,
        r#"["stream",["pipeline",1,["close"],[]]]"#,
    ];
    assert_eq!(said, expected);
    let said = server.say(&[
        r#"["resolve",2,["undefined"]]"#,
        r#"["resolve",3,["undefined"]]"#,
        r#"["resolve",4,["undefined"]]"#,
    ]);
    assert_eq!(said, [r#"["release",1,1]"#]);
}

#[test]
fn peer_writable_stream_is_written() {
    let mut server = RawPeer::server(SessionOptions::default());
    let said =
        server.say(&[r#"["push",["pipeline",0,["writeTo"],[["writable",-1]]]]"#, r#"["pull",1]"#]);
    let expected = [
        r#"["stream",["pipeline",-1,["write"],["q"]]]"#,
        r#"["stream",["pipeline",-1,["write"],[2]]]"#,
        r#"["stream",["pipeline",-1,["close"],[]]]"#,
    ];
    assert_eq!(said, expected);
    let mut said = server.say(&[
        r#"["resolve",1,["undefined"]]"#,
        r#"["resolve",2,["undefined"]]"#,
        r#"["resolve",3,["undefined"]]"#,
    ]);
    said.sort();
    assert_eq!(said, [r#"["release",-1,1]"#, r#"["resolve",1,"written"]"#]);
}

#[test]
fn blob_is_complete_before_delivery() {
    let mut server = RawPeer::server(SessionOptions::default());
    let mut said = server.say(&[
        r#"["pipe"]"#,
        r#"["push",["pipeline",0,["echoBlob"],[["blob","text/plain",["readable",1]]]]]"#,
        r#"["pull",2]"#,
        r#"["stream",["pipeline",1,["write"],[["bytes","aGk"]]]]"#,
        r#"["stream",["pipeline",1,["write"],[["bytes","aGk"]]]]"#,
        r#"["stream",["pipeline",1,["close"],[]]]"#,
    ]);
    said.retain(|text| !text.contains("undefined"));
    let expected = [
        r#"["pipe"]"#,
        r#"["resolve",2,["blob","text/plain",["readable",1]]]"#,
        r#"["stream",["pipeline",1,["write"],[["bytes","aGlhaWk"]]]]"#,
        r#"["stream",["pipeline",1,["close"],[]]]"#,
    ];
    assert_eq!(said[..2], expected[..2]);
    assert_eq!(said[2], r#"["stream",["pipeline",1,["write"],[["bytes","aGloaQ"]]]]"#);
    assert_eq!(said[3], expected[3]);
}

#[test]
fn internal_failure_reveals_only_an_incident_id() {
    let options = SessionOptions { incident_prefix: "s1-".to_owned(), ..SessionOptions::default() };
    let mut server = RawPeer::server(options);
    let said = server.say(&[r#"["push",["pipeline",0,["leak"],[]]]"#, r#"["pull",1]"#]);
    let reported = r#"["reject",1,["error","Error","internal error",null,{"code":"internal","incident":"s1-1"}]]"#;
    assert_eq!(said, [reported]);
    let incidents = server.runner.take_incidents();
    assert_eq!(incidents[0].id, "s1-1");
    assert_eq!(incidents[0].error.to_string(), "password=hunter2");
}

#[test]
fn wrong_argument_type_is_rejected_with_its_position() {
    let said = answers(&[
        r#"["push",["pipeline",0,["greet"],[5]]]"#,
        r#"["push",["pipeline",0,["greet"],[]]]"#,
        r#"["push",["pipeline",0,["greet"],["a","b"]]]"#,
        r#"["push",["pipeline",0,["generateFibonacci"],[1.5]]]"#,
        r#"["pull",1]"#,
        r#"["pull",2]"#,
        r#"["pull",3]"#,
        r#"["pull",4]"#,
    ]);
    let messages = [
        "argument 1: expected a string, got a number",
        "a missing argument: expected a string, got undefined",
        "expected at most 1 arguments, got 2",
        "argument 1: expected an integer (u32), got a number",
    ];
    for (said, message) in said.iter().zip(messages) {
        assert!(said.contains(message), "{said}");
    }
}
