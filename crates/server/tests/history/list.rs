//! Lists of sessions: every filter, and all projects at once (sessions.md 5.2, 12.8).

use serde_json::{Value, json};
use turnstone_core::model::Session;

use crate::support::ServerFixture;
use crate::turn_fixture::{ctx, session};

fn titles(list: &Value) -> Vec<&str> {
    list.as_array().expect("a list").iter().filter_map(|it| it["title"].as_str()).collect()
}

/// Stores a session as given, whatever the server would have made of it.
fn store(house: &ServerFixture, like: &str, change: impl FnOnce(&mut Value)) {
    let made = house.client().get(&format!("/session/{like}")).expect(200);
    let stored =
        house.engine().store().read(&ctx(), |r| r.sessions().get(&crate::turn_fixture::id(like)));
    let mut value = serde_json::to_value(stored.expect("stored")).expect("a value");
    value["directory"] = made["directory"].clone();
    change(&mut value);
    let session: Session = serde_json::from_value(value).expect("a session");
    let made =
        house.engine().store().write(&ctx(), move |tx| tx.sessions().create(&session)).wait();
    made.expect("stored");
}

#[test]
fn path_filter_includes_subtree_and_pathless_sessions() {
    let house = ServerFixture::with_git();
    for name in ["src", "src/deep", "srcs", "a%b"] {
        fs_err::create_dir_all(house.project().join(name)).expect("made");
        let at = house.project().join(name);
        let there = house
            .client()
            .with_header("x-opencode-directory", &at.to_string_lossy().replace('%', "%25"));
        there.post("/session", &json!({ "title": name })).expect(200);
    }
    let root = session(&house, "root");
    let source = house.project().join("src").to_string_lossy().into_owned();
    store(&house, &root, |it| {
        it["id"] = json!("ses_legacy");
        it["title"] = json!("legacy");
        it["directory"] = json!(source);
        it.as_object_mut().expect("an object").remove("path");
    });
    let list = |query: &str| house.client().get(&format!("/session?{query}")).expect(200);
    let found = list("path=src");
    let mut below = titles(&found);
    below.sort_unstable();
    assert_eq!(below, ["src", "src/deep"]);
    let found = list(&format!("path=src&directory={source}"));
    let mut with = titles(&found);
    with.sort_unstable();
    assert_eq!(with, ["legacy", "src", "src/deep"], "by its directory");
    assert_eq!(titles(&list("path=%25")), Vec::<&str>::new(), "no character means anything else");
    assert_eq!(titles(&list("path=a%25b")), ["a%b"]);
    assert_eq!(titles(&list("")).len(), 6);
    assert_eq!(titles(&list("path=")).len(), 6, "an empty path does not filter");
    assert_eq!(titles(&list(&format!("directory={source}"))).len(), 2);
    assert_eq!(titles(&list(&format!("directory={source}&scope=project"))).len(), 6);
}

#[test]
fn session_list_filters_narrow_the_list() {
    let house = ServerFixture::new();
    let parent = session(&house, "Hello World");
    let body = json!({ "title": "100% child", "parentID": parent });
    let child = house.client().post("/session", &body).expect(200);
    let archived = session(&house, "old");
    let body = json!({ "time": { "archived": -5.5 } });
    let shown = house.client().patch(&format!("/session/{archived}"), &body).expect(200);
    assert_eq!(shown["time"]["archived"], json!(-5.5), "any finite number");
    let list = |query: &str| house.client().get(&format!("/session?{query}")).expect(200);
    assert_eq!(titles(&list("")), ["old", "100% child", "Hello World"], "archived ones too");
    assert_eq!(titles(&list("search=hello")), ["Hello World"]);
    assert_eq!(titles(&list("search=%25")), ["100% child"], "no pattern");
    assert_eq!(titles(&list("roots=true")), ["old", "Hello World"]);
    assert_eq!(titles(&list("limit=1")), ["old"]);
    assert_eq!(titles(&list("limit=abc")).len(), 3);
    let start = child["time"]["updated"].as_i64().expect("a time");
    assert!(titles(&list(&format!("start={start}"))).contains(&"100% child"), "inclusive");
    assert_eq!(titles(&list("start=99999999999999")), Vec::<&str>::new());
    house.client().get("/session?roots=maybe").expect(400);
}

