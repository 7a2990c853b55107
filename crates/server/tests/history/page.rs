//! Messages page by page, and what a session may be changed to (`docs/session-parity.md` 12.8).

use serde_json::{Value, json};

use crate::support::{HttpAnswer, ServerFixture};
use crate::turn_fixture::{begin, ctx, end, id, session, turn};

fn ids(list: &Value) -> Vec<String> {
    let ids = list.as_array().expect("a list").iter().map(|it| it["info"]["id"].as_str());
    ids.map(|id| id.expect("an id").to_owned()).collect()
}

/// A session of so many prompts, `msg_0000` and on.
fn session_with_prompts(house: &ServerFixture, prompts: usize) -> String {
    let session = session(house, "T");
    for nth in 0..prompts {
        let turn = begin(house, &session, &format!("{nth:04}"));
        end(house, &turn);
    }
    session
}

fn page(house: &ServerFixture, session: &str, query: &str) -> HttpAnswer {
    house.client().get(&format!("/session/{session}/message?{query}"))
}

#[test]
fn message_pages_go_back_without_gap_or_repeat() {
    let house = ServerFixture::new();
    let session = session_with_prompts(&house, 7);
    let other = session_with_prompts(&house, 0);
    turn(&house, &other, "meanwhile", &[("a.txt", "a\n")]);
    let whole = ids(&page(&house, &session, "").expect(200));
    assert_eq!(whole.len(), 7);
    assert!(whole.is_sorted(), "oldest first: {whole:?}");
    for size in [1, 2, 3, 5] {
        let (mut found, mut cursor) = (Vec::new(), None::<String>);
        loop {
            let before = cursor.map(|it| format!("&before={it}")).unwrap_or_default();
            let answer = page(&house, &session, &format!("limit={size}{before}"));
            let mut part = ids(&answer.expect(200));
            assert!(part.len() <= size && part.is_sorted());
            part.extend(found);
            found = part;
            let Some(next) = answer.header("x-next-cursor") else { break };
            let wanted = format!(
                "<http://{}/session/{session}/message?limit={size}&before={next}>; rel=\"next\"",
                house.address()
            );
            assert_eq!(answer.header("link"), Some(wanted.as_str()));
            assert_eq!(answer.header("access-control-expose-headers"), Some("Link, X-Next-Cursor"));
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
            assert!(next.bytes().all(is_plain), "{next} goes into a path as it is");
            cursor = Some(next.to_owned());
        }
        assert_eq!(found, whole, "in pages of {size}");
    }
}

#[test]
fn complete_message_page_has_no_cursor() {
    let house = ServerFixture::new();
    let session = session_with_prompts(&house, 3);
    for query in ["", "limit=0", "limit=3", "limit=510"] {
        let answer = page(&house, &session, query);
        assert_eq!(ids(&answer.expect(200)).len(), 3, "{query}");
        assert_eq!(answer.header("x-next-cursor"), None, "{query}");
        assert_eq!(answer.header("link"), None, "{query}");
    }
    assert_eq!(ids(&page(&house, &session, "limit=1").expect(200)), ["msg_0002"]);
    let empty = self::session(&house, "empty");
    assert_eq!(page(&house, &empty, "limit=5").expect(200), json!([]));
}

#[test]
fn large_limit_returns_510_messages_in_one_page() {
    let house = ServerFixture::new();
    let session = session(&house, "long");
    let (name, body) = (
        id(&session),
        json!({ "role": "user", "time": { "created": 1 }, "agent": "build",
        "model": { "providerID": "p", "modelID": "m" } }),
    );
    let body: turnstone_core::model::MessageBody = serde_json::from_value(body).expect("a message");
    for block in 0..12_u32 {
        let (name, body) = (name.clone(), body.clone());
        let write = house.engine().store().write(&ctx(), move |tx| {
            for nth in 0..50_u32 {
                let id = format!("msg_{:04}", block * 50 + nth).parse().expect("an id");
                let message = turnstone_core::model::Message {
                    id,
                    session: name.clone(),
                    body: body.clone(),
                };
                tx.messages().put(&message)?;
            }
            Ok(())
        });
        write.wait().expect("written");
    }
    let answer = page(&house, &session, "limit=510");
    let found = ids(&answer.expect(200));
    assert_eq!((found.len(), found[0].as_str()), (510, "msg_0090"));
    assert!(answer.header("x-next-cursor").is_some());
    assert_eq!(ids(&page(&house, &session, "").expect(200)).len(), 600);
}

