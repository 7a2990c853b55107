//! Models: what a name resolves to, and which model answers if nobody names one.

use serde_json::{Value, json};
use turnstone_config::{KeySource, ModelName, ModelResolutionError, ModelWire, UsedTokens};

use crate::fixture::ConfigFixture;

fn name(text: &str) -> ModelName {
    ModelName::parse(text).expect("a name")
}

#[test]
fn usual_configuration_resolves_with_the_catalogue() {
    let fixture = ConfigFixture::new().with_variable("ANTHROPIC_API_KEY", " key-of-variable\n");
    fixture.write_project(r#"{"model": "anthropic/claude-sonnet-4-5"}"#);
    let config = fixture.load();
    assert_eq!(config.default_model(None), Some(name("anthropic/claude-sonnet-4-5")));
    let model =
        config.resolve_model("anthropic/claude-sonnet-4-5", Some("high")).expect("resolved");
    assert_eq!(model.wire, ModelWire::Anthropic);
    assert_eq!(model.base_url, "https://api.anthropic.com/v1");
    assert_eq!(model.key.as_ref().map(|key| key.expose()), Some("key-of-variable"));
    assert_eq!(model.profile.limits.context, 200_000);
    assert_eq!(model.options(None)["thinking"]["budgetTokens"], 16_000);
    let used = UsedTokens { input: 1_000_000, output: 0, ..UsedTokens::default() };
    assert_eq!(model.profile.prices.cost(&used), Some(3.0));
    assert_eq!(config.small_model(&model.name), name("anthropic/claude-haiku-4-5"));
    assert!(!format!("{model:?}").contains("key-of-variable"));
    let sources: Vec<_> = config.available_providers().map(|it| it.key_source.clone()).collect();
    assert_eq!(sources, [Some(KeySource::Variable("ANTHROPIC_API_KEY".to_owned()))]);
}

#[test]
fn key_comes_from_configuration_then_store_then_variable() {
    let fixture = ConfigFixture::new().with_variable("OPENAI_API_KEY", "variable");
    let key = |fixture: &ConfigFixture| {
        let model = fixture.load().resolve_model("openai/gpt-5.5", None).expect("resolved");
        model.key.expect("a key").expose().to_owned()
    };
    assert_eq!(key(&fixture), "variable");
    fixture.store_key("openai", "stored");
    assert_eq!(key(&fixture), "stored");
    fixture.write_user(r#"{"provider":{"openai":{"options":{"apiKey":"configured"}}}}"#);
    assert_eq!(key(&fixture), "configured");
}

#[test]
fn each_mistake_has_its_own_error() {
    let fixture = ConfigFixture::new().with_variable("GROQ_API_KEY", "k");
    fixture.write_user(
        r#"{"disabled_providers":["xai"],"provider":{
            "odd":{"npm":"@ai-sdk/amazon-bedrock","models":{"m":{}}},
            "nowhere":{"models":{"m":{}}},
            "file":{"api":"file:///etc/passwd","models":{"m":{}}},
            "unset":{"api":"https://${TENANT}/v1","models":{"m":{}}},
            "local":{"api":"http://127.0.0.1:1234/v1/","models":{"m":{}}}}}"#,
    );
    let config = fixture.load();
    let error =
        |name: &str, variant| config.resolve_model(name, variant).expect_err(name).to_string();
    assert!(error("gpt", None).contains("provider/model"));
    assert!(error("nope/x", None).contains("anthropic"));
    assert!(error("groq/gpt-oss", None).contains("similar: openai/gpt-oss-120b"));
    assert!(error("groq/openai/gpt-oss-120b", Some("huge")).contains("low, medium, high"));
    assert!(error("xai/grok-4.3", None).contains("switched off"));
    assert!(error("odd/m", None).contains("not supported"));
    assert!(error("nowhere/m", None).contains("options.baseURL"));
    assert!(error("file/m", None).contains("https://"));
    assert!(error("unset/m", None).contains("TENANT"));
    assert!(
        error("openai/gpt-5.5", None).contains("turnstone auth set openai` or set OPENAI_API_KEY")
    );
    let local = config.resolve_model("local/m", Some("default")).expect("resolved");
    assert_eq!((local.key, local.base_url.as_str()), (None, "http://127.0.0.1:1234/v1"));
    assert_eq!(local.profile.prices.cost(&UsedTokens { input: 1, ..UsedTokens::default() }), None);
    let invalid = config.resolve_model("x/", None).expect_err("invalid");
    assert_eq!(invalid, ModelResolutionError::InvalidName("x/".to_owned()));
}

#[test]
fn connection_settings_are_read() {
    let fixture = ConfigFixture::new();
    fixture.write_user(
        r#"{"provider":{"p":{"npm":"@ai-sdk/openai","api":"https://p/v1","options":{"timeout":false,
            "headerTimeout":1000,"chunkTimeout":2000,"setCacheKey":true,"extraBody":{"a":1},"headers":{"X":"y"}},
            "models":{"m":{"id":"real","options":{"a":{"b":1}},"variants":{"v":{"a":{"c":2}}}}}}},
            "agent":{"docs":{"options":{"a":{"b":9}},"extra":true}}}"#,
    );
    let config = fixture.load();
    let model = config.resolve_model("p/m", Some("v")).expect("resolved");
    assert_eq!((model.wire, model.profile.api_id.as_str()), (ModelWire::Responses, "real"));
    assert_eq!(model.timeouts.request, None);
    assert_eq!(model.timeouts.header.map(|it| it.as_millis()), Some(1_000));
    assert_eq!(model.timeouts.chunk.map(|it| it.as_millis()), Some(2_000));
    assert!(model.sets_cache_key);
    assert_eq!(Value::Object(model.extra_body.clone()), json!({ "a": 1 }));
    assert_eq!((model.headers[0].0.as_str(), model.headers[0].1.expose()), ("X", "y"));
    let options = Value::Object(model.options(config.find_agent("docs")));
    assert_eq!(options, json!({ "a": { "b": 9, "c": 2 }, "extra": true }));
}

