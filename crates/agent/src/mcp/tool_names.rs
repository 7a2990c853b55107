//! The names under which models call the tools of servers.

use std::collections::HashMap;

/// The longest name that every provider accepts.
const MAX_NAME_BYTES: usize = 64;
/// How many letters of a hash tell names apart.
const HASH_LETTERS: usize = 10;
/// Names of other tools and permissions: rules about them are not about a server's tools.
const RESERVED: [&str; 9] = [
    "apply_patch",
    "doom_loop",
    "external_directory",
    "list_mcp_resource_templates",
    "list_mcp_resources",
    "plan_enter",
    "plan_exit",
    "read_mcp_resource",
    "todo_write",
];

/// Returns the name of each tool, which is given by its server and its name there; `None` for one whose name
/// another tool would have as well.
///
/// A name that two tools would have belongs to neither of them: both get one with a hash, so that a rule about the
/// tool of one server never counts for another's.
pub(crate) fn assign_tool_names(tools: &[(&str, &str)]) -> Vec<Option<String>> {
    let plain: Vec<String> = tools.iter().map(|(server, tool)| plain_name(server, tool)).collect();
    let counts = count(&plain);
    let with_hash = |(name, (server, tool)): (&String, &(&str, &str))| {
        let is_usable = counts.get(name.as_str()) == Some(&1)
            && name.len() <= MAX_NAME_BYTES
            && !RESERVED.contains(&name.as_str());
        if is_usable { name.clone() } else { hashed_name(name, server, tool) }
    };
    let names: Vec<String> = plain.iter().zip(tools).map(with_hash).collect();
    let counts = count(&names);
    let is_unique = |name: &String| counts.get(name.as_str()) == Some(&1);
    names.iter().map(|name| is_unique(name).then(|| name.clone())).collect()
}

fn count(names: &[String]) -> HashMap<&str, usize> {
    let mut counts = HashMap::new();
    for name in names {
        *counts.entry(name.as_str()).or_default() += 1;
    }
    counts
}

/// Returns `server_tool` with the characters that names may have.
pub(crate) fn plain_name(server: &str, tool: &str) -> String {
    let is_kept = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
    let clean = |text: &str| -> String {
        text.chars().map(|letter| if is_kept(letter) { letter } else { '_' }).collect()
    };
    format!("{}_{}", clean(server), clean(tool))
}

/// Returns a name that ends with a hash of what it stands for.
fn hashed_name(name: &str, server: &str, tool: &str) -> String {
    let hash = blake3::hash(format!("{server}\0{tool}").as_bytes()).to_hex();
    let hash = hash.get(..HASH_LETTERS).unwrap_or_default();
    // All characters are of one byte.
    let kept = name.len().min(MAX_NAME_BYTES - HASH_LETTERS - 1);
    format!("{}_{hash}", name.get(..kept).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(tools: &[(&str, &str)]) -> Vec<String> {
        assign_tool_names(tools).into_iter().map(|name| name.expect("a name")).collect()
    }

    #[test]
    fn names_have_only_letters_that_providers_accept() {
        assert_eq!(
            names(&[("my server", "say.hi!"), ("db", "query")]),
            ["my_server_say_hi_", "db_query"]
        );
        let long = "x".repeat(100);
        let found = names(&[("s", &long), ("s", &format!("{long}y")), ("ä", "ö")]);
        assert!(found.iter().all(|name| name.len() <= 64), "{found:?}");
        assert_ne!(found[0], found[1]);
        assert_eq!(found[2], "___");
    }

    #[test]
    fn name_of_two_tools_belongs_to_neither_and_does_not_depend_on_the_order() {
        let (one, other) = (("my", "server_say"), ("my_server", "say"));
        let [first, second] = [names(&[one, other]), names(&[other, one])];
        assert_ne!(first[0], first[1]);
        assert_eq!((&first[0], &first[1]), (&second[1], &second[0]));
        assert!(first.iter().all(|name| name.starts_with("my_server_say_")), "{first:?}");
        assert_eq!(names(&[one]), ["my_server_say"]);
    }

    #[test]
    fn names_of_other_tools_and_permissions_are_not_taken() {
        let found = names(&[("apply", "patch"), ("doom", "loop"), ("list", "mcp_resources")]);
        assert!(found.iter().all(|name| !RESERVED.contains(&name.as_str())), "{found:?}");
    }
}
