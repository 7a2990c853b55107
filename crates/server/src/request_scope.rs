//! What most handlers take: the server, the caller, and the directory or session the request is about.

use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;
use turnstone_core::id::SessionId;
use turnstone_core::time::LogCursor;
use turnstone_store::Context;

use crate::app::AppState;
use crate::error::ApiError;
use crate::project_directory::{ProjectDirectory, RequestedDirectory, require_project_directory};
use crate::request_context::{RequestContext, RetryAwareContext};
use crate::request_input::parse_path_id;

/// A request about a directory.
pub(crate) struct DirectoryRequest {
    /// The server.
    pub(crate) app: AppState,
    /// The caller.
    pub(crate) ctx: Context,
    /// The directory the request names.
    pub(crate) asked: RequestedDirectory,
}

impl FromRequestParts<AppState> for DirectoryRequest {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &AppState) -> Result<Self, ApiError> {
        let RequestContext(ctx) = RequestContext::from_request_parts(parts, app).await?;
        let asked = RequestedDirectory::from_request_parts(parts, app).await?;
        Ok(Self { app: app.clone(), ctx, asked })
    }
}

impl DirectoryRequest {
    /// Runs `work` where it may block, with the directory as the request names it.
    pub(crate) async fn run<T, F>(self, work: F) -> Result<T, ApiError>
    where
        T: Send + 'static,
        F: FnOnce(&AppState, &Context, RequestedDirectory) -> Result<T, ApiError> + Send + 'static,
    {
        let Self { app, ctx, asked } = self;
        app.run_blocking(move |app| work(app, &ctx, asked)).await
    }

    /// Runs `work` where it may block, with the project of the directory; 404 if it does not exist.
    pub(crate) async fn in_project<T, F>(self, work: F) -> Result<T, ApiError>
    where
        T: Send + 'static,
        F: FnOnce(&AppState, &Context, ProjectDirectory) -> Result<T, ApiError> + Send + 'static,
    {
        self.run(move |app, ctx, asked| {
            work(app, ctx, require_project_directory(app, ctx, &asked.directory)?)
        })
        .await
    }
}

/// A request about the session in its path. `C` is how a repeat of it is treated: a [`RequestContext`] refuses
/// one that was cut off, with a [`RetryAwareContext`] the handler finishes it.
pub(crate) struct SessionRequest<C = RequestContext> {
    /// The server.
    pub(crate) app: AppState,
    /// The caller.
    pub(crate) caller: C,
    /// The session in the path.
    pub(crate) id: SessionId,
}

impl<C> FromRequestParts<AppState> for SessionRequest<C>
where
    C: FromRequestParts<AppState, Rejection = ApiError> + Send,
{
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &AppState) -> Result<Self, ApiError> {
        let caller = C::from_request_parts(parts, app).await?;
        let params = RawPathParams::from_request_parts(parts, app).await;
        let params = params.map_err(|error| ApiError::invalid_params(error.body_text()))?;
        let session = params.iter().find(|(name, _)| *name == "session");
        let text = session.map(|(_, text)| text).unwrap_or_default();
        Ok(Self { app: app.clone(), caller, id: parse_path_id("sessionID", "ses", text)? })
    }
}

impl SessionRequest<RequestContext> {
    /// Runs `work` where it may block.
    pub(crate) async fn run<T, F>(self, work: F) -> Result<T, ApiError>
    where
        T: Send + 'static,
        F: FnOnce(&AppState, &Context, &SessionId) -> Result<T, ApiError> + Send + 'static,
    {
        let Self { app, caller: RequestContext(ctx), id } = self;
        app.run_blocking(move |app| work(app, &ctx, &id)).await
    }
}

impl SessionRequest<RetryAwareContext> {
    /// Runs `work` where it may block; it also gets the first event of an earlier try that was cut off.
    pub(crate) async fn run<T, F>(self, work: F) -> Result<T, ApiError>
    where
        T: Send + 'static,
        F: FnOnce(&AppState, &Context, Option<LogCursor>, &SessionId) -> Result<T, ApiError>
            + Send
            + 'static,
    {
        let Self { app, caller: RetryAwareContext(ctx, began), id } = self;
        app.run_blocking(move |app| work(app, &ctx, began, &id)).await
    }
}
