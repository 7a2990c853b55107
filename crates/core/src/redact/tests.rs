//! Tables of what is hidden and what survives.

use serde_json::json;

use super::{redact, redact_prose, redact_text};

/// Texts of settings, and how they are shown; `S` is always part of a secret.
const SETTINGS: [(&str, &str); 57] = [
    (
        "https://u:p@host/a?api_key=S&x=S#token=S",
        "https://[redacted]@host/a?api_key=[redacted]&x=[redacted]#token=[redacted]",
    ),
    ("https://host/mcp?token=S", "https://host/mcp?token=[redacted]"),
    ("https://host/?SSSSSSSSSSSSSSSS", "https://host/?[redacted]"),
    ("https://host/#access_token=S", "https://host/#access_token=[redacted]"),
    ("https://S@host/x", "https://[redacted]@host/x"),
    ("https://u:S/S@host/x", "https://[redacted]@host/x"),
    ("https://one,https://u:S@two/x", "https://one,https://[redacted]@two/x"),
    ("https://p/?u=https://u:S@two", "https://p/?u=https://[redacted]@two"),
    ("postgres://ada:S@db:5432/x?sslmode=S", "postgres://[redacted]@db:5432/x?sslmode=[redacted]"),
    ("ada:S@db:5432/x", "ada:[redacted]@db:5432/x"),
    (
        "https://hooks.slack.com/services/T0S/B0S/SSSSSSSS",
        "https://hooks.slack.com/services/[redacted]/[redacted]/[redacted]",
    ),
    (
        "https://discord.com/api/webhooks/123/SSSSSSSSSSSSSSSSSSSSSS",
        "https://discord.com/api/webhooks/[redacted]/[redacted]",
    ),
    ("https://api.telegram.org/bot1:S/send", "https://api.telegram.org/[redacted]/send"),
    ("https://x.example/key/S4S5S6S7/run", "https://x.example/key/[redacted]/run"),
    ("/mcp?access_token=S&page=2", "/mcp?access_token=[redacted]&page=2"),
    ("--api-key=S", "--api-key=[redacted]"),
    ("--licence-key=S", "--licence-key=[redacted]"),
    ("run --x-key S --port 80", "run --x-key [redacted] --port 80"),
    ("npx -y x --token S --port 80", "npx -y x --token [redacted] --port 80"),
    ("npx -y --token S", "npx -y --token [redacted]"),
    ("curl -u ada:S https://h -u ada", "curl -u [redacted] https://h -u ada"),
    ("mysql -pS3cret db", "mysql -p[redacted] db"),
    ("sshpass -p hunter2S ssh", "sshpass -p [redacted] ssh"),
    ("--header=X-Api-Key: S", "--header=X-Api-Key: [redacted]"),
    ("curl -H 'X-Any: S S' x", "curl -H 'X-Any: [redacted]' x"),
    ("curl -HX-Any:S", "curl -HX-Any:[redacted]"),
    ("curl --header \"X-Any: S\" x", "curl --header \"X-Any: [redacted]\" x"),
    ("OPENAI_API_KEY=S node x", "OPENAI_API_KEY=[redacted] node x"),
    ("PASSWORD='S S' node", "PASSWORD='[redacted]' node"),
    ("Server=db;Password=S;Port=1", "Server=db;Password=[redacted];Port=1"),
    ("--url=https://h/?k=S", "--url=https://h/?k=[redacted]"),
    ("--env=API_KEY=S", "--env=API_KEY=[redacted]"),
    ("Authorization: Bearer S S", "Authorization: [redacted]"),
    ("x-api-key:S", "x-api-key:[redacted]"),
    ("BEARER S", "BEARER [redacted]"),
    ("Basic Zm9vOmJhcg==", "Basic [redacted]"),
    ("use sk-SSSSSSSSSSSSSSSS now", "use [redacted] now"),
    ("(ghp_SSSSSSSSSSSSSSSS)", "([redacted])"),
    ("x-ghp_SSSSSSSSSSSSSSSS", "x-[redacted]"),
    ("github_pat_11SSSSSSSS_SSSS", "[redacted]"),
    ("glpat-SSSSSSSSSSSSSSSSSSSS", "[redacted]"),
    ("npm_SSSSSSSSSSSSSSSSSSSSSSSSSSSSSSSSSSSS", "[redacted]"),
    ("AKIASSSSSSSSSSSSSSSS", "[redacted]"),
    ("AIzaSSSSSSSSSSSSSSSSSSSSSSSSSSSSSSSSSSS", "[redacted]"),
    ("xoxb-SSSSSSSSSSSS-S", "[redacted]"),
    ("https://h/sk-SSSSSSSSSSSSSSSS/x", "https://h/[redacted]/x"),
    ("eyJSSSSSSSSSS.SSSSSSS.SSSSSS", "[redacted]"),
    ("S1aB2cD3eF4gH5iJ6kL7mN8oP9qR0sT1uV2", "[redacted]"),
    ("{\"a\":1,\"password\":\"S\"}", "{\"a\":1,\"password\":\"[redacted]\"}"),
    ("x {\"apiKey\":\"S\", y", "x {\"apiKey\":\"[redacted]\", y"),
    ("x\n-----BEGIN RSA PRIVATE KEY-----\nS", "x\n[redacted]"),
    ("-----BEGIN PRIVATE KEY-----\nS\n-----END PRIVATE KEY----- y", "[redacted] y"),
    ("a Basic set of tools", "a Basic set of tools"),
    ("https://plain/a@b", "https://plain/a@b"),
    ("curl --token * -p 8080:80", "curl --token * -p 8080:80"),
    ("http://auth:8080/v1", "http://auth:8080/v1"),
    (
        "https://docs.example/webhooks/about-webhooks",
        "https://docs.example/webhooks/about-webhooks",
    ),
];

