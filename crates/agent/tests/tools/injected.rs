//! Tools whose work is injected: subagents, skills, pages of the web, formatters.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use serde_json::json;
use turnstone_agent::tool::{
    EditTool, FetchedPage, FileFormatter, InstructionFile, NearbyInstructions, PageFetcher,
    ReadTool, SkillInfo, SkillTool, SubagentInfo, TaskTool, Tool, ToolAbort, ToolError, ToolHost,
    ToolSettings, WebFetchTool, WebPageRequest, WriteTool, prefers_patches,
};

use crate::fake_host::{ToolFixture, failure};

fn subagents() -> ToolSettings {
    let agent =
        |name: &str| SubagentInfo { name: name.to_owned(), description: format!("does {name}") };
    ToolSettings { subagents: vec![agent("zeta"), agent("alpha")], ..ToolSettings::default() }
}

#[test]
fn subagent_works_and_its_last_text_comes_back() {
    let case = ToolFixture::new();
    let tool = TaskTool::new(&subagents());
    let host = case.host("task");
    let input =
        json!({"description": "Find it", "prompt": "Look around", "subagent_type": "alpha"});
    let reply = tool.run(&host, &input).expect("done");
    assert_eq!(host.asked(), ["task: alpha"]);
    assert_eq!(
        reply.output,
        "<task id=\"ses_child\" state=\"completed\">\nalpha did: Look around\n</task>"
    );
    assert_eq!(reply.metadata["sessionId"], json!("ses_child"));
    assert_eq!(reply.metadata["parentSessionId"], json!("ses_a"));
    assert_eq!(reply.metadata["model"], json!({"providerID": "p", "modelID": "m"}));
    assert_eq!(reply.title, "Find it");
    let description = tool.schema().description;
    assert!(description.ends_with("- alpha: does alpha\n- zeta: does zeta"), "{description}");
    let mut input = input;
    input["task_id"] = json!("ses_old");
    let reply = case.run(&tool, &input).expect("done");
    assert_eq!(reply.metadata["sessionId"], json!("ses_old"));
    input["subagent_type"] = json!("omega");
    let words = failure(case.run(&tool, &input));
    assert!(words.contains("alpha, zeta"), "{words}");
}

#[test]
fn skill_returns_its_text_and_names_its_files() {
    let case = ToolFixture::new();
    case.put("skills/pdf/SKILL.md", "---\nname: pdf\ndescription: d\n---\nUse the script.\n");
    for number in 0..12 {
        case.put(&format!("skills/pdf/script{number:02}.sh"), "");
    }
    let file = case.root().join("skills/pdf/SKILL.md");
    let skill = SkillInfo {
        name: "pdf".to_owned(),
        description: "PDF files".to_owned(),
        file: file.clone(),
    };
    let tool = SkillTool::new(&ToolSettings { skills: vec![skill], ..ToolSettings::default() });
    let host = case.host("skill");
    let reply = tool.run(&host, &json!({"name": "pdf"})).expect("loaded");
    assert_eq!(host.asked(), ["skill: pdf"]);
    assert_eq!(host.asks()[0].always, ["pdf"]);
    assert!(reply.output.contains("# Skill: pdf\n\nUse the script.\n"), "{}", reply.output);
    assert_eq!(reply.output.matches("<file>").count(), 10);
    assert!(!reply.output.contains("SKILL.md"));
    let folder = case.root().join("skills/pdf");
    assert_eq!(reply.metadata, *json!({"name": "pdf", "dir": folder}).as_object().expect("object"));
    let words = failure(case.run(&tool, &json!({"name": "other"})));
    assert!(words.contains("Skills: pdf"), "{words}");
    fs_err::remove_file(file).expect("removed");
    assert!(failure(case.run(&tool, &json!({"name": "pdf"}))).contains("is gone"));
}

/// Answers every request with one page.
struct OnePage {
    page: Result<FetchedPage, String>,
    requests: Mutex<Vec<WebPageRequest>>,
}

impl PageFetcher for OnePage {
    fn fetch(&self, request: &WebPageRequest, _abort: &ToolAbort) -> Result<FetchedPage, String> {
        self.requests.lock().expect("not poisoned").push(request.clone());
        self.page.clone()
    }
}

fn fetching(status: u16, kind: &str, body: &str) -> (WebFetchTool, Arc<OnePage>) {
    let (url, bytes) = ("https://example.com/".to_owned(), body.as_bytes().to_vec());
    let page = Ok(FetchedPage { url, status, content_type: kind.to_owned(), bytes });
    let fetcher = Arc::new(OnePage { page, requests: Mutex::default() });
    let settings = ToolSettings { fetcher: Some(fetcher.clone()), ..ToolSettings::default() };
    (WebFetchTool::new(&settings), fetcher)
}

