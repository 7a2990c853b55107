//! A recording: what was asked, when, and what was answered.

use serde_json::Value;

/// One request and its answer.
#[derive(Clone, Debug)]
pub(crate) struct RecordedPair {
    /// The place of its answer among the answers.
    pub(crate) seq: u64,
    pub(crate) label: String,
    /// When it was asked, in milliseconds.
    pub(crate) asked: i64,
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    /// A text is sent as it is.
    pub(crate) body: Option<Value>,
    pub(crate) status: u16,
    /// Headers of the answer that mean something.
    pub(crate) reported: Vec<(String, String)>,
    pub(crate) answer: Value,
}

fn headers(value: &Value) -> Vec<(String, String)> {
    let pairs = value.as_object().into_iter().flatten();
    pairs.map(|(name, value)| (name.clone(), value.as_str().expect("text").to_owned())).collect()
}

impl RecordedPair {
    fn of(line: &str) -> Self {
        let pair: Value = serde_json::from_str(line).expect("a pair");
        let text = |key: &str| pair[key].as_str().expect("a text").to_owned();
        Self {
            seq: pair["seq"].as_u64().expect("a number"),
            label: text("label"),
            asked: pair["t"].as_i64().expect("a time"),
            method: text("method"),
            path: text("path"),
            headers: headers(&pair["headers"]),
            body: pair.get("body").cloned(),
            status: pair["status"]
                .as_u64()
                .and_then(|it| u16::try_from(it).ok())
                .expect("a status"),
            reported: headers(&pair["told"]),
            answer: pair["answer"].clone(),
        }
    }

    /// The bytes of the body.
    pub(crate) fn bytes(&self) -> Option<String> {
        let body = self.body.as_ref()?;
        Some(body.as_str().map_or_else(|| body.to_string(), str::to_owned))
    }

    /// True if the answer is a stream: the events of its frames are the answer here.
    pub(crate) fn is_stream(&self) -> bool {
        self.reported
            .iter()
            .any(|(name, value)| name == "content-type" && value == "text/event-stream")
    }

    /// The session the path names.
    pub(crate) fn session(&self) -> Option<&str> {
        let mut words = self.path.split(['/', '?']);
        words.find(|word| word.starts_with("ses_"))
    }
}

/// The pairs of a recording in the order in which they were asked.
pub(crate) fn pairs(text: &str) -> Vec<RecordedPair> {
    let mut pairs: Vec<RecordedPair> = text.lines().map(RecordedPair::of).collect();
    pairs.sort_by_key(|pair| pair.asked);
    pairs
}
