//! A password cannot be found out by trying.

use std::sync::atomic::{AtomicI64, Ordering};

use turnstone_core::time::Millis;
use turnstone_server::Credentials;

use crate::support::{Client, House};

/// The clock of these servers goes on when a test says so.
static NOW: AtomicI64 = AtomicI64::new(1_790_000_000_000);

fn locked() -> House {
    House::with(|settings| {
        settings.clock = || Millis(NOW.load(Ordering::SeqCst));
        let (user, password) = ("opencode".to_owned(), "s3cret".to_owned());
        settings.credentials = Some(Credentials { user, password });
    })
}

/// `opencode:s3cret` and `opencode:guess`, as a browser would say them.
const RIGHT: &str = "Basic b3BlbmNvZGU6czNjcmV0";
const WRONG: &str = "Basic b3BlbmNvZGU6Z3Vlc3M=";

fn knowing(house: &House, password: &str) -> Client {
    house.client().with("authorization", password)
}

#[test]
fn whoever_tries_one_password_after_the_other_is_soon_told_to_wait() {
    let house = locked();
    knowing(&house, RIGHT).get("/global/health").expect(200);
    let wrong = knowing(&house, WRONG);
    let mut tries = 0;
    let refused = loop {
        let answer = wrong.get("/api/session");
        if answer.status != 401 {
            break answer;
        }
        tries += 1;
        assert!(tries < 1_000, "nobody counts");
    };
    assert_eq!(refused.expect(429)["_tag"], "TooManyRequests");
    assert!(refused.header("retry-after").is_some());
    assert_eq!(tries, 100, "a client that was told the wrong one asks for much at its start");
    // While it waits even the right one is not looked at, so that no answer tells which one it was.
    assert_eq!(knowing(&house, RIGHT).get("/global/health").status, 429);
    NOW.fetch_add(1_000, Ordering::SeqCst);
    knowing(&house, RIGHT).get("/global/health").expect(200);
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