#[test]
fn sessions_and_search_hits_are_listed_by_actor() {
    let house = ServerFixture::new();
    session(&house, "mine marmot");
    let grace = house.client().with_header("x-turnstone-actor", "grace");
    grace.post("/session", &json!({ "title": "hers marmot" })).expect(200);
    let get = |path: &str| house.client().get(path).expect(200);
    for path in ["/session", "/experimental/session"] {
        assert_eq!(titles(&get(&format!("{path}?actor=grace"))), ["hers marmot"], "{path}");
        assert_eq!(titles(&get(&format!("{path}?actor=gra"))), Vec::<&str>::new(), "{path}");
        assert_eq!(titles(&get(&format!("{path}?actor="))).len(), 2, "{path}");
    }
    assert_eq!(titles(&get("/api/session?actor=grace")["data"]), ["hers marmot"]);
    assert_eq!(titles(&get("/api/session")["data"]).len(), 2);
    let hits = get("/turnstone/search?q=marmot&actor=grace");
    assert_eq!(titles(&hits["hits"]), ["hers marmot"], "{hits}");
    let document = get("/doc");
    for path in ["/session", "/experimental/session", "/api/session", "/turnstone/search"] {
        let parameters = document["paths"][path]["get"]["parameters"].as_array().expect("a list");
        assert!(parameters.iter().any(|parameter| parameter["name"] == "actor"), "{path}");
    }
}

#[test]
fn global_session_pages_have_no_gaps() {
    let house = ServerFixture::new();
    let other = house.sibling("other");
    fs_err::create_dir_all(&other).expect("made");
    let there = house.client().with_header("x-opencode-directory", &other.to_string_lossy());
    there.post("/session", &json!({ "title": "elsewhere" })).expect(200);
    let here = session(&house, "here");
    // Changed in the same millisecond.
    for number in 0..5 {
        store(&house, &here, |it| {
            it["id"] = json!(format!("ses_same{number}"));
            it["title"] = json!(format!("same {number}"));
            it["time"]["updated"] = json!(5);
        });
    }
    store(&house, &here, |it| {
        it["id"] = json!("ses_old");
        it["title"] = json!("archived");
        it["time"]["archived"] = json!(1);
    });
    let list = |query: &str| house.client().get(&format!("/experimental/session?{query}"));
    let all = list("").expect(200);
    assert_eq!(titles(&all).len(), 7, "{all}");
    assert!(titles(&all).contains(&"elsewhere"));
    assert_eq!(titles(&list("archived=true").expect(200)).len(), 8);
    let item = all.as_array().and_then(|list| list.iter().find(|it| it["title"] == "here"));
    let item = item.expect("listed");
    assert_eq!(item["project"]["id"], item["projectID"]);
    assert!(item["project"]["worktree"].is_string());
    let named = list(&format!("directory={}", other.to_string_lossy())).expect(200);
    assert_eq!(titles(&named), ["elsewhere"]);

    let (mut seen, mut cursor) = (Vec::new(), None::<String>);
    loop {
        let query = cursor.as_ref().map(|at| format!("&cursor={at}")).unwrap_or_default();
        let answer = list(&format!("limit=3{query}"));
        let page = answer.expect(200);
        seen.extend(titles(&page).into_iter().map(str::to_owned));
        cursor = answer.header("x-next-cursor").map(str::to_owned);
        if cursor.is_none() {
            break;
        }
    }
    let mut whole: Vec<String> = titles(&all).into_iter().map(str::to_owned).collect();
    whole.sort();
    seen.sort();
    assert_eq!(seen, whole);
}
