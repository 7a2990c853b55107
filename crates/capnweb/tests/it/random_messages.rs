//! Sessions that are spoken to at random: nothing panics, nothing is left behind.

use capnweb::session::SessionOptions;

use crate::fixture::RawPeer;

struct MessageRng(u64);

impl MessageRng {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % limit.max(1) as u64).expect("less than a usize")
    }

    fn pick<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list[self.below(list.len())]
    }

    fn id(&mut self) -> String {
        let id = self.below(9);
        if self.below(100) == 0 { format!("-{}", id + 1) } else { id.to_string() }
    }

    fn expr(&mut self, depth: usize) -> String {
        if depth == 0 {
            return self.pick(&["1", "null", "\"x\"", "{}", "[[]]", "[\"undefined\"]"]).to_owned();
        }
        let inner = depth - 1;
        match self.below(12) {
            0 => format!("[[{},{}]]", self.expr(inner), self.expr(inner)),
            1 => format!("{{\"a\":{},\"name\":{}}}", self.expr(inner), self.expr(inner)),
            2 => format!("[\"export\",-{}]", self.below(6) + 1),
            3 => format!("[\"promise\",-{}]", self.below(200) + 7),
            4 if self.below(20) == 0 => format!("[\"readable\",{}]", self.below(9) + 1),
            5 => format!("[\"import\",{}]", self.id()),
            6 => format!("[\"pipeline\",{}]", self.id()),
            7 => format!("[\"pipeline\",{},[\"{}\"]]", self.id(), self.method()),
            8 => {
                let (id, path) = (self.id(), self.expr(inner));
                let steps = self.expr(inner);
                format!("[\"remap\",{id},[],[[\"import\",0]],[{path},{steps}]]")
            }
            _ => {
                let (id, method) = (self.id(), self.method());
                format!("[\"pipeline\",{id},[\"{method}\"],[{}]]", self.expr(inner))
            }
        }
    }

    fn method(&mut self) -> &'static str {
        self.pick(&[
            "echo",
            "user",
            "ids",
            "makeCounter",
            "increment",
            "value",
            "withCallback",
            "keep",
            "drop",
            "consume",
            "writeTo",
            "readable",
            "makeBlob",
            "echoBlob",
            "leak",
            "never",
            "twice",
            "a",
            "name",
            "write",
            "close",
            "abort",
            "callSquare",
            "incrementCounter",
            "notify",
        ])
    }

    fn message(&mut self) -> String {
        match self.below(12) {
            0 => format!("[\"pull\",{}]", self.id()),
            1 if self.below(10) == 0 => format!("[\"release\",{},1]", self.id()),
            2 => "[\"pipe\"]".to_owned(),
            3 => format!("[\"stream\",{}]", self.expr(2)),
            4 => format!("[\"resolve\",{},{}]", self.id(), self.expr(2)),
            5 => format!("[\"resolve\",-{},{}]", self.below(200) + 7, self.expr(1)),
            6 => format!("[\"reject\",{},{}]", self.id(), self.expr(1)),
            _ => format!("[\"push\",{}]", self.expr(3)),
        }
    }
}

/// A session in which the first ids mean something.
fn session_with_exports() -> RawPeer {
    let mut server = RawPeer::server(SessionOptions::default());
    let call = |method: &str| format!("[\"push\",[\"pipeline\",0,[\"{method}\"],[5]]]");
    for method in ["echo", "makeCounter", "twice", "never", "echo"] {
        server.say(&[&call(method)]);
    }
    server.say(&["[\"pipe\"]", "[\"pipe\"]", "[\"push\",[\"promise\",-7]]", "[\"push\",[[1,2]]]"]);
    server
}

#[test]
fn random_messages_break_only_their_session() {
    let mut random = MessageRng(0x0dd_ba11);
    let mut server = session_with_exports();
    let (mut sessions, mut longest, mut length) = (0, 0, 0);
    for _ in 0..100_000 {
        let message = random.message();
        server.say(&[&message]);
        length += 1;
        if server.runner.close_reason().is_some() {
            assert_eq!(server.runner.session().table_sizes(), (0, 0));
            server = session_with_exports();
            longest = longest.max(length);
            (sessions, length) = (sessions + 1, 0);
        }
    }
    assert!(sessions > 100 && longest > 50, "{sessions} sessions, the longest of {longest}");
}
