//! Every route wants the password.

use turnstone_server::Credentials;

use crate::support::{ServerFixture, TestClient};

fn server_with_password() -> ServerFixture {
    ServerFixture::with_settings(|settings| {
        let (user, password) = ("opencode".to_owned(), "s3cret".to_owned());
        settings.credentials = Some(Credentials { user, password });
    })
}

/// `opencode:s3cret`, as a browser would say it.
const RIGHT: &str = "Basic b3BlbmNvZGU6czNjcmV0";

fn client_with_password(house: &ServerFixture, password: &str) -> TestClient {
    house.client().with_header("authorization", password)
}

#[test]
fn every_route_requires_the_password_and_never_reveals_it() {
    let house = server_with_password();
    for path in ["/global/health", "/doc", "/event", "/nothing", "/turnstone/size", "/api/event"] {
        let answer = house.client().get(path);
        assert_eq!(answer.status, 401, "{path}");
        assert_eq!(answer.header("www-authenticate"), Some("Basic realm=\"Secure Area\""));
        assert!(!answer.text().contains("s3cret"));
    }
    let shown = client_with_password(&house, RIGHT).get("/config").text();
    assert!(!shown.contains("s3cret"), "{shown}");
}
