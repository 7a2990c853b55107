//! The document names every way in which a request may be refused.

use serde_json::Value;

use crate::support::ServerFixture;

#[test]
fn openapi_lists_guard_responses_for_every_operation() {
    let house = ServerFixture::new();
    let doc = house.client().get("/doc").expect(200);
    let items = doc["paths"].as_object().expect("paths").iter();
    let mut seen = 0;
    for (path, item) in items {
        for (method, operation) in item.as_object().expect("an item") {
            let responses = &operation["responses"];
            let takes = operation["requestBody"].is_object();
            let wanted = ["401", "403", "421", "429"].into_iter().chain(takes.then_some("408"));
            for status in wanted {
                let said = &responses[status];
                let content = said["$ref"].as_str().map_or(said, |name| {
                    doc.pointer(name.trim_start_matches('#')).unwrap_or(&Value::Null)
                });
                let schema = &content["content"]["application/json"]["schema"];
                assert!(schema.is_object(), "{method} {path}: {status} is {said}");
            }
            seen += 1;
        }
    }
    assert!(seen > 200, "{seen}");
}