/// Texts that contain no secret.
const HARMLESS: [&str; 29] = [
    "anthropic/claude-sonnet-4-5-20250929",
    "xai-grok-4-fast-reasoning",
    "pplx-70b-online",
    "unsloth/Qwen3-Coder-480B-A35B-Instruct-FP8-GGUF",
    "meta-llama/Llama-3.3-70B-Instruct",
    "gpt-4o-mini-2024-07-18",
    "task-force sk-learn sk-learn-preprocessing",
    "npm_config_registry",
    "hf_transfer_enabled",
    "ses_019a8c3d4e5fAbCdEfGhIjKlMn",
    "3f786850e387550fdab836ed7e6dc881de23001b",
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "c56a4180-65aa-42ec-a945-5fd21dec0538",
    "ghcr.io/x/image:v1@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "npm:react@18.2.0",
    "opencode-plugin@1.2.3",
    "git@github.com:ada/turnstone.git",
    "/home/ada/Projects/Turnstone2/crates/core/src/lib.rs",
    "convertUtf8StringToUtf16StringWithBase64Encoding",
    "**/*.rs",
    "git push *",
    "C:\\bin\\x",
    "http://localhost:11434/v1",
    "http://[::1]:4096/v1",
    "Reply in  two lines:\n  - a\n",
    "Zürich 日本 \u{e9}=\u{e9}",
    "gcc -pedantic -pthread -parallel=4",
    "docker run -p 8080:80 -p/usr/x",
    "ctrl+x",
];

#[test]
fn secrets_in_settings_are_hidden_and_the_rest_stays() {
    let shown = SETTINGS.map(|(text, _)| redact_text(text));
    assert_eq!(shown, SETTINGS.map(|(_, expected)| expected.to_owned()));
    for shown in shown {
        assert_eq!(redact_text(&shown), shown, "a second pass changes nothing");
    }
}

#[test]
fn text_without_secrets_is_not_changed() {
    assert_eq!(HARMLESS.map(redact_text), HARMLESS.map(str::to_owned));
    assert_eq!(HARMLESS.map(redact_prose), HARMLESS.map(str::to_owned));
}

