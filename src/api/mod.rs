//! The web port's routes for readers: the page, the live stream, search, status.
//!
//! Every answer that is not a success has one shape, [`ApiError`]. Reading asks for a read token
//! when there are any ([`auth`]); while there are none, requests must name this machine, so that no
//! web page elsewhere can read logs through a visitor's browser ([`host`]). The page itself holds no
//! data and is served to anybody.

mod auth;
mod error;
mod explore;
mod export;
mod fields;
#[cfg(fuzzing)]
pub mod fuzzing;
mod host;
mod params;
mod search;
mod status;
mod stream;
pub(crate) mod times;

#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{get, post};
use futures_util::future::BoxFuture;

pub(crate) use auth::require as require_reader;
pub use error::ApiError;
pub use explore::{Buckets, Context, Histogram};
pub use fields::{Counted, FieldName, FieldsQuery};
pub(crate) use host::named as named_host;
pub use search::{Order, Position, SearchBackend, SearchError, SearchPage, SearchQuery};
pub use status::{
    DamageStatus, DiskStatus, Meta, Ports, RedisStatus, SpillStatus, Status, StoreStatus,
};

use crate::config::Secret;
use crate::live::{Hub, Seats};

/// Answers `/api/status`.
pub type StatusSource = Arc<dyn Fn() -> BoxFuture<'static, Status> + Send + Sync>;
/// Answers `/readyz`: ready, with what is worth knowing all the same, or why not.
pub type ReadySource = Arc<dyn Fn() -> Result<Option<String>, String> + Send + Sync>;

/// What the routes need of the rest of the daemon.
pub struct ApiParts {
    /// The live hub.
    pub hub: Hub,
    /// How many may watch.
    pub seats: Seats,
    /// The store, for `GET /api/logs`.
    pub search: Arc<dyn SearchBackend>,
    /// The status panel's figures.
    pub status: StatusSource,
    /// Whether the daemon can take logs.
    pub ready: ReadySource,
    /// What does not change while the daemon runs.
    pub meta: Meta,
    /// Tokens that may read; none means that everybody may.
    pub read_tokens: tokio::sync::watch::Receiver<Arc<[Secret]>>,
    /// Names by which this machine may be addressed while there is no read token, beside those that
    /// cannot be somebody else's. The machine's own host name belongs here.
    pub host_names: Vec<String>,
}

/// The routes' shared state; cheap to clone.
#[derive(Clone)]
pub struct ApiState(Arc<ApiParts>);

impl ApiState {
    /// Puts the parts together.
    #[must_use]
    pub fn new(parts: ApiParts) -> Self {
        Self(Arc::new(parts))
    }
}

impl ApiState {
    /// The tokens that may read at this moment.
    fn read_tokens(&self) -> Arc<[Secret]> {
        Arc::clone(&self.0.read_tokens.borrow())
    }
}

impl std::ops::Deref for ApiState {
    type Target = ApiParts;

    fn deref(&self) -> &ApiParts {
        &self.0
    }
}

/// The client's address, put into a request's extensions by the one who accepts connections. Where
/// it is missing, axum's `ConnectInfo` is used.
#[derive(Debug, Clone, Copy)]
pub struct ClientAddress(pub IpAddr);

/// Longest time for an answer that is not a stream. Searches have their own limits below it.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// The routes of the web port for readers. The intake's routes and `/metrics` are merged beside it.
pub fn router(state: ApiState) -> Router {
    let answers = Router::new()
        .route("/api/logs", get(search::get))
        .route("/api/logs/histogram", get(explore::histogram))
        .route("/api/logs/{id}", get(explore::record))
        .route("/api/logs/{id}/context", get(explore::context))
        .route("/api/fields", get(fields::fields))
        .route("/api/fields/{name}/values", get(fields::values))
        .route("/api/status", get(status::status))
        .route("/api/meta", get(status::meta))
        .layer(from_fn(time_out));
    let readers = answers
        .route("/api/logs/stream", get(stream::get))
        .route("/api/logs/export", get(export::get))
        .route_layer(from_fn_with_state(state.clone(), auth::require))
        .route("/api/session", post(auth::sign_in).delete(auth::sign_out))
        .merge(crate::web::router())
        .layer(from_fn_with_state(state.clone(), host::require));
    Router::new()
        .route("/healthz", get(status::healthz))
        .route("/readyz", get(status::readyz))
        .merge(readers)
        .with_state(state)
}

/// Answers a path that there is not.
#[must_use]
pub fn unknown_path(request: &axum::extract::Request) -> ApiError {
    let path: String = request.uri().path().chars().take(200).collect();
    ApiError::new(
        http::StatusCode::NOT_FOUND,
        "not_found",
        format!("nothing at {path}"),
    )
    .hint(
        "the page is at /, the API under /api/; logs are taken by POST /api/logs (plain JSON) and \
         POST /v1/logs (OTLP)",
    )
}

/// Answers a method that a path does not have; the `Allow` header says which it has.
#[must_use]
pub fn unknown_method(method: &http::Method) -> ApiError {
    ApiError::new(
        http::StatusCode::METHOD_NOT_ALLOWED,
        "method_not_allowed",
        format!("{method} is not for this path"),
    )
    .hint("the header `Allow` says which methods are; logs are taken by POST /api/logs and POST /v1/logs")
}

async fn time_out(
    request: axum::extract::Request,
    next: axum::middleware::Next,
) -> Result<axum::response::Response, ApiError> {
    tokio::time::timeout(ANSWER_TIMEOUT, next.run(request))
        .await
        .map_err(|_| {
            ApiError::unavailable("the answer took too long").hint("narrow the time range")
        })
}
