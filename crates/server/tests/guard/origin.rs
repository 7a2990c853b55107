//! Requests of web pages: only pages of this server and of allowed origins are answered.

use turnstone_server::Credentials;

use crate::support::{HttpAnswer, ServerFixture, TestClient};

/// Origins that no page allowed to ask has; `OTHER` is another port of the same machine.
const FOREIGN: [&str; 16] = [
    "null",
    "",
    "http://localhost:3000",
    "http://127.0.0.1:1",
    "http://localhost",
    "http://tauri.localhost",
    "https://tauri.localhost",
    "tauri://localhost.evil.example",
    "oc://renderer/x",
    "https://app.opencode.ai",
    "https://evil.example",
    "https://my.example.evil.example",
    "http://my.example",
    "https://my.example, https://evil.example",
    "file://",
    "chrome-extension://abc",
];

fn server_with_origin() -> ServerFixture {
    ServerFixture::with_settings(|settings| {
        settings.origins = vec!["https://my.example".to_owned()]
    })
}

fn server_with_password() -> ServerFixture {
    ServerFixture::with_settings(|settings| {
        let (user, password) = ("opencode".to_owned(), "s3cret".to_owned());
        settings.credentials = Some(Credentials { user, password });
    })
}

/// Asserts that the request was refused for its origin and that no header lets a page read the answer.
fn assert_forbidden(answer: &HttpAnswer, of: &str) {
    assert_eq!(answer.status, 403, "{of}: {}", answer.text());
    if !answer.body.is_empty() {
        assert_eq!(answer.json()["_tag"], "ForbiddenOrigin", "{of}");
        assert!(!answer.text().contains("evil.example"), "{of}: the origin is repeated");
    }
    let cors = answer.headers.iter().find(|(name, _)| name.starts_with("access-control-"));
    assert_eq!(cors, None, "{of}");
    assert_eq!(answer.header("vary"), Some("Origin, Sec-Fetch-Site"), "{of}");
}

/// Every method and path of the document, with `x` for each parameter, and some paths that are not there.
fn operations(house: &ServerFixture) -> Vec<(String, String)> {
    let doc = house.client().get("/doc").expect(200);
    let mut found = Vec::new();
    for (path, item) in doc["paths"].as_object().expect("paths") {
        let parts = path.split('/').map(|part| if part.starts_with('{') { "x" } else { part });
        let path = parts.collect::<Vec<_>>().join("/");
        for method in item.as_object().expect("an item").keys() {
            found.push((method.to_uppercase(), path.clone()));
        }
    }
    for path in ["/", "/nothing", "/doc"] {
        for method in ["GET", "HEAD", "OPTIONS", "POST", "PUT", "TRACE"] {
            found.push((method.to_owned(), path.to_owned()));
        }
    }
    assert!(found.len() > 200, "{}", found.len());
    found
}

#[test]
fn foreign_pages_are_refused_on_every_method_and_route() {
    let house = server_with_origin();
    let page = house.client().with_header("origin", "https://evil.example");
    let image = house.client().with_header("sec-fetch-site", "cross-site");
    for (method, path) in operations(&house) {
        for client in [&page, &image] {
            let body = matches!(method.as_str(), "POST" | "PUT" | "PATCH").then_some(&b"{}"[..]);
            assert_forbidden(&client.send(&method, &path, body), &format!("{method} {path}"));
        }
    }
}

#[test]
fn origins_not_allowed_are_rejected() {
    let house = server_with_origin();
    for origin in FOREIGN {
        let page = house.client().with_header("origin", origin);
        for method in ["GET", "HEAD", "OPTIONS", "POST"] {
            assert_forbidden(&page.send(method, "/session", None), origin);
        }
        // Nor does a browser that calls the request its own make it one.
        assert_forbidden(
            &page.with_header("sec-fetch-site", "same-origin").get("/session"),
            origin,
        );
    }
    let twice = house.client().with_header("origin", "https://my.example");
    assert_forbidden(&twice.with_header("origin", "https://my.example").get("/session"), "twice");
    assert_eq!(house.client().get("/session").expect(200), serde_json::json!([]));
}

