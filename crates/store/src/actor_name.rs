//! Who acts, and by which program, under one number.
//!
//! Events name an actor by its number. The name behind it is that of a user, or that of a user and a
//! program with a line break between them, which neither of them can have.

use turnstone_core::call_context::Actor;

/// Characters of a program's name that are kept.
const MAX_CLIENT_CHARS: usize = 256;

/// The name of a user who acts by a program.
pub(crate) fn join_actor_client(actor: &Actor, client: &str) -> String {
    let mut name = actor.as_str().to_owned();
    let client: String = client.trim().chars().take(MAX_CLIENT_CHARS).collect();
    if !client.is_empty() {
        name.push('\n');
        name.extend(client.chars().map(|c| if c.is_control() { ' ' } else { c }));
    }
    name
}

/// The user, and the program if it was said.
pub(crate) fn split_actor_client(mut name: String) -> (String, Option<String>) {
    let client = name.find('\n').map(|at| name.split_off(at).split_off(1));
    (name, client)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actor_and_client_names_round_trip() {
        let ada = Actor::new("ada").expect("a name");
        for (client, kept) in
            [("cli", Some("cli")), (" a\nb\t", Some("a b")), ("", None), (" ", None)]
        {
            let found = split_actor_client(join_actor_client(&ada, client));
            assert_eq!(found, ("ada".to_owned(), kept.map(str::to_owned)), "{client:?}");
        }
        assert_eq!(split_actor_client("ada".to_owned()), ("ada".to_owned(), None));
        assert_eq!(
            join_actor_client(&ada, &"x".repeat(1000)).len(),
            "ada\n".len() + MAX_CLIENT_CHARS
        );
    }
}