#[test]
fn invalid_cursor_and_unknown_session_are_errors() {
    let house = ServerFixture::new();
    let session = session_with_prompts(&house, 2);
    let bare = json!({ "_tag": "BadRequest" });
    for query in ["before=abc", "limit=1&before=abc", "limit=0&before=abc"] {
        assert_eq!(page(&house, &session, query).expect(400), bare, "{query}");
    }
    assert_eq!(page(&house, &session, "limit=-1").expect(400)["name"], "BadRequest");
    assert_eq!(page(&house, &session, "limit=x").expect(400)["name"], "BadRequest");
    for query in ["", "limit=2", "limit=0"] {
        let gone = page(&house, "ses_unknown", query).expect(404);
        assert_eq!(gone["name"], "NotFoundError", "{query}");
    }
    // The cursor of one session is a moment and an id; in another it hides nothing and shows nothing more.
    let answer = page(&house, &session, "limit=1");
    let cursor = answer.header("x-next-cursor").expect("a cursor").to_owned();
    let other = other_session(&house);
    let seen = ids(&page(&house, &other, &format!("limit=9&before={cursor}")).expect(200));
    assert!(seen.iter().all(|id| id.starts_with("msg_beside")), "{seen:?}");
}

fn other_session(house: &ServerFixture) -> String {
    let other = session(house, "other");
    let turn = begin(house, &other, "meanwhile");
    end(house, &turn);
    other
}

#[test]
fn session_metadata_is_replaced_and_clearable() {
    let house = ServerFixture::new();
    let made =
        house.client().post("/session", &json!({ "metadata": { "a": 1, "b": { "c": [2] } } }));
    let made = made.expect(200);
    assert_eq!(made["metadata"], json!({ "a": 1, "b": { "c": [2] } }));
    let path = format!("/session/{}", made["id"].as_str().expect("an id"));
    let change = |body: Value| house.client().patch(&path, &body).expect(200);
    assert_eq!(change(json!({ "metadata": { "d": 3 } }))["metadata"], json!({ "d": 3 }));
    assert_eq!(change(json!({ "title": "T" }))["metadata"], json!({ "d": 3 }));
    assert_eq!(change(json!({ "metadata": {} }))["metadata"], json!({}));
    let listed = house.client().get("/session").expect(200);
    assert_eq!(listed[0]["metadata"], json!({}));
    house.client().patch(&path, &json!({ "metadata": [] })).expect(400);
}

#[test]
fn session_archived_accepts_any_finite_number() {
    let house = ServerFixture::new();
    let path = format!("/session/{}", session(&house, "T"));
    let archive = |at: Value| house.client().patch(&path, &json!({ "time": { "archived": at } }));
    for at in [json!(1_794_728_531_724_i64), json!(0), json!(-5), json!(0.5)] {
        assert_eq!(archive(at.clone()).expect(200)["time"]["archived"], at);
    }
    let before = house.client().get(&path).expect(200);
    assert_eq!(archive(Value::Null).expect(200), before, "null changes nothing");
    assert_eq!(house.client().patch(&path, &json!({ "time": {} })).expect(200), before);
    archive(json!("now")).expect(400);
}

#[test]
fn unknown_workspace_is_an_error_and_stores_nothing() {
    let house = ServerFixture::new();
    let refused = house.client().post("/session", &json!({ "workspaceID": "wrk_1" })).expect(404);
    assert_eq!(refused["data"]["message"], "Workspace not found: wrk_1");
    house.client().get("/session?workspace=wrk_1").expect(404);
    assert_eq!(house.client().get("/session").expect(200), json!([]));
}
