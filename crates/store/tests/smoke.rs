//! The shortest way through the store: written, read, followed, recovered.
use serde_json::json;
use turnstone_core::id::{SessionId, TurnId};
use turnstone_core::model::*;
use turnstone_core::time::*;
use turnstone_core::turn::*;
use turnstone_store::*;

fn open(dir: &std::path::Path) -> Store {
    Store::open(&Options::new(Layout::new(dir), Millis(1))).expect("opens")
}

#[test]
fn a_turn_is_written_read_and_recovered() {
    let dir = tempfile::tempdir().expect("temp dir");
    let ctx = Context::new(Actor::new("ada").expect("actor"), Millis(1000));
    let id: SessionId = "ses_one".parse().expect("id");
    {
        let store = open(dir.path());
        let project: Project = serde_json::from_value(json!({"id":"p1","worktree":"/home/ada/p","time":{"created":1,"updated":1}})).expect("project");
        let session: Session = serde_json::from_value(json!({"id":"ses_one","slug":"s","projectID":"p1","directory":"/home/ada/p","title":"T","version":"1","time":{"created":1,"updated":1}})).expect("session");
        store.write(&ctx, move |tx| { tx.put_project(&project)?; tx.create_session(&session) }).wait().expect("created");
        let lease = store.lease(&ctx, &id, Takeover::IfDead).expect("lease");
        let ctx = ctx.clone().leased(&lease);
        let user: MessageBody = serde_json::from_value(json!({"role":"user","time":{"created":1},"agent":"build","model":{"providerID":"p","modelID":"m"}})).expect("user");
        let turn: TurnId = "trn_1".parse().expect("id");
        let new = NewTurn { id: turn.clone(), message: Message { id: "msg_1".parse().expect("id"), session: id.clone(), body: user }, parts: vec![] };
        store.write(&ctx, move |tx| tx.begin_turn(&new)).wait().expect("begun");
        let (s, t) = (id.clone(), turn.clone());
        store.write(&ctx, move |tx| tx.move_turn(&s, &t, &TurnEvent::Started)).wait().expect("started");
        let body: MessageBody = serde_json::from_value(json!({"role":"assistant","time":{"created":2},"parentID":"msg_1","modelID":"m","providerID":"p","mode":"build","path":{"cwd":"/","root":"/"},"cost":0,"tokens":{"input":0,"output":0,"reasoning":0,"cache":{"read":0,"write":0}}})).expect("assistant");
        let message = Message { id: "msg_2".parse().expect("id"), session: id.clone(), body };
        let text = Part { id: "prt_1".parse().expect("id"), session: id.clone(), message: message.id.clone(), body: serde_json::from_value(json!({"type":"text","text":"","time":{"start":3}})).expect("text") };
        let tool = Part { id: "prt_2".parse().expect("id"), session: id.clone(), message: message.id.clone(), body: serde_json::from_value(json!({"type":"tool","callID":"c","tool":"bash","state":{"status":"running","input":{},"time":{"start":3}}})).expect("tool") };
        store.write(&ctx, move |tx| { tx.put_message(&message)?; tx.put_part(&text)?; tx.put_part(&tool) }).wait().expect("parts");
        for word in ["Hel", "lo ", "wörld"] {
            let s = id.clone();
            store.write(&ctx, move |tx| tx.append_text(&s, &"prt_1".parse().expect("id"), word)).wait().expect("delta");
        }
        assert_eq!(store.read(&ctx, |r| r.status(&id)).expect("status"), Status::Busy);
    }
    let store = open(dir.path());
    assert_eq!(store.recovered().interrupted.len(), 1);
    let page = store.read(&ctx, |r| r.list_messages(&id, None, 10)).expect("messages");
    println!("{page:#?}");
    let PartBody::Text(text) = &page.items[1].parts[0].body else { panic!("text") };
    assert_eq!(text.text, "Hello wörld");
    assert!(text.time.as_ref().is_some_and(|t| t.end.is_some()));
    let PartBody::Tool(tool) = &page.items[1].parts[1].body else { panic!("tool") };
    assert!(matches!(tool.state, ToolState::Error { .. }));
    let log = store.read(&ctx, |r| r.log_after(Cursor(0), 100)).expect("log");
    for e in &log.events { println!("{} {:?} {} {:?} {:?}", e.cursor, e.seq, e.kind, e.delta, e.sync_seq); }
    let seqs: Vec<i64> = log.events.iter().filter_map(|e| e.seq).map(|s| s.0).collect();
    assert_eq!(seqs, (1..=seqs.len() as i64).collect::<Vec<_>>());
}