#[test]
fn prose_keeps_sentences_about_secrets() {
    for text in [
        "Never print the api key. If a token: is missing, ask; password=value pairs are fine.",
        "The bearer of this token must not commit.",
        "Use --token to pass a token, -H for headers and key=value for settings.",
        "Authorization: ask first. Secret: none.",
        "See https://docs.example/auth/setup?tab=readme#getting-started-with-tokens",
        "Set max_tokens=4096 and review commit 3f786850e387550fdab836ed7e6dc881de23001b.",
        "{ not json, token }",
        "docker run -u 1000:1000 -u node:node --user=www-data:www-data app",
        "docker run --user \"$(id -u):$(id -g)\" app",
        "curl -u ada -u \"$NAME:$PASSWORD\" -u ada:$PASSWORD --user ada:<password> https://h",
        "Pass -u: it names the user. Run git push -u origin main:main, then curl the page.",
        "sort -u file:name",
    ] {
        assert_eq!(redact_prose(text), text);
    }
}

#[test]
fn prose_hides_values() {
    for (text, shown) in [
        ("Call https://ada:S@host/ now", "Call https://[redacted]@host/ now"),
        ("Use sk-SSSSSSSSSSSSSSSS.", "Use [redacted]"),
        ("curl -H 'X-Api-Key: abc123S'", "curl -H 'X-Api-Key: [redacted]'"),
        ("Run !`curl -u a:SECRET` now", "Run !`curl -u a:[redacted]` now"),
        ("curl --user 'a:two S' -u=b:S;", "curl --user 'a:[redacted]' -u=b:[redacted];"),
        (
            "curl -s \\\n  -u \"a:S\" \\\n  https://h",
            "curl -s \\\n  -u \"a:[redacted]\" \\\n  https://h",
        ),
        ("http --user ada:hunter2 h", "http --user ada:[redacted] h"),
        ("Authorization: Bearer abc123defS", "Authorization: Bearer [redacted]"),
        ("password=hunter2 works", "password=[redacted] works"),
        ("see https://h/?token=S", "see https://h/?token=[redacted]"),
        (
            "https://hooks.slack.com/services/T0S/B0S/SSSSSSSS",
            "https://hooks.slack.com/services/[redacted]/[redacted]/[redacted]",
        ),
        ("a\n-----BEGIN PRIVATE KEY-----\nS\n-----END PRIVATE KEY-----\nb", "a\n[redacted]\nb"),
    ] {
        assert_eq!(redact_prose(text), shown);
    }
}

#[test]
fn secrets_are_redacted_and_the_rest_is_unchanged() {
    let mut value = json!({
        "provider": { "p": { "options": { "apiKey": "S-1", "baseURL": "https://u:S@host/v1",
            "subscriptionKey": "S2", "headers": { "X-Any": "S" }, "maxTokens": 5, "max_tokens": 7 } } },
        "mcp": { "m": { "environment": { "A": "S" }, "oauth": { "clientSecret": "S" },
            "headers": { "Authorization": "Bearer S" }, "url": "https://plain/a@b" } },
        "keybinds": { "leader": "ctrl+x" }, "server": { "password": "S", "license_key": 12 },
        "permission": { "bash": "ask", "read": { "*token*": "deny", "*.key": "ask" } },
        "agent": { "a": { "prompt": "Never print the api key: it is secret." } }
    });
    redact(&mut value);
    let text = value.to_string().replace("clientSecret", "");
    assert!(!text.contains('S'), "{text}");
    assert_eq!(value["server"]["license_key"], "[redacted]");
    let options = &value["provider"]["p"]["options"];
    assert_eq!((&options["maxTokens"], &options["max_tokens"]), (&json!(5), &json!(7)));
    assert_eq!(value["mcp"]["m"]["url"], "https://plain/a@b");
    assert_eq!(value["keybinds"]["leader"], "ctrl+x");
    let permission = json!({ "bash": "ask", "read": { "*token*": "deny", "*.key": "ask" } });
    assert_eq!(value["permission"], permission);
    assert_eq!(value["agent"]["a"]["prompt"], "Never print the api key: it is secret.");
}

