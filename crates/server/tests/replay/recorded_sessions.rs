//! What the model said in a recording, read off the answers of the server it talked to.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::recording::RecordedPair;

/// The messages and the sessions of a recording.
#[derive(Debug, Default)]
pub(crate) struct RecordedSessions {
    messages: BTreeMap<String, Value>,
    sessions: BTreeMap<String, Value>,
    /// The newest prompt of each session that the second interface told of.
    prompts: BTreeMap<String, Value>,
}

fn created(message: &Value) -> i64 {
    message["info"]["time"]["created"].as_i64().unwrap_or_default()
}

/// True if nothing is added to it any more.
fn is_over(message: &Value) -> bool {
    let info = &message["info"];
    info["role"] == "user" || info["time"]["completed"].is_number()
}

impl RecordedSessions {
    pub(crate) fn of(pairs: &[RecordedPair]) -> Self {
        let mut model = Self::default();
        let mut answered: Vec<&RecordedPair> = pairs.iter().collect();
        answered.sort_by_key(|pair| pair.seq);
        answered.iter().for_each(|pair| model.learn_value(&pair.answer));
        model
    }

    fn learn_value(&mut self, value: &Value) {
        if let (Some(id), true) = (value["info"]["id"].as_str(), value["parts"].is_array()) {
            // The first that is whole: later ones may have been edited.
            let known = self.messages.get(id);
            if known.is_none_or(|known| !is_over(known)) {
                self.messages.insert(id.to_owned(), value.clone());
            }
        }
        if let (Some(id), true) = (value["id"].as_str(), value["slug"].is_string()) {
            self.sessions.insert(id.to_owned(), value.clone());
        }
        if let (Some(session), true) =
            (value["sessionID"].as_str(), value["admittedSeq"].is_number())
        {
            self.prompts.insert(session.to_owned(), value["id"].clone());
        }
        if let Some(kind) = value["type"].as_str().and_then(|it| it.strip_prefix("session.next.")) {
            self.learn_event(kind, &value["data"]);
        }
        match value {
            Value::Array(list) => list.iter().for_each(|value| self.learn_value(value)),
            Value::Object(map) => map.values().for_each(|value| self.learn_value(value)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    /// Puts together what the second interface tells step by step.
    fn learn_event(&mut self, kind: &str, data: &Value) {
        let text = |key: &str| data[key].as_str().unwrap_or_default().to_owned();
        let (session, time) = (text("sessionID"), &data["timestamp"]);
        let id = text("assistantMessageID");
        if kind == "step.started" && !self.messages.contains_key(&id) {
            let (model, prompt) = (&data["model"], self.prompts.get(&session));
            let info = json!({ "id": id, "sessionID": session, "role": "assistant", "parentID": prompt,
                "providerID": model["providerID"], "modelID": model["id"], "agent": data["agent"],
                "time": { "created": time } });
            self.messages.insert(id, json!({ "info": info, "parts": [] }));
            return;
        }
        let Some(message) = self.messages.get_mut(&id).filter(|it| !is_over(it)) else { return };
        let part = match kind {
            "text.ended" => json!({ "type": "text", "text": data["text"],
                "time": { "start": time, "end": time } }),
            "step.ended" => {
                message["info"]["time"]["completed"] = time.clone();
                json!({ "type": "step-finish", "reason": data["finish"], "cost": data["cost"],
                    "tokens": data["tokens"] })
            }
            _ => return,
        };
        message["parts"].as_array_mut().expect("parts").push(part);
    }

    fn session_messages<'a>(&'a self, session: &'a str) -> impl Iterator<Item = &'a Value> {
        self.messages.values().filter(move |it| it["info"]["sessionID"] == session)
    }

    /// What was answered to a prompt, oldest first.
    pub(crate) fn answers(&self, pair: &RecordedPair) -> Vec<Value> {
        let Some(session) = pair.session() else { return Vec::new() };
        let given = pair.body.as_ref().and_then(|body| body["messageID"].as_str());
        let given = given.or_else(|| pair.answer["data"]["id"].as_str());
        let next = self.session_messages(session).filter(|it| created(it) + 5 >= pair.asked);
        let next = next.min_by_key(|it| created(it)).map(|it| {
            let info = &it["info"];
            let prompt = if info["role"] == "user" { &info["id"] } else { &info["parentID"] };
            prompt.as_str().expect("an id").to_owned()
        });
        let Some(prompt) = given.map(str::to_owned).or(next) else { return Vec::new() };
        let mut answers: Vec<Value> = self
            .session_messages(session)
            .filter(|it| it["info"]["parentID"] == prompt.as_str())
            .cloned()
            .collect();
        answers.sort_by_key(created);
        answers
    }

    /// The title the model gave to a session.
    pub(crate) fn title(&self, session: &str) -> Option<&str> {
        let title = self.sessions.get(session)?["title"].as_str()?;
        title.starts_with("Generated title").then_some(title)
    }

    /// The sessions that were made below another one soon after a moment.
    pub(crate) fn children(&self, parent: &str, after: i64) -> Vec<String> {
        let is_one = |it: &&Value| {
            let made = it["time"]["created"].as_i64().unwrap_or_default();
            it["parentID"] == parent && (after..after + 1000).contains(&made)
        };
        let ids = self.sessions.values().filter(is_one).map(|it| it["id"].as_str());
        ids.map(|id| id.expect("an id").to_owned()).collect()
    }

    /// What a session was first asked, and what was answered to it.
    pub(crate) fn first<'a>(&'a self, session: &'a str) -> Option<(&'a Value, Vec<Value>)> {
        let asked = self.session_messages(session).filter(|it| it["info"]["role"] == "user");
        let asked = asked.min_by_key(|it| created(it))?;
        let is_answer = |it: &&Value| it["info"]["parentID"] == asked["info"]["id"];
        let mut answers: Vec<Value> =
            self.session_messages(session).filter(is_answer).cloned().collect();
        answers.sort_by_key(created);
        Some((asked, answers))
    }

    /// A session as it was last seen.
    pub(crate) fn session(&self, id: &str) -> Option<&Value> {
        self.sessions.get(id)
    }
}
