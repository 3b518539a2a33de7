//! What every request to a receiver goes through first, and the way past the router for those that come by
//! the thousands.

use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use ::http::HeaderMap;
use ::http::header::CONTENT_TYPE;
use axum::extract::{Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::Response;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tracing::error;

use super::caller;
use super::encoding::{Encoding, is_grpc};
use super::reply::Reject;
use super::{Door, cors, envelope, grpc, http, json};
use crate::server::{Quick, asking};

/// The layer around the receivers' routes.
pub(super) async fn layer(State(door): State<Arc<Door>>, request: Request, next: Next) -> Response {
    let peer = caller::peer(request.extensions());
    guarded(&door, request, peer, |request| next.run(request)).await
}

/// Answers what pages ask first and what is wrong as such, and hands on the rest.
async fn guarded<A: Future<Output = Response>>(
    door: &Door,
    request: Request,
    peer: Option<SocketAddr>,
    next: impl FnOnce(Request) -> A,
) -> Response {
    if door.config.cors.is_on() {
        let next = |request| checked(door, request, peer, next);
        return cors::allow(&door.config, request, next).await;
    }
    checked(door, request, peer, next).await
}

async fn checked<A: Future<Output = Response>>(
    door: &Door,
    request: Request,
    peer: Option<SocketAddr>,
    next: impl FnOnce(Request) -> A,
) -> Response {
    let content_type = request.headers().get(CONTENT_TYPE).cloned();
    let headers = || HeaderMap::from_iter(content_type.map(|value| (CONTENT_TYPE, value)));
    let answer = async {
        let wrong = envelope::wrong(&request).or_else(|| door.too_many(peer, request.headers()));
        match wrong {
            None => next(request).await,
            Some(reject) => envelope::refuse(door, request, peer, reject).await,
        }
    };
    answer_panics(headers, answer).await
}

/// Answers 500 where a handler panicked. Without an answer the sender would send the same request
/// again and again.
async fn answer_panics(
    headers: impl FnOnce() -> HeaderMap,
    answer: impl Future<Output = Response>,
) -> Response {
    let answer = AssertUnwindSafe(answer).catch_unwind().await;
    answer.unwrap_or_else(|_| {
        error!("a receiver panicked; the request was answered with an internal error");
        let headers = headers();
        if is_grpc(&headers) {
            Reject::Bug.into_grpc()
        } else {
            Reject::Bug.into_http(Encoding::of_answer(&headers))
        }
    })
}

/// The ports, by what is taken on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// For OTLP over gRPC and HTTP; the path of the latter can be set.
    Otlp,
    /// For OTLP over HTTP, plain JSON, the page and its API.
    Web,
}

/// A receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Grpc,
    Http,
    Json,
}

impl Door {
    /// Takes POSTs to the receivers' own paths past the router, to the same handlers. For a request with one
    /// record the router and its layers did two thirds of the allocations (35 of 56), and took as long as
    /// all that is done with the record.
    #[must_use]
    #[expect(
        clippy::result_large_err,
        reason = "a request that is given back is moved once more, which a box would do too"
    )]
    pub fn quick(&self, at: At) -> Quick {
        let door = Arc::new(self.clone());
        Arc::new(move |request, peer| {
            let Some(kind) = door.quick_kind(at, &request) else {
                return Err(request);
            };
            Ok(Arc::clone(&door).answer(kind, request, peer))
        })
    }

    fn too_many(&self, peer: Option<SocketAddr>, headers: &HeaderMap) -> Option<Reject> {
        if !self.rates.is_on() {
            return None;
        }
        let allowed = self
            .rates
            .allows(asking(peer?.ip(), headers), Instant::now());
        (!allowed).then(|| Reject::Rate(self.config.limits.requests_per_address))
    }

    fn quick_kind(&self, at: At, request: &Request) -> Option<Kind> {
        if request.method() != Method::POST {
            return None;
        }
        match (at, request.uri().path()) {
            (At::Otlp, grpc::EXPORT_PATH) => Some(Kind::Grpc),
            (At::Otlp, path) if path == self.config.otlp.path => Some(Kind::Http),
            (At::Web, "/v1/logs") => Some(Kind::Http),
            (At::Web, "/api/logs") => Some(Kind::Json),
            _ => None,
        }
    }

    fn answer(
        self: Arc<Self>,
        kind: Kind,
        request: Request,
        peer: SocketAddr,
    ) -> BoxFuture<'static, Response> {
        let (door, peer) = (self, Some(peer));
        match kind {
            Kind::Grpc => Box::pin(async move {
                guarded(&door, request, peer, |request| {
                    grpc::answer(&door, request, peer)
                })
                .await
            }),
            Kind::Http => Box::pin(async move {
                guarded(&door, request, peer, |request| {
                    http::answer(&door, request, peer)
                })
                .await
            }),
            Kind::Json => Box::pin(async move {
                guarded(&door, request, peer, |request| {
                    json::answer(&door, request, peer)
                })
                .await
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn h_25_a_panic_is_a_500_and_not_a_lost_connection() {
        let answer = answer_panics(HeaderMap::new, async { panic!("made by the test") }).await;
        assert_eq!(answer.status(), 500);
        let grpc = || HeaderMap::from_iter([(CONTENT_TYPE, "application/grpc".parse().unwrap())]);
        let answer = answer_panics(grpc, async { panic!("made by the test") }).await;
        assert_eq!(answer.headers()["grpc-status"], "13");
    }
}
