//! Bytes that a session holds: counted, bounded and given back.

use capnweb::session::SessionOptions;

use crate::fixture::RawPeer;

fn server_with_limits(change: impl FnOnce(&mut SessionOptions)) -> RawPeer {
    let mut options = SessionOptions::default();
    change(&mut options);
    RawPeer::server(options)
}

fn echo(argument: &str) -> String {
    format!("[\"push\",[\"pipeline\",0,[\"echo\"],[{argument}]]]")
}

#[test]
fn map_charges_every_copy_before_it_is_made() {
    let mut server = server_with_limits(|options| options.limits.map_bytes = 1_000_000);
    let text = "x".repeat(1_000);
    let elements = vec!["1"; 900].join(",");
    server
        .say(&[&format!("[\"push\",{{\"a\":\"{text}\"}}]"), &format!("[\"push\",[[{elements}]]]")]);
    for (id, map) in [
        // A literal, a property of a capture, the element of an input that is large itself.
        (3, format!("[\"remap\",2,[],[],[\"{text}{text}\"]]")),
        (4, "[\"remap\",2,[],[[\"import\",1]],[[\"pipeline\",-1,[\"a\"]],[\"pipeline\",-1,[\"a\"]],1]]".to_owned()),
        (5, "[\"remap\",2,[],[[\"import\",2]],[[\"remap\",-1,[],[],[1]]]]".to_owned()),
    ] {
        let said = server.say(&[&format!("[\"push\",{map}]"), &format!("[\"pull\",{id}]")]);
        // What a map reads fails alone, and the rest of it with it.
        let whole = said.join("");
        assert!(whole.contains("copies too many bytes") || id == 4, "{map:.100}: {whole:.300}");
        assert!(server.runner.close_reason().is_none(), "the session stays usable");
    }
    assert_eq!(server.say(&[&echo("1"), "[\"pull\",6]"]), ["[\"resolve\",6,1]"]);
}

#[test]
fn map_within_its_budget_is_answered() {
    let mut server = server_with_limits(|options| options.limits.map_bytes = 1_000_000);
    let elements = vec!["1"; 50].join(",");
    let said = server.say(&[
        &format!("[\"push\",[[{elements}]]]"),
        &format!("[\"push\",[\"remap\",1,[],[],[\"{}\"]]]", "x".repeat(10_000)),
        "[\"pull\",2]",
    ]);
    assert_eq!(said[0].matches('x').count(), 500_000);
}

#[test]
fn substituted_bytes_have_a_limit() {
    let mut server = server_with_limits(|options| options.limits.substituted_bytes = 10_000);
    let text = "x".repeat(4_000);
    server.say(&[&format!("[\"push\",\"{text}\"]")]);
    let said = server.say(&[&echo("[[[\"pipeline\",1],[\"pipeline\",1]]]"), "[\"pull\",2]"]);
    assert_eq!(said[0].matches('x').count(), 8_000);
    let three = "[[[\"pipeline\",1],[\"pipeline\",1],[\"pipeline\",1]]]";
    let said = server.say(&[&echo(three), "[\"pull\",3]"]);
    assert!(said[0].contains("\"limit\""), "{:.300}", said[0]);
    let said = server.say(&[&format!("[\"push\",{three}]"), "[\"pull\",4]"]);
    assert!(said[0].contains("\"limit\""), "{:.300}", said[0]);
}

#[test]
fn held_bytes_return_to_zero_when_everything_is_released() {
    let mut server = RawPeer::server(SessionOptions::default());
    let text = "x".repeat(10_000);
    let lines = [
        format!("[\"push\",\"{text}\"]"),
        echo(&format!("\"{text}\"")),
        "[\"push\",[\"pipeline\",0,[\"never\"],[]]]".to_owned(),
        format!("[\"push\",[\"pipeline\",3,[\"a\"],[\"{text}\"]]]"),
        "[\"pipe\"]".to_owned(),
        format!("[\"stream\",[\"pipeline\",5,[\"write\"],[\"{text}\"]]]"),
    ];
    for line in &lines {
        server.say(&[line]);
    }
    let held = server.runner.session().held_bytes();
    assert!((40_000..80_000).contains(&held), "{held} bytes are held");
    for id in [1, 2, 4, 5] {
        server.say(&[&format!("[\"release\",{id},1]")]);
    }
    let held = server.runner.session().held_bytes();
    assert!(
        held < 20_000,
        "{held} bytes are held: the call that waits for another, and little else"
    );
    server.runner.session().abort(&capnweb::error::RpcError::new("Error", "enough"));
    server.poll();
    assert_eq!(server.runner.session().held_bytes(), 0);
}