#[test]
fn users_file_of_models_adds_to_the_catalogue() {
    let fixture = ConfigFixture::new();
    fixture.write(
        "home/.config/turnstone/models.json",
        r#"{"mine":{"id":"mine","name":"Mine","env":[],"api":"http://localhost/v1","models":{"m":{"name":"M"}}},
            "openai":{"models":{"gpt-9":{"name":"GPT-9","cost":{"input":1,"output":2}}}}}"#,
    );
    let config = fixture.load();
    config.resolve_model("mine/m", None).expect("resolved");
    let openai = config.providers().iter().find(|it| it.id == "openai").expect("a provider");
    assert!(openai.models.iter().any(|model| model.id == "gpt-9"));
    assert!(openai.models.iter().any(|model| model.id == "gpt-5.5"));
    fixture.write("home/.config/turnstone/models.json", "[]");
    assert!(fixture.try_load().is_err());
    let fixture = ConfigFixture::new().with_variable("OPENCODE_MODELS_PATH", "/nonexistent/m.json");
    assert!(fixture.try_load().is_err(), "a file that is named must exist");
}

#[test]
fn configured_prices_replace_the_tiers_of_the_catalogue() {
    let fixture = ConfigFixture::new().with_variable("OPENAI_API_KEY", "k");
    fixture.write_user(
        r#"{"provider":{"openai":{"models":{"gpt-5.5":{"cost":{"input":1,"output":1}}}}}}"#,
    );
    let model = fixture.load().resolve_model("openai/gpt-5.5", None).expect("resolved");
    assert!(model.profile.prices.tiers.is_empty());
    assert_eq!(model.profile.prices.base.cache_read, None);
    assert_eq!(model.profile.limits.context, 1_050_000);
}

#[test]
fn default_model_is_the_configured_then_the_recent_then_a_preferred_one() {
    let fixture = ConfigFixture::new()
        .with_variable("OPENAI_API_KEY", "k")
        .with_variable("ANTHROPIC_API_KEY", "k");
    let config = fixture.load();
    let default = config.default_model(None).expect("a model");
    assert_eq!(default.to_string(), "anthropic/claude-sonnet-4-6");
    let recent = name("openai/gpt-5.4");
    assert_eq!(config.default_model(Some(&recent)), Some(recent));
    assert_eq!(config.default_model(Some(&name("openai/gone"))), Some(default));
    fixture
        .write_user(r#"{"model":"openai/gpt-5-mini","small_model":"groq/llama-3.1-8b-instant"}"#);
    let config = fixture.load();
    assert_eq!(config.default_model(None), Some(name("openai/gpt-5-mini")));
    assert_eq!(config.small_model(&name("openai/gpt-5.5")), name("groq/llama-3.1-8b-instant"));
    assert_eq!(ConfigFixture::new().load().default_model(None), None);
}

#[test]
fn whitelists_blacklists_and_selections_limit_providers() {
    let fixture = ConfigFixture::new();
    fixture.write_user(
        r#"{"enabled_providers":["openai","groq"],"disabled_providers":["groq"],
            "provider":{"openai":{"whitelist":["gpt-5.5","gpt-5.4"],"blacklist":["gpt-5.4"]}}}"#,
    );
    let config = fixture.load();
    let listed: Vec<_> = config.providers().iter().map(|it| it.id.as_str()).collect();
    assert_eq!(listed, ["openai"]);
    let models: Vec<_> = config.providers()[0].models.iter().map(|it| it.id.as_str()).collect();
    assert_eq!(models, ["gpt-5.5"]);
}

#[test]
fn scripted_model_needs_neither_key_nor_address() {
    let config = ConfigFixture::new().load();
    let model = config.resolve_model("scripted/demo/a.json", None).expect("resolved");
    assert_eq!((model.wire, model.name.model.as_str()), (ModelWire::Scripted, "demo/a.json"));
    let used = UsedTokens { input: 5, output: 5, ..UsedTokens::default() };
    assert_eq!(model.profile.prices.cost(&used), Some(0.0));
}

#[test]
fn configured_provider_named_scripted_is_not_a_script() {
    let fixture = ConfigFixture::new();
    let provider = json!({"npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": "http://127.0.0.1:9/v1", "apiKey": "none"}, "models": {"own": {}}});
    fixture.write_user(&json!({"provider": {"scripted": provider}}).to_string());
    let config = fixture.load();
    let model = config.resolve_model("scripted/own", None).expect("resolved");
    assert_eq!((model.wire, model.base_url.as_str()), (ModelWire::Chat, "http://127.0.0.1:9/v1"));
    let script = config.resolve_model("scripted/other.json", None).expect("resolved");
    assert_eq!(script.wire, ModelWire::Scripted);
}
