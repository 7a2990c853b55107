//! What a runner may do: a list of routes, everything else is refused.
//!
//! A runner drives turns and reads. It may ask for a permission but not answer one, set no rule, and undo
//! or delete nothing unless a person was asked, which the gate of the engine does.

use axum::extract::{MatchedPath, Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::app::App;
use crate::call;
use crate::error::ApiError;

/// The routes that change something and are open to runners. Those of a turn need its lease as well.
const OPEN: [(&str, &str); 17] = [
    ("DELETE", "/turnstone/runner/{runner}"),
    ("POST", "/turnstone/session/{session}/turn"),
    ("POST", "/turnstone/session/{session}/resume"),
    ("POST", "/turnstone/session/{session}/undo"),
    ("POST", "/turnstone/session/{session}/redo"),
    ("POST", "/turnstone/session/{session}/jump"),
    ("POST", "/turnstone/session/{session}/checkpoint"),
    ("DELETE", "/turnstone/session/{session}/checkpoint/{name}"),
    ("POST", "/session"),
    ("PATCH", "/session/{session}"),
    ("DELETE", "/session/{session}"),
    ("POST", "/session/{session}/revert"),
    ("POST", "/session/{session}/unrevert"),
    ("POST", "/api/session/{session}/revert/stage"),
    ("POST", "/api/session/{session}/revert/clear"),
    ("POST", "/api/session/{session}/permission"),
    ("POST", "/log"),
];

/// The calls of a turn.
const OF_A_TURN: &str = "/turnstone/session/{session}/turn/{turn}/";

/// Lets requests without a token through; those of runners only to what is open to them.
pub(crate) async fn restrict(State(app): State<App>, request: Request, next: Next) -> Response {
    match call::runner(request.headers(), &app) {
        Ok(None) => {}
        Ok(Some(_)) => {
            let route = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
            if !is_open(request.method(), route) {
                let words = "this is not for runners: a person has to do it";
                return ApiError::not_for_runners(words).into_response();
            }
        }
        Err(error) => return error.into_response(),
    }
    next.run(request).await
}

/// True if a runner may call this; a path without a route is answered as one by the router.
fn is_open(method: &Method, route: Option<&str>) -> bool {
    let Some(route) = route else { return true };
    let reads = matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
    reads
        || (*method == Method::POST && route.starts_with(OF_A_TURN))
        || OPEN.contains(&(method.as_str(), route))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runners_drive_turns_and_do_not_answer_or_set_rules() {
        for (method, route) in [
            ("POST", "/turnstone/session/{session}/turn/{turn}/tool"),
            ("GET", "/session/{session}"),
            ("POST", "/session"),
        ] {
            let method = method.parse().expect("a method");
            assert!(is_open(&method, Some(route)), "{method} {route}");
        }
        for (method, route) in [
            ("POST", "/permission/{request}/reply"),
            ("POST", "/session/{session}/permissions/{request}"),
            ("POST", "/api/session/{session}/permission/{request}/reply"),
            ("POST", "/question/{request}/reply"),
            ("DELETE", "/api/permission/saved/{id}"),
            ("POST", "/session/{session}/message"),
            ("POST", "/session/{session}/shell"),
            ("POST", "/tui/submit-prompt"),
            ("POST", "/turnstone/runner"),
            ("PATCH", "/project/{project}"),
            ("POST", "/a/route/that/is/new"),
        ] {
            let method = method.parse().expect("a method");
            assert!(!is_open(&method, Some(route)), "{method} {route}");
        }
    }
}
