//! Every route wants the password.

use turnstone_server::Credentials;

use crate::support::{Client, House};

fn locked() -> House {
    House::with(|settings| {
        let (user, password) = ("opencode".to_owned(), "s3cret".to_owned());
        settings.credentials = Some(Credentials { user, password });
    })
}

/// `opencode:s3cret`, as a browser would say it.
const RIGHT: &str = "Basic b3BlbmNvZGU6czNjcmV0";

fn knowing(house: &House, password: &str) -> Client {
    house.client().with("authorization", password)
}

#[test]
fn every_route_wants_the_password_and_none_tells_it() {
    let house = locked();
    for path in ["/global/health", "/doc", "/event", "/nothing", "/turnstone/size", "/api/event"] {
        let answer = house.client().get(path);
        assert_eq!(answer.status, 401, "{path}");
        assert_eq!(answer.header("www-authenticate"), Some("Basic realm=\"Secure Area\""));
        assert!(!answer.text().contains("s3cret"));
    }
    let shown = knowing(&house, RIGHT).get("/config").text();
    assert!(!shown.contains("s3cret"), "{shown}");
}
