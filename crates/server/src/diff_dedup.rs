//! The last published diff of each session, so that only a different one is published.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, PoisonError};

use turnstone_core::id::SessionId;

/// Sessions that are remembered; of more, all are forgotten and told once more.
const MAX_SESSIONS: usize = 4096;

/// The last difference of each session, by its fingerprint.
#[derive(Default)]
pub(crate) struct DiffDedup {
    last: Mutex<BTreeMap<SessionId, u64>>,
}

impl DiffDedup {
    /// Publishes what `read` returns, unless it was published last; for a new session, unless it is empty.
    ///
    /// One after another, so that the last published diff is the newest.
    pub(crate) fn publish_if_changed<T>(
        &self,
        session: &SessionId,
        read: impl FnOnce() -> Option<(String, T)>,
        publish: impl FnOnce(T),
    ) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((text, found)) = read() else { return };
        let (print, nothing) = (fingerprint(&text), fingerprint("[]"));
        if last.get(session).copied().unwrap_or(nothing) == print {
            return;
        }
        if last.len() >= MAX_SESSIONS {
            last.clear();
        }
        last.insert(session.clone(), print);
        publish(found);
    }
}

fn fingerprint(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn diff_is_published_only_when_changed() {
        let diffs = DiffDedup::default();
        let id: SessionId = "ses_a".parse().expect("an id");
        let mut published = Vec::new();
        for text in ["[]", "[1]", "[1]", "[]", "[2]"] {
            diffs.publish_if_changed(
                &id,
                || Some((text.to_owned(), text)),
                |text| published.push(text),
            );
        }
        diffs.publish_if_changed(&id, || None::<(String, &str)>, |text| published.push(text));
        assert_eq!(published, ["[1]", "[]", "[2]"]);
    }
}
