//! Default names of a session: slug and title.

use crate::time::EpochMillis;

const NEW_SESSION_PREFIX: &str = "New session - ";
const CHILD_SESSION_PREFIX: &str = "Child session - ";

const ADJECTIVES: [&str; 29] = [
    "amber", "ashen", "brisk", "broad", "coastal", "coral", "dappled", "distant", "early", "fleet",
    "gentle", "grey", "hardy", "hidden", "keen", "lone", "low", "mottled", "nimble", "northern",
    "pale", "patient", "restless", "ruddy", "salty", "steady", "tidal", "wary", "windy",
];

const NOUNS: [&str; 31] = [
    "beach", "breaker", "cliff", "cobble", "cove", "current", "drift", "dune", "estuary",
    "feather", "flock", "gull", "harbour", "island", "kelp", "lagoon", "limpet", "mussel",
    "pebble", "plover", "reef", "rockpool", "sandbar", "shingle", "shore", "skerry", "spray",
    "strand", "tern", "tide", "wader",
];

/// Two random words for file names, such as `keen-plover`; nothing makes them unique.
#[must_use]
pub fn random_slug(random: [u8; 2]) -> String {
    let [first, second] = random.map(usize::from);
    let adjective = ADJECTIVES[first % ADJECTIVES.len()];
    let noun = NOUNS[second % NOUNS.len()];
    format!("{adjective}-{noun}")
}

/// The default title of a session: its time, and whether it is a child session.
#[must_use]
pub fn default_title(now: EpochMillis, child: bool) -> String {
    format!("{}{}", if child { CHILD_SESSION_PREFIX } else { NEW_SESSION_PREFIX }, now.iso8601())
}

/// True for exactly the titles [`default_title`] makes; only these are replaced by generated ones.
#[must_use]
pub fn is_default_title(title: &str) -> bool {
    const MOMENT: &str = "dddd-dd-ddTdd:dd:dd.dddZ";
    let moment =
        title.strip_prefix(NEW_SESSION_PREFIX).or_else(|| title.strip_prefix(CHILD_SESSION_PREFIX));
    moment.is_some_and(|moment| {
        moment.len() == MOMENT.len()
            && moment.bytes().zip(MOMENT.bytes()).all(|(found, wanted)| match wanted {
                b'd' => found.is_ascii_digit(),
                literal => found == literal,
            })
    })
}

/// The title of a fork: ` (fork #1)` is appended, or the number it ends in grows by one.
///
/// Counted by the title alone, so two forks of one session both get #1, as in OpenCode.
#[must_use]
pub fn fork_title(title: &str) -> String {
    let numbered = || {
        let (base, number) = title.strip_suffix(')')?.rsplit_once(" (fork #")?;
        let digits = !base.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
        let next = number.parse::<u64>().ok().filter(|_| digits)?.checked_add(1)?;
        Some(format!("{base} (fork #{next})"))
    };
    numbered().unwrap_or_else(|| format!("{title} (fork #1)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_titles_are_recognised() {
        let now = EpochMillis(1_786_706_395_136);
        assert_eq!(default_title(now, false), "New session - 2026-08-14T11:19:55.136Z");
        assert_eq!(default_title(now, true), "Child session - 2026-08-14T11:19:55.136Z");
        assert!(is_default_title(&default_title(now, false)));
        assert!(is_default_title(&default_title(now, true)));
    }

    #[test]
    fn other_titles_are_not_default() {
        for title in [
            "",
            "New session",
            "New session - ",
            "New session - today",
            "new session - 2026-08-14T11:19:55.136Z",
            "New session - 2026-08-14T11:19:55.136Z ",
            "New session - 2026-08-14T11:19:55Z",
            "My New session - 2026-08-14T11:19:55.136Z",
            "New session - 2026-08-14T11:19:55.136Z (fork #1)",
        ] {
            assert!(!is_default_title(title), "{title}");
        }
    }

    #[test]
    fn fork_titles_count_up() {
        for (title, expected) in [
            ("Fix the tide", "Fix the tide (fork #1)"),
            ("Fix the tide (fork #1)", "Fix the tide (fork #2)"),
            ("Fix the tide (fork #9)", "Fix the tide (fork #10)"),
            ("a (fork #1) (fork #2)", "a (fork #1) (fork #3)"),
            ("a (fork #x)", "a (fork #x) (fork #1)"),
            ("a (fork #+1)", "a (fork #+1) (fork #1)"),
            ("a (fork #1) b", "a (fork #1) b (fork #1)"),
            ("", " (fork #1)"),
        ] {
            assert_eq!(fork_title(title), expected);
        }
        let huge = format!("a (fork #{})", u64::MAX);
        assert_eq!(fork_title(&huge), format!("{huge} (fork #1)"));
    }

    #[test]
    fn slug_is_one_of_29_by_31_words() {
        let unique = |words: &[&str]| {
            let set: std::collections::HashSet<_> = words.iter().collect();
            assert!(words.iter().all(|word| word.bytes().all(|b| b.is_ascii_lowercase())));
            set.len()
        };
        assert_eq!((unique(&ADJECTIVES), unique(&NOUNS)), (29, 31));
        assert_eq!(random_slug([0, 0]), "amber-beach");
        assert_eq!(random_slug([28, 30]), "windy-wader");
        assert_eq!(random_slug([255, 255]), random_slug([255 % 29, 255 % 31]));
    }
}