#[test]
fn commands_in_lists_keep_all_but_their_secrets() {
    let mut value = json!([
        "npx",
        "-y",
        "server",
        "--api-key=S1",
        "--token",
        "S2",
        "--port",
        "80",
        "-H",
        "X-Any: S3",
        "--header",
        "X-Other: S S4",
        "--verbose",
        "API_TOKEN=S 5",
        "--config={\"apiKey\":\"S6\"}",
        "-u",
        "ada:S7",
        "bearer S8",
        "--header=X-Api-Key: S9",
        "-pS10",
        "-p",
        "S11",
        "--x-key",
        "-S12S",
        "--keyboard",
        "dvorak",
        "--tokens",
        "5",
        "--token",
        "--flag"
    ]);
    redact(&mut value);
    let shown = json!([
        "npx",
        "-y",
        "server",
        "--api-key=[redacted]",
        "--token",
        "[redacted]",
        "--port",
        "80",
        "-H",
        "X-Any: [redacted]",
        "--header",
        "X-Other: [redacted]",
        "--verbose",
        "API_TOKEN=[redacted]",
        "--config={\"apiKey\":\"[redacted]\"}",
        "-u",
        "[redacted]",
        "bearer [redacted]",
        "--header=X-Api-Key: [redacted]",
        "-p[redacted]",
        "-p",
        "[redacted]",
        "--x-key",
        "[redacted]",
        "--keyboard",
        "dvorak",
        "--tokens",
        "5",
        "--token",
        "--flag"
    ]);
    assert_eq!(value, shown);
}

#[test]
fn names_that_people_chose_hide_nothing() {
    let value = json!({
        "agent": { "auth": { "description": "Checks tokens", "mode": "all" } },
        "provider": { "my-key": { "env": ["MY_API_KEY"], "models": { "token": { "name": "T" } } } },
        "mcp": { "webhook": { "command": ["npx", "x"], "enabled": true } },
    });
    let mut shown = value.clone();
    redact(&mut shown);
    assert_eq!(shown, value);
    let mut value = json!({ "agent": { "apiKey": "S", "auth": { "password": "S" } },
        "env": ["S", "A_B=S", "AKIASSSSSSSSSSSSSSSS"] });
    redact(&mut value);
    assert!(!value.to_string().contains('S'), "{value}");
}

#[test]
fn keys_that_contain_secrets_are_hidden_and_no_entry_is_lost() {
    let mut value = json!({
        "https://h/?k=S1": 1, "https://h/?k=S2": 2, "sk-SSSSSSSSSSSSSSSS": { "a": "b" },
        "headers": { "ghp_SSSSSSSSSSSSSSSS": "x" }, "plain": 3,
    });
    redact(&mut value);
    let shown = json!({
        "https://h/?k=[redacted]": 1, "https://h/?k=[redacted] (2)": 2, "[redacted]": { "a": "b" },
        "headers": { "[redacted]": "[redacted]" }, "plain": 3,
    });
    assert_eq!(value, shown);
}

#[test]
fn hostile_text_is_redacted_without_a_panic() {
    for text in [
        "://",
        "https://://u:S@h",
        "a://é@ü?é=é#",
        "-H",
        "-p",
        "--token \"é",
        "key=\"",
        "key: 'é",
        "-----BEGIN ",
        "-----BEGIN PRIVATE KEY",
        "[1,",
        "{\"a\":",
        "Basic =",
        "password:\u{a0}é",
    ] {
        drop((redact_text(text), redact_prose(text)));
    }
    let long = "https://u:p@h/?a=b&".repeat(20_000);
    assert!(!redact_text(&long).contains("u:p"));
}
