//! The router: all routes behind their guards, and what is answered where there is none.

use axum::Router;
use axum::http::{Method, StatusCode, Uri};
use axum::middleware::{from_fn, from_fn_with_state};
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{NotForContentType, Predicate, SizeAbove};

use super::{
    abort, agent, api, client_log, command, command_list, config, diff, empty_answers, event, file,
    find, fork, global_sessions, health, instance, mcp, message, native, not_offered, openapi,
    part, path, permission, project, prompt, provider, pty, question, revert, session, share,
    shell, skill, status, summarize, sync, tui, vcs, worktree,
};
use crate::app::AppState;
use crate::error::ApiError;
use crate::guard;
use crate::idempotency::idempotency_layer;
use crate::request_log;
use crate::response_encoding::encode_response;

/// Smaller answers are not worth the work.
const MIN_COMPRESSED_BYTES: u64 = 1024;

/// All routes behind their guards.
pub(crate) fn router(app: AppState) -> Router {
    let worth =
        SizeAbove::new(MIN_COMPRESSED_BYTES).and(NotForContentType::new("text/event-stream"));
    let routes = Router::new()
        .merge(abort::routes())
        .merge(agent::routes())
        .merge(api::routes())
        .merge(command::routes())
        .merge(command_list::routes())
        .merge(config::routes())
        .merge(openapi::routes())
        .merge(diff::routes())
        .merge(event::routes())
        .merge(file::routes())
        .merge(find::routes())
        .merge(fork::routes())
        .merge(global_sessions::routes())
        .merge(health::routes())
        .merge(instance::routes())
        .merge(client_log::routes())
        .merge(message::routes())
        .merge(native::routes())
        .merge(not_offered::routes())
        .merge(part::routes())
        .merge(path::routes())
        .merge(permission::routes())
        .merge(project::routes())
        .merge(prompt::routes())
        .merge(provider::routes())
        .merge(pty::routes())
        .merge(question::routes())
        .merge(revert::routes())
        .merge(session::routes())
        .merge(share::routes())
        .merge(shell::routes())
        .merge(mcp::routes())
        .merge(skill::routes())
        .merge(empty_answers::routes())
        .merge(status::routes())
        .merge(summarize::routes())
        .merge(sync::routes())
        .merge(tui::routes())
        .merge(vcs::routes())
        .merge(worktree::routes())
        .fallback(unknown_route)
        .method_not_allowed_fallback(method_not_allowed);
    routes
        .layer(from_fn_with_state(app.clone(), idempotency_layer))
        .layer(from_fn_with_state(app.clone(), guard::restrict))
        .layer(from_fn(encode_response))
        .layer(CompressionLayer::new().gzip(true).compress_when(worth))
        .layer(CatchPanicLayer::custom(panic_response))
        .layer(from_fn_with_state(app.clone(), guard::check_request))
        .layer(from_fn_with_state(app.clone(), request_log::log_request))
        .with_state(app)
}

/// OpenCode answers what it does not know with its web page; here it is an error a client can tell.
async fn unknown_route(method: Method, uri: Uri) -> ApiError {
    ApiError::NotFound(format!("Route not found: {method} {}", uri.path()))
}

/// The path exists for other methods; the header `Allow` lists them.
async fn method_not_allowed(method: Method, uri: Uri) -> ApiError {
    let message = format!("{} is not for {method}", uri.path());
    ApiError::tagged(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowedError", &message)
}

/// A panic in one request fails that request alone.
#[expect(clippy::needless_pass_by_value, reason = "the layer hands the panic over")]
fn panic_response(panic: Box<dyn std::any::Any + Send>) -> axum::response::Response {
    let words = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let words = words.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
    let error = std::io::Error::other(format!("panic: {words}"));
    axum::response::IntoResponse::into_response(ApiError::unexpected(&error))
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::http::Request;
    use hyper::service::Service as _;
    use hyper_util::service::TowerToHyperService;

    use super::*;

    #[test]
    fn panic_fails_only_its_own_request() {
        async fn may_panic(uri: Uri) {
            assert_eq!(uri.path(), "/works", "on purpose");
        }
        let router =
            Router::new().fallback(may_panic).layer(CatchPanicLayer::custom(panic_response));
        let service = TowerToHyperService::new(router);
        let ask = async |path: &str| {
            let request = Request::get(path).body(Body::empty()).expect("a request");
            service.call(request).await.expect("an answer").status()
        };
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let answers = runtime
            .block_on(async { [ask("/panics").await, ask("/works").await, ask("/panics").await] });
        let broken = StatusCode::INTERNAL_SERVER_ERROR;
        assert_eq!(answers, [broken, StatusCode::OK, broken]);
    }
}
