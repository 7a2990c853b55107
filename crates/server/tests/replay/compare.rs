//! Two answers, compared: everywhere but in what each server makes up for itself.

use serde_json::{Map, Number, Value};

use crate::id_mapping::{self, IdMapping};

/// Something that is not as it was recorded.
#[derive(Clone, Debug)]
pub(crate) struct Difference {
    pub(crate) label: String,
    /// `status`, `header/NAME`, or the place in the body, `body/…`.
    pub(crate) at: String,
    pub(crate) recorded: String,
    pub(crate) ours: String,
}

/// A comparison of one answer.
pub(crate) struct Comparison<'a> {
    pub(crate) label: &'a str,
    pub(crate) names: &'a mut IdMapping,
    pub(crate) found: Vec<Difference>,
}

fn short(value: &Value) -> String {
    value.to_string().chars().take(160).collect()
}

/// A text in which moments are not distinguished.
fn without_timestamps(text: &str) -> String {
    let bytes = text.as_bytes();
    let is_moment = |at: usize| {
        bytes.get(at..at + 24).is_some_and(|word| {
            word[10] == b'T' && word[23] == b'Z' && word[4] == b'-' && word[13] == b':'
        })
    };
    match (0..bytes.len()).find(|at| is_moment(*at)) {
        Some(at) => format!("{}(moment){}", &text[..at], without_timestamps(&text[at + 24..])),
        None => text.to_owned(),
    }
}

fn is_hash(text: &str) -> bool {
    text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The id of an element of a list: its own or that of the message it is.
fn id_of(value: &Value) -> Option<&str> {
    value["id"].as_str().or_else(|| value["info"]["id"].as_str())
}

impl Comparison<'_> {
    pub(crate) fn differs(&mut self, at: &str, recorded: &str, ours: &str) {
        self.found.push(Difference {
            label: self.label.to_owned(),
            at: at.to_owned(),
            recorded: recorded.to_owned(),
            ours: ours.to_owned(),
        });
    }

    pub(crate) fn value(&mut self, at: &str, recorded: &Value, ours: &Value) {
        match (recorded, ours) {
            (Value::Object(recorded), Value::Object(ours)) => self.object(at, recorded, ours),
            (Value::Array(recorded), Value::Array(ours)) => self.list(at, recorded, ours),
            (Value::String(a), Value::String(b)) if self.text(at, a, b) => {}
            (Value::Number(a), Value::Number(b)) if self.number(a, b) => {}
            _ if recorded == ours => {}
            _ => self.differs(at, &short(recorded), &short(ours)),
        }
    }

    fn object(&mut self, at: &str, recorded: &Map<String, Value>, ours: &Map<String, Value>) {
        let mut seen = Vec::new();
        for (key, value) in recorded {
            let here = self.names.find(key).unwrap_or(key).to_owned();
            let at = format!("{at}/{key}");
            match ours.get(&here) {
                Some(ours) => self.value(&at, value, ours),
                None => self.differs(&at, &short(value), "(none)"),
            }
            seen.push(here);
        }
        for (key, value) in ours.iter().filter(|(key, _)| !seen.contains(key)) {
            self.differs(&format!("{at}/{key}"), "(none)", &short(value));
        }
    }

    /// What happened, in order: each event with the next of its type.
    fn compare_events(&mut self, at: &str, recorded: &[Value], ours: &[Value]) {
        let mut from = 0;
        for one in recorded {
            let kind = one["type"].as_str().unwrap_or_default();
            let next = ours[from..].iter().position(|it| it["type"] == one["type"]);
            let Some(next) = next else {
                self.differs(&format!("{at}/{kind}"), &short(one), "(none)");
                continue;
            };
            ours[from..from + next].iter().for_each(|extra| self.extra(at, extra));
            self.value(&format!("{at}/{kind}"), one, &ours[from + next]);
            from += next + 1;
        }
        ours[from..].iter().for_each(|extra| self.extra(at, extra));
    }

    fn extra(&mut self, at: &str, event: &Value) {
        let kind = event["type"].as_str().unwrap_or_default();
        self.differs(&format!("{at}/+{kind}"), "(none)", &short(event));
    }

    /// Things that are known are compared with themselves, and their order; what is left one by one.
    fn list(&mut self, at: &str, recorded: &[Value], ours: &[Value]) {
        if recorded.iter().any(|it| it["durable"].is_object()) {
            return self.compare_events(at, recorded, ours);
        }
        let (mut places, mut unknown) = (Vec::new(), Vec::new());
        for recorded in recorded {
            let id = id_of(recorded).unwrap_or_default();
            let Some(name) = self.names.find(id).map(str::to_owned) else {
                unknown.push(recorded.clone());
                continue;
            };
            match ours.iter().position(|it| id_of(it) == Some(&name)) {
                Some(place) => {
                    places.push(place);
                    self.value(&format!("{at}/{id}"), recorded, &ours[place]);
                }
                None => self.differs(&format!("{at}/-"), &short(recorded), "(none)"),
            }
        }
        if !places.is_sorted() {
            self.differs(&format!("{at}/order"), "(as recorded)", &format!("{places:?}"));
        }
        let is_left = |(place, _): &(usize, &Value)| !places.contains(place);
        let left: Vec<Value> =
            ours.iter().enumerate().filter(is_left).map(|it| it.1.clone()).collect();
        self.row(at, &unknown, &left);
    }

    fn row(&mut self, at: &str, recorded: &[Value], ours: &[Value]) {
        for (nth, (recorded, ours)) in recorded.iter().zip(ours).enumerate() {
            self.value(&format!("{at}/{nth}"), recorded, ours);
        }
        let common = recorded.len().min(ours.len());
        for missing in &recorded[common..] {
            self.differs(&format!("{at}/-"), &short(missing), "(none)");
        }
        for extra in &ours[common..] {
            self.differs(&format!("{at}/+"), "(none)", &short(extra));
        }
    }

    fn text(&mut self, at: &str, recorded: &str, ours: &str) -> bool {
        let is_named = id_mapping::kind(recorded).is_some()
            && id_mapping::kind(recorded) == id_mapping::kind(ours);
        if is_named || (IdMapping::is_worktree(recorded) && ours.starts_with('/')) {
            return self.names.learn(recorded, ours);
        }
        let key = at.rsplit('/').next().unwrap_or_default();
        if is_hash(recorded) && is_hash(ours) {
            // A project is named by a commit.
            let is_name = key == "id" || key == "projectID";
            return !is_name || self.names.learn(recorded, ours);
        }
        match key {
            "slug" => !ours.is_empty(),
            // Cursors are opaque.
            "previous" | "next" => self.names.learn(recorded, ours),
            // A call of the server itself; those of a model are as the model named them.
            "callID" if recorded.len() == 26 => !ours.is_empty(),
            _ => without_timestamps(&self.names.translate(recorded)) == without_timestamps(ours),
        }
    }

    fn number(&mut self, recorded: &Number, ours: &Number) -> bool {
        let is_moment = |number: &Number| {
            number.as_i64().filter(|it| (1_700_000_000_000..2_000_000_000_000).contains(it))
        };
        if let (Some(recorded), Some(ours)) = (is_moment(recorded), is_moment(ours)) {
            self.names.map_time(recorded, ours);
            return true;
        }
        let (Some(recorded), Some(ours)) = (recorded.as_f64(), ours.as_f64()) else {
            return false;
        };
        (recorded - ours).abs() < 1e-9
    }
}
