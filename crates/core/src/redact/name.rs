//! Names of fields, flags, variables and headers that hold secrets.

/// A name that contains one of these is the name of a secret.
const PARTS: [&str; 17] = [
    "apikey",
    "accesskey",
    "privatekey",
    "token",
    "secret",
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "authorization",
    "authheader",
    "credential",
    "signature",
    "cookie",
    "bearer",
    "connectionstring",
    "webhook",
];

/// A name whose last word is one of these is the name of a secret.
const LAST_WORDS: [&str; 12] =
    ["key", "keys", "auth", "pass", "pwd", "pat", "jwt", "sig", "pw", "psk", "otp", "dsn"];

/// Names that end with `key` and hold no secret.
const PUBLIC_KEYS: [&str; 14] = [
    "publickey",
    "primarykey",
    "foreignkey",
    "sortkey",
    "partitionkey",
    "cachekey",
    "leaderkey",
    "shortcutkey",
    "hotkey",
    "monkey",
    "turkey",
    "hockey",
    "jockey",
    "whiskey",
];

/// Parts of names that count tokens of a model.
const COUNTS: [&str; 8] = [
    "maxtoken",
    "mintoken",
    "tokenlimit",
    "tokencount",
    "tokenbudget",
    "tokenizer",
    "tokenusage",
    "tokensper",
];

/// Words before `tokens` that make it a list of secrets instead of a count.
const SECRET_TOKENS: [&str; 6] =
    ["accesstokens", "authtokens", "apitokens", "refreshtokens", "bearertokens", "secrettokens"];

/// True if a field, flag, variable or header of this name holds a secret.
pub(super) fn is_secret_name(name: &str) -> bool {
    let plain: String =
        name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
    if PUBLIC_KEYS.iter().any(|known| plain.ends_with(known)) {
        return false;
    }
    if plain.ends_with("key") || LAST_WORDS.contains(&last_word(name).as_str()) {
        return true;
    }
    if plain.ends_with("tokens") {
        return SECRET_TOKENS.iter().any(|known| plain.ends_with(known));
    }
    !COUNTS.iter().any(|part| plain.contains(part)) && PARTS.iter().any(|part| plain.contains(part))
}

/// The last word of `snake_case`, `kebab-case`, `dotted.case` or `camelCase`, in small letters.
fn last_word(name: &str) -> String {
    let tail = name.rsplit(|c: char| !c.is_ascii_alphanumeric()).find(|word| !word.is_empty());
    let tail = tail.unwrap_or_default();
    // `dbPass` has the word `Pass`; `PASS` is one word.
    let has_small = tail.contains(|c: char| c.is_ascii_lowercase());
    let start = tail.rfind(|c: char| c.is_ascii_uppercase()).filter(|_| has_small).unwrap_or(0);
    tail[start..].to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::is_secret_name;

    #[test]
    fn names_of_secrets_are_recognised() {
        for name in [
            "apiKey",
            "api_key",
            "API-KEY",
            "x-api-key",
            "key",
            "x-key",
            "clientSecret",
            "authToken",
            "subscriptionKey",
            "Ocp-Apim-Subscription-Key",
            "license_key",
            "licenceKey",
            "licencekey",
            "user_key",
            "licenseKeys",
            "DB_PASS",
            "dbPass",
            "smtp_pwd",
            "authTokens",
            "auth",
            "proxyAuth",
            "SENTRY_DSN",
            "webhookUrl",
        ] {
            assert!(is_secret_name(name), "{name}");
        }
    }

    #[test]
    fn other_names_are_not() {
        for name in [
            "maxTokens",
            "max_tokens",
            "maxTokenCount",
            "tokenLimit",
            "keybinds",
            "model",
            "keyboard",
            "author",
            "pattern",
            "publicKey",
            "promptCacheKey",
            "leader_key",
            "license",
            "compass",
            "bypass",
            "path",
            "bash",
            "",
        ] {
            assert!(!is_secret_name(name), "{name}");
        }
    }
}
