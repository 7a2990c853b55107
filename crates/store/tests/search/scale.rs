//! A hundred thousand parts: how quickly they are indexed and searched.

use serde_json::{Value, json};
use turnstone_core::model::{Part, PartBody};
use turnstone_core::time::Millis;
use turnstone_store::{SearchFilter, SearchKind, SearchPage, SearchQuery};

use crate::case::{Case, sid, tool};

/// Words as people use them: few often, many seldom.
struct Prose {
    state: u64,
    words: Vec<String>,
}

impl Prose {
    fn new() -> Self {
        let letters = b"etaoinshrdlucmfwypvbgkqjxz";
        let mut prose = Self {
            state: 7,
            words: Vec::new(),
        };
        for _ in 0..30_000 {
            let len = 2 + prose.random(9);
            let word =
                (0..len).map(|_| char::from(letters[prose.random(26) * prose.random(26) / 26]));
            let word = word.collect();
            prose.words.push(word);
        }
        prose
    }

    fn random(&mut self, below: usize) -> usize {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        (self.state % below as u64) as usize
    }

    fn text(&mut self, words: usize) -> String {
        let mut text = String::new();
        for _ in 0..words {
            let share = self.random(1_000_000) as f64 / 1_000_000.0;
            let at = (self.words.len() as f64).powf(share) as usize - 1;
            text.push_str(&self.words[at.min(29_999)]);
            text.push(if self.random(12) == 0 { '\n' } else { ' ' });
        }
        text
    }

    fn part(&mut self, n: usize) -> Value {
        match n % 10 {
            0..=3 => json!({"type": "text", "text": self.text(60)}),
            4 => {
                json!({"type": "reasoning", "text": self.text(120), "time": {"start": 1, "end": 2}})
            }
            5 => json!({"type": "patch", "hash": "h", "files": [format!("/w/src/file{n}.rs")]}),
            _ => tool(
                "completed",
                &json!({"command": self.text(8)}),
                &self.text(300),
            ),
        }
    }
}

/// Writes 100 sessions of 1000 parts; returns the bytes of their text.
fn fill(case: &Case, prose: &mut Prose) -> usize {
    let mut bytes = 0;
    for session in 0..100 {
        case.session(&format!("ses_{session}"), &json!({"title": prose.text(6)}));
        let message = format!("msg_{session}");
        case.message(&case.ctx, &format!("ses_{session}"), &message, session);
        for group in 0..20 {
            let mut part = |n: usize| {
                let body = prose.part(n);
                bytes += body.to_string().len() - 60;
                Part {
                    id: format!("prt_{session}_{group}_{n}").parse().expect("id"),
                    session: sid(&format!("ses_{session}")),
                    message: message.parse().expect("id"),
                    body: PartBody::lenient(body).expect("a part"),
                }
            };
            let parts: Vec<Part> = (0..50).map(&mut part).collect();
            let run = move |tx: &turnstone_store::Tx<'_>| {
                parts
                    .iter()
                    .try_for_each(|part| tx.put_part(part).map(drop))
            };
            case.store.write(&case.ctx, run).wait().expect("written");
        }
    }
    bytes
}

/// Queries of every kind, with names.
fn queries(prose: &Prose) -> Vec<(&'static str, String, SearchFilter)> {
    let all = SearchFilter::default;
    let [common, second, mid, rare] = [0, 1, 2_000, 29_000].map(|n| prose.words[n].clone());
    let session = SearchFilter {
        session: Some(sid("ses_50")),
        ..all()
    };
    let tools = SearchFilter {
        kinds: vec![SearchKind::Tool],
        ..all()
    };
    let late = SearchFilter {
        after: Some(Millis(99)),
        ..all()
    };
    let early = SearchFilter {
        before: Some(Millis(1)),
        ..all()
    };
    vec![
        ("rare", rare.clone(), all()),
        ("mid", mid.clone(), all()),
        ("two seldom", format!("{mid} {}", prose.words[900]), all()),
        ("common", common.clone(), all()),
        ("two common", format!("{common} {second}"), all()),
        ("common phrase", format!("\"{common} {second}\""), all()),
        ("common in a session", common.clone(), session),
        ("common in tools", common.clone(), tools),
        ("common, late", common.clone(), late),
        ("common, early", common, early),
        ("prefix of 2", format!("{}*", &rare[..2]), all()),
        ("prefix of 4", "tion*".to_owned(), all()),
        ("path", "src/file45.rs".to_owned(), all()),
    ]
}

/// Run it with `--release -- --ignored --nocapture` for figures.
#[test]
#[ignore = "takes a minute"]
#[expect(clippy::disallowed_methods, reason = "it measures time")]
fn a_hundred_thousand_parts_are_searched_in_milliseconds() {
    let case = Case::new();
    let mut prose = Prose::new();
    let bytes = fill(&case, &mut prose);
    let stats = case.store.stats().expect("stats");
    let (start, before) = (std::time::Instant::now(), stats.commits());
    case.store
        .index_some(&case.ctx, usize::MAX)
        .expect("indexed");
    let (took, commits) = (start.elapsed(), stats.commits() - before);
    let size = case.store.search_size(&case.ctx).expect("size");
    let speed = size.documents as f64 / took.as_secs_f64();
    let share = size.bytes as f64 / bytes as f64;
    println!(
        "{} documents in {took:?}, {speed:.0}/s, {commits} commits",
        size.documents
    );
    println!(
        "text {bytes}, index {} ({share:.2}), most rows {}",
        size.bytes,
        stats.most_rows()
    );
    for (name, text, filter) in queries(&prose) {
        let query = SearchQuery {
            filter,
            ..SearchQuery::new(text)
        };
        let mut best = std::time::Duration::MAX;
        let mut page = SearchPage::default();
        for _ in 0..5 {
            let start = std::time::Instant::now();
            page = case.search(&query);
            best = best.min(start.elapsed());
        }
        println!(
            "{name:20} {best:>10.1?}  {} hits, capped {}",
            page.hits.len(),
            page.capped
        );
    }
    assert!(stats.most_rows() <= 500, "{}", stats.most_rows());
}