#[test]
fn page_is_fetched_after_an_ask_and_converted() {
    let case = ToolFixture::new();
    let url = "https://example.com/x";
    let (tool, fetcher) = fetching(200, "text/html; charset=utf-8", "<h1>T</h1><script>x</script>");
    let host = case.host("webfetch");
    let reply = tool.run(&host, &json!({ "url": url, "timeout": 500 })).expect("fetched");
    assert_eq!(reply.output, "# T");
    assert_eq!(reply.title, "https://example.com/x (text/html; charset=utf-8)");
    assert!(reply.metadata.is_empty());
    assert_eq!(host.asked(), [format!("webfetch: {url}")]);
    assert_eq!(fetcher.requests.lock().expect("not poisoned")[0].timeout.as_secs(), 120);
    let output = |input| case.run(&tool, &input).expect("fetched").output;
    assert_eq!(output(json!({"url": url, "format": "text"})), "T");
    assert_eq!(output(json!({"url": url, "format": "html"})), "<h1>T</h1><script>x</script>");

    let (tool, _) = fetching(200, "image/png", "png");
    let reply = case.run(&tool, &json!({ "url": url })).expect("fetched");
    assert_eq!(reply.attachments[0].url, "data:image/png;base64,cG5n");
    let (tool, _) = fetching(200, "image/svg+xml", "<svg/>");
    let reply = case.run(&tool, &json!({ "url": url })).expect("fetched");
    assert_eq!((reply.output.as_str(), reply.attachments.len()), ("<svg/>", 0));
}

#[test]
fn refused_pages_are_failures_and_are_not_fetched_unasked() {
    let case = ToolFixture::new();
    let (tool, fetcher) = fetching(404, "text/plain", "gone");
    let fetch = |url: &str| failure(case.run(&tool, &json!({ "url": url })));
    assert!(fetch("https://example.com/").contains("status 404"));
    for url in ["file:///etc/passwd", "example.com", "javascript:alert(1)"] {
        assert!(fetch(url).contains("must begin with http"), "{url}");
    }
    assert!(
        failure(case.run(&tool, &json!({"url": "http://a", "format": "xml"}))).contains("format")
    );
    let host = case.host("webfetch").deciding(|_| Err(ToolError::Rejected("no".to_owned())));
    assert!(matches!(tool.run(&host, &json!({"url": "http://a"})), Err(ToolError::Rejected(_))));
    assert_eq!(fetcher.requests.lock().expect("not poisoned").len(), 1);
    let none = WebFetchTool::new(&ToolSettings::default());
    assert!(failure(case.run(&none, &json!({"url": "http://a"}))).contains("No pages"));
}

/// Adds a line to every file.
struct AddsLine;

impl FileFormatter for AddsLine {
    fn format(&self, host: &dyn ToolHost, files: &[PathBuf]) -> Result<Vec<PathBuf>, ToolError> {
        let calls = host.engine().tool_calls();
        let failed = |_| ToolError::failed("not tracked");
        let call = calls.open_named(&host.context(), host.turn(), Some(host.part()), files);
        let call = call.map_err(failed)?;
        for file in files {
            let text = fs_err::read_to_string(file).expect("read");
            fs_err::write(file, text + "formatted\n").expect("written");
        }
        calls.close(&host.context(), host.turn(), &call).map_err(failed)?;
        Ok(files.to_vec())
    }
}

#[test]
fn what_a_formatter_writes_is_shown_known_and_undone() {
    let case = ToolFixture::new();
    case.put("a.txt", "one\n");
    let settings = ToolSettings { formatter: Some(Arc::new(AddsLine)), ..ToolSettings::default() };
    let input = json!({"filePath": "a.txt", "oldString": "one", "newString": "two"});
    let reply = case.run(&EditTool::new(&settings), &input).expect("edited");
    assert_eq!(case.text("a.txt").as_deref(), Some("two\nformatted\n"));
    assert_eq!(reply.metadata["filediff"]["additions"], json!(2));
    // The session knows the formatted file: it may replace it.
    let input = json!({"filePath": "a.txt", "content": "three\n"});
    case.run(&WriteTool::new(&settings), &input).expect("written");
    assert_eq!(case.text("a.txt").as_deref(), Some("three\nformatted\n"));
    assert!(case.undo().is_complete());
    assert_eq!(case.text("a.txt").as_deref(), Some("one\n"));
}

/// One file of instructions for everything.
struct OneInstruction;

impl NearbyInstructions for OneInstruction {
    fn find(&self, _host: &dyn ToolHost, file: &std::path::Path) -> Vec<InstructionFile> {
        let path = file.with_file_name("AGENTS.md");
        vec![InstructionFile { path, text: "Be kind.".to_owned() }]
    }
}

#[test]
fn instructions_near_a_file_come_with_it() {
    let case = ToolFixture::new();
    case.put("src/a.rs", "x\n");
    let instructions: Arc<dyn NearbyInstructions> = Arc::new(OneInstruction);
    let settings = ToolSettings { instructions: Some(instructions), ..ToolSettings::default() };
    let reply = case.run(&ReadTool::new(&settings), &json!({"filePath": "src/a.rs"}));
    let reply = reply.expect("read");
    let path = case.root().join("src/AGENTS.md");
    let words = format!("Instructions from: {}\nBe kind.", path.display());
    assert!(reply.output.contains(&words) && reply.output.contains("<system-reminder>"));
    assert_eq!(reply.metadata["loaded"], json!([path]));
}

#[test]
fn models_that_know_patches_get_them() {
    assert!(prefers_patches("gpt-5.2-codex"));
    for model in ["gpt-4.1", "gpt-oss-120b", "claude-opus", "o3"] {
        assert!(!prefers_patches(model), "{model}");
    }
}
