//! Models: what a request needs, and what a person reads if one cannot be used.

use turnstone_agent::model::ModelUsage;
use turnstone_agent::run::RunSettings;

use crate::fixture::{SettingsFixture, model_ref, words_of};

const CLAUDE: &str = "anthropic/claude-sonnet-4-5";

#[test]
fn a_model_of_the_catalogue_is_ready_with_a_stored_key() {
    let case = SettingsFixture::new();
    case.store_key("anthropic", "sk-ant-0123456789");
    case.write_user(r#"{"agent":{"build":{"temperature":0.2,"top_p":0.9,"options":{"a":1}}}}"#);
    let model = case.model(CLAUDE, Some("high")).expect("a model");
    assert!(model.calls_tools && model.media_in_results && !model.without_media);
    assert!(model.limits.context >= 200_000);
    assert_eq!((model.temperature, model.top_p), (Some(0.2), Some(0.9)));
    assert_eq!(model.options["a"], 1);
    assert_eq!(model.options["thinking"]["budgetTokens"], 16_000);
    let usage = ModelUsage { input: 1_000_000, ..ModelUsage::default() };
    assert!((model.cost)(&usage).is_some_and(|cost| cost > 0.0));
}

#[test]
fn an_unknown_price_is_no_price() {
    let case = SettingsFixture::new();
    case.write_user(
        r#"{"provider":{"local":{"options":{"baseURL":"http://127.0.0.1:1/v1"},"models":{"m":{}}}}}"#,
    );
    let model = case.model("local/m", None).expect("a model");
    let usage = ModelUsage { input: 5, output: 5, ..ModelUsage::default() };
    assert_eq!((model.cost)(&usage), None);
    assert!(!model.media_in_results && model.without_media);
}

#[test]
fn failures_say_what_to_do() {
    let case = SettingsFixture::new();
    let missing = case.model_failure(CLAUDE);
    assert!(missing.starts_with("ProviderAuthError: "), "{missing}");
    assert!(
        missing.contains("`turnstone auth set anthropic` or set ANTHROPIC_API_KEY"),
        "{missing}"
    );
    let unknown = case.model_failure("anthropic/claude-sonet");
    assert!(unknown.contains("similar: claude-"), "{unknown}");
    assert!(unknown.contains("`turnstone models`"), "{unknown}");
    let none = case.model_failure("turnstone/none");
    assert!(none.contains("No model is configured"), "{none}");
    let script = case.model_failure("scripted/none.json");
    assert!(script.contains("project/sub/none.json cannot be used: it does not exist"), "{script}");

    case.store_key("anthropic", "sk-ant-0123456789");
    case.write(
        "project/opencode.json",
        r#"{"provider":{"anthropic":{"options":{"baseURL":"https://elsewhere.example"}}}}"#,
    );
    let withheld = case.model_failure(CLAUDE);
    assert!(withheld.starts_with("ProviderAuthError: "), "{withheld}");
    assert!(withheld.contains("your key is not sent there"), "{withheld}");

    case.write_user("{\n\"model\": 3 }");
    let broken = case.model_failure(CLAUDE);
    assert!(broken.contains("opencode.json cannot be used: line 2: model:"), "{broken}");
    assert!(broken.contains("`turnstone config check`"), "{broken}");
}

#[test]
fn an_unknown_agent_is_named_with_those_that_exist() {
    let settings_fixture = SettingsFixture::new();
    let settings = settings_fixture.settings();
    let failure = settings.agent(&settings_fixture.directory(), "bild").expect_err("no agent");
    let words = words_of(&failure);
    assert!(
        words.contains("\"bild\"") && words.contains("build, explore, general, plan"),
        "{words}"
    );
    let gone = settings.agent(&settings_fixture.path("gone"), "build").expect_err("no directory");
    assert!(words_of(&gone).contains("gone cannot be opened"), "{}", words_of(&gone));
}

#[test]
fn titles_are_written_by_the_small_model_that_thinks_least() {
    let case = SettingsFixture::new().with_variable("OPENAI_API_KEY", "sk-0123456789");
    case.write_user(r#"{"small_model":"openai/gpt-5-mini"}"#);
    let settings = case.settings();
    let small = settings.small_model(&case.directory(), &model_ref("openai/gpt-5", None));
    let small = small.expect("a small model");
    assert_eq!(small.wire_name, "gpt-5-mini");
    assert_eq!(small.options["reasoningEffort"], "minimal");
    let same = settings.small_model(&case.directory(), &model_ref("openai/gpt-5-mini", None));
    assert!(same.is_none(), "the model of the answer is taken itself");
}

#[test]
fn a_change_of_the_configuration_takes_effect_with_the_next_step() {
    let case = SettingsFixture::new();
    let (settings, directory) = (case.settings(), case.directory());
    assert_eq!(settings.agent(&directory, "build").expect("an agent").steps, None);
    case.write_user(r#"{"agent":{"build":{"steps":7}},"subagent_depth":3}"#);
    assert_eq!(settings.limits(&directory).expect("limits").subagent_depth, 1, "of the same step");
    assert_eq!(settings.agent(&directory, "build").expect("an agent").steps, Some(7));
    assert_eq!(settings.limits(&directory).expect("limits").subagent_depth, 3);
}