#[test]
fn allowed_origins_get_cors_headers() {
    let house = server_with_origin();
    let address = house.address();
    let own = format!("http://{address}");
    for origin in [own.as_str(), "https://my.example", "tauri://localhost", "oc://renderer"] {
        let page = house.client().with_header("origin", origin);
        let answer = page.get("/session");
        answer.expect(200);
        assert_eq!(answer.header("access-control-allow-origin"), Some(origin));
        assert_eq!(answer.header("cross-origin-resource-policy"), Some("same-origin"));
        let asked = page
            .with_header("access-control-request-method", "POST")
            .with_header("access-control-request-headers", "content-type")
            .with_header("access-control-request-private-network", "true")
            .send("OPTIONS", "/session", None);
        assert_eq!(asked.status, 204);
        assert_eq!(asked.header("access-control-allow-origin"), Some(origin));
        assert_eq!(asked.header("access-control-allow-headers"), Some("content-type"));
        assert_eq!(asked.header("access-control-allow-private-network"), None);
    }
    let named = house.client().with_header("host", &format!("localhost:{}", address.port()));
    named
        .with_header("origin", &format!("http://localhost:{}", address.port()))
        .get("/path")
        .expect(200);
    assert_forbidden(
        &named.with_header("origin", &own).get("/path"),
        "another name of this server",
    );
}

#[test]
fn sec_fetch_site_decides_without_origin() {
    let house = server_with_origin();
    let site = |site: &str| house.client().with_header("sec-fetch-site", site);
    for here in ["same-origin", "none"] {
        site(here).get("/session").expect(200);
    }
    for elsewhere in ["cross-site", "same-site", "", "Same-Origin?", "none, same-origin"] {
        assert_forbidden(&site(elsewhere).get("/session"), elsewhere);
        let own = format!("http://{}", house.address());
        assert_forbidden(&site(elsewhere).with_header("origin", &own).get("/session"), elsewhere);
        // Pages elsewhere that are allowed are cross-site by nature.
        for origin in ["https://my.example", "tauri://localhost", "oc://renderer"] {
            site(elsewhere).with_header("origin", origin).get("/session").expect(200);
        }
    }
    assert_forbidden(&site("none").with_header("sec-fetch-site", "none").get("/session"), "twice");
    // Node.js sends its own mode, and no site.
    house.client().with_header("sec-fetch-mode", "cors").get("/session").expect(200);
}

#[test]
fn password_does_not_admit_foreign_origins() {
    let house = server_with_password();
    // What a browser adds by itself once the user has signed in.
    let signed_in = house.client().with_header("authorization", "Basic b3BlbmNvZGU6czNjcmV0");
    signed_in.get("/session").expect(200);
    for origin in FOREIGN {
        assert_forbidden(&signed_in.with_header("origin", origin).get("/session"), origin);
        assert_forbidden(&house.client().with_header("origin", origin).get("/session"), origin);
    }
    assert_forbidden(
        &signed_in.with_header("sec-fetch-site", "cross-site").get("/session"),
        "image",
    );
    // A proxy adds TLS and has a name of its own.
    let proxied =
        signed_in.with_header("host", "box.example").with_header("sec-fetch-site", "same-origin");
    proxied.with_header("origin", "https://box.example").get("/session").expect(200);
    assert_forbidden(
        &proxied.with_header("origin", "https://evil.example").get("/session"),
        "proxied",
    );
}

#[test]
fn upgrades_and_event_streams_of_foreign_pages_are_refused() {
    let house = server_with_origin();
    let upgrade = |client: TestClient| {
        let client =
            client.with_header("upgrade", "websocket").with_header("sec-websocket-version", "13");
        client.with_header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==")
    };
    for path in ["/event", "/global/event", "/api/event", "/api/pty/x/connect", "/pty/x/connect"] {
        let page = house.client().with_header("origin", "http://localhost:3000");
        assert_forbidden(&page.get(path), path);
        assert_forbidden(&upgrade(page).get(path), path);
    }
}

#[test]
fn rebound_host_is_not_an_own_origin() {
    let house = server_with_origin();
    let page = house
        .client()
        .with_header("host", "evil.example")
        .with_header("origin", "http://evil.example");
    assert_forbidden(&page.get("/session"), "a name that resolves to this machine");
    assert_forbidden(&page.send("OPTIONS", "/session", None), "its preflight");
}
