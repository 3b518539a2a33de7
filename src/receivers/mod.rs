//! The doors: OTLP over gRPC, OTLP over HTTP, and the native JSON POST.
//!
//! Each reads a bounded body, has it walked into intake's frame, waits for the receipt and answers in
//! its protocol's own form. What they share is here; only [`reply`] turns outcomes into codes.

mod body;
pub mod decode;
mod grpc;
mod http;
mod json;
mod reply;
mod response;

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::http::HeaderMap;
use axum::routing::{any, post};
use bytes::Bytes;

use crate::auth::Tokens;
use crate::config::Config;
use crate::frame::BlockBuilder;
use crate::intake::resends::{Digest, Resends, Seen, digest};
use crate::intake::{self, AddError, Intake, Permit, Receipt};
use crate::normalize::Context;
use crate::record::Receiver;
use crate::telemetry::Metrics;
use decode::{DecodeError, Outcome};
use reply::Reject;

/// What the receivers share.
#[derive(Clone)]
pub struct Door {
    intake: Intake,
    tokens: Tokens,
    config: Arc<Config>,
    metrics: Metrics,
    resends: Resends,
}

/// By what a request is recognized when it comes again.
#[derive(Debug, Clone, Copy)]
enum Identity {
    /// It is not.
    None,
    /// By its bytes, if their records have times of their own.
    Bytes { sender: u64 },
    /// By a key that its sender gave it.
    Key(Digest),
}

impl Door {
    /// The doors in front of `intake`.
    #[must_use]
    pub fn new(config: Arc<Config>, intake: Intake, metrics: Metrics, resends: Resends) -> Self {
        Self {
            intake,
            tokens: Tokens::new(&config.auth.ingest_tokens),
            config,
            metrics,
            resends,
        }
    }

    /// The routes of the OTLP ports. Both protocols are served on both ports, told apart by path, so
    /// that a sender with the two mixed up is served all the same.
    pub fn otlp_router(&self) -> Router {
        Router::new()
            .route(grpc::EXPORT_PATH, any(grpc::export))
            .route("/v1/logs", any(http::export))
            .route("/v1/logs/", any(http::export))
            .fallback(reply::unknown_path)
            .with_state(self.clone())
    }

    /// The routes that the web port has besides its own.
    pub fn web_router(&self) -> Router {
        Router::new()
            .route("/api/logs", post(json::accept))
            .route("/v1/logs", any(http::export))
            .with_state(self.clone())
    }

    /// Has a body walked into a frame, and waits until the queue has its records. One that was taken
    /// before is walked for the answer alone.
    async fn take(
        &self,
        receiver: Receiver,
        identity: Identity,
        body: Bytes,
        permit: Permit,
        wait: Duration,
        walk: impl FnOnce(&[u8], &Context, &mut BlockBuilder) -> Result<Outcome, DecodeError>,
    ) -> Result<(Outcome, Receipt), Reject> {
        let context = Context::new(receiver, unix_nanos(), &self.config);
        let wait = wait.min(self.config.limits.commit_timeout.duration());
        let deadline = Instant::now() + wait;
        let name = match identity {
            Identity::Bytes { sender } => Some(digest(&body, sender)),
            Identity::Key(digest) => Some(digest),
            Identity::None => None,
        };
        let ticket = match name.filter(|_| self.config.intake.dedup_resends) {
            None => None,
            Some(name) => match self.resends.begin(name, wait).await? {
                Seen::New(ticket) => Some(ticket),
                Seen::Before(receipt) => {
                    let outcome = walk(&body, &context, &mut BlockBuilder::new())?;
                    self.metrics.resent(receiver);
                    return Ok((outcome, receipt));
                }
            },
        };
        let added = self.intake.add_once(permit, |builder| {
            let before = builder.len();
            let outcome = walk(&body, &context, builder)?;
            // Records without a time look alike although each is one of its own.
            let anonymous = matches!(identity, Identity::Bytes { .. })
                && builder.has_time(before, context.received_at);
            Ok((outcome, ticket.filter(|_| !anonymous)))
        });
        // The body is copied into the frame; holding it while the commit is under way would double
        // the memory of every request that waits.
        drop(body);
        let (outcome, pending) = added?;
        let left = deadline.saturating_duration_since(Instant::now());
        let receipt = pending.receipt(left).await.map_err(|error| match error {
            intake::Error::Timeout(_) => intake::Error::Timeout(wait),
            other => other,
        })?;
        self.metrics
            .outcome(receiver, &outcome, receipt.num_records());
        Ok((outcome, receipt))
    }

    /// OTLP requests are recognized by their bytes.
    fn by_bytes(&self, headers: &HeaderMap) -> Identity {
        Identity::Bytes {
            sender: self.tokens.sender(headers),
        }
    }

    /// Native JSON requests are recognized by the key that they bring, if they do.
    fn by_key(&self, headers: &HeaderMap) -> Identity {
        match headers.get("idempotency-key") {
            Some(key) if !key.is_empty() => {
                let seed = !self.tokens.sender(headers);
                Identity::Key(digest(key.as_bytes(), seed))
            }
            _ => Identity::None,
        }
    }
}

impl From<intake::Error> for Reject {
    fn from(error: intake::Error) -> Self {
        Reject::Unavailable(error.to_string())
    }
}

impl From<AddError<DecodeError>> for Reject {
    fn from(error: AddError<DecodeError>) -> Self {
        match error {
            AddError::Intake(error) => error.into(),
            AddError::Walk(error) => error.into(),
        }
    }
}

impl From<DecodeError> for Reject {
    fn from(error: DecodeError) -> Self {
        match error {
            DecodeError::Expands { limit } => Reject::TooLarge {
                limit,
                what: "the request's records together",
            },
            DecodeError::Damaged { .. } | DecodeError::Empty => Reject::BadData(error.to_string()),
        }
    }
}

/// Now, in nanoseconds since the epoch.
fn unix_nanos() -> i64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}