#[test]
fn untaken_answers_congest_then_close_the_session() {
    let mut server = server_with_limits(|options| {
        options.limits.pause_bytes = 10_000;
        options.limits.outgoing_bytes = 30_000;
    });
    let text = "x".repeat(4_000);
    server.runner.receive(&format!("[\"push\",\"{text}\"]"));
    server.runner.receive("[\"pull\",1]");
    assert!(!server.runner.session().is_congested());
    for id in 2..=4 {
        server.runner.receive(&echo("[\"pipeline\",1]"));
        server.runner.receive(&format!("[\"pull\",{id}]"));
    }
    assert!(server.runner.session().is_congested());
    // An owner that reads on regardless: large answers are refused, then the session ends.
    for id in 5..=1_000 {
        server.runner.receive(&echo("[\"pipeline\",1]"));
        server.runner.receive(&format!("[\"pull\",{id}]"));
        let waiting = server.runner.session().outgoing_bytes();
        assert!(waiting <= 31_000, "{waiting} bytes wait");
        if server.runner.close_reason().is_some() {
            break;
        }
    }
    assert_eq!(server.runner.close_reason().and_then(|error| error.code()), Some("slow"));
    let said = server.take_output();
    assert!(said.iter().any(|text| text.starts_with("[\"reject\",") && text.contains("\"limit\"")));
    assert!(said.last().is_some_and(|text| text.starts_with("[\"abort\",")), "{said:?}");
    assert_eq!(server.runner.session().outgoing_bytes(), 0);
}

#[test]
fn values_of_one_message_have_a_limit() {
    let mut server = server_with_limits(|options| options.limits.wire.values = 10);
    assert!(server.say(&["[\"push\",[[1,2,3,4,5]]]"]).is_empty());
    let said = server.say(&["[\"push\",[[1,2,3,4,5,6,7]]]"]);
    assert!(said[0].contains("too many values"), "{said:?}");
}

#[test]
fn long_path_through_a_reference_cycle_is_limited() {
    let mut server = RawPeer::server(SessionOptions::default());
    let fields: Vec<_> = (0..10_000).map(|field| format!("\"f{field}\":0")).collect();
    let fields = fields.join(",");
    server.say(&[
        "[\"push\",[\"promise\",-1]]",
        &format!("[\"resolve\",-1,{{{fields},\"a\":[\"pipeline\",1]}}]"),
    ]);
    let path = vec!["\"a\""; 100_000].join(",");
    let said = server.say(&[&format!("[\"push\",[\"pipeline\",1,[{path}]]]"), "[\"pull\",2]"]);
    assert!(said[0].contains("too many steps"), "{:.300}", said[0]);

    // In a map, every element looks for it.
    let elements = vec!["1"; 5_000].join(",");
    let said = server.say(&[
        &format!("[\"push\",[[{elements}]]]"),
        "[\"push\",[\"remap\",3,[],[[\"import\",1]],[[\"pipeline\",-1,[\"nosuch\"]]]]]",
        "[\"pull\",4]",
    ]);
    assert!(said.join("").contains("copies too many bytes"), "{:.300}", said.join(""));
}

#[test]
fn nested_promises_among_many_values_are_limited() {
    let mut server = RawPeer::server(SessionOptions::default());
    server.say(&["[\"push\",[[1]]]"]);
    for id in 1..=200 {
        server.say(&[&format!("[\"push\",[[[\"pipeline\",{id}]]]]")]);
    }
    let many = vec!["1"; 100_000].join(",");
    let call = echo(&format!("[[[\"pipeline\",201],[[{many}]]]]"));
    let said = server.say(&[&call, "[\"pull\",202]"]);
    assert!(said[0].contains("\"limit\""), "{:.300}", said[0]);
    assert!(server.runner.close_reason().is_none());
}
