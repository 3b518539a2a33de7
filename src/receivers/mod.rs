//! The doors: OTLP over gRPC, OTLP over HTTP, and the native JSON POST.
//!
//! Each reads a bounded body, has it walked into intake's frame, waits for the receipt and answers in
//! its protocol's own form. What they share is here; only [`reply`] turns outcomes into codes.

mod body;
pub mod decode;
#[cfg(fuzzing)]
pub mod fuzzing;
mod grpc;
mod http;
mod json;
mod reply;
mod response;

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::routing::{any, post};
use bytes::Bytes;

use crate::auth::Tokens;
use crate::config::Config;
use crate::frame::BlockBuilder;
use crate::intake::{self, AddError, Intake, Permit, Receipt};
use crate::normalize::Context;
use crate::record::Receiver;
use crate::telemetry::Metrics;
use decode::{DecodeError, Outcome};
use reply::Reject;

/// Bodies above this are walked off the runtime's own thread: a few of 64 MiB would otherwise keep
/// everybody else waiting for a second.
const LONG_WALK: usize = 256 << 10;

/// What the receivers share.
#[derive(Clone)]
pub struct Door {
    intake: Intake,
    tokens: Tokens,
    config: Arc<Config>,
    metrics: Metrics,
}

impl Door {
    /// The doors in front of `intake`.
    #[must_use]
    pub fn new(config: Arc<Config>, intake: Intake, metrics: Metrics) -> Self {
        Self {
            intake,
            tokens: Tokens::new(&config.auth.ingest_tokens),
            config,
            metrics,
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

    /// Has a body walked into a frame, and waits until the queue has its records.
    async fn take(
        &self,
        receiver: Receiver,
        body: Bytes,
        permit: Permit,
        wait: Duration,
        walk: impl FnOnce(&[u8], &Context, &mut BlockBuilder) -> Result<Outcome, DecodeError>,
    ) -> Result<(Outcome, Receipt), Reject> {
        let context = Context::new(receiver, unix_nanos(), &self.config);
        let add = || {
            self.intake
                .add(permit, |builder| walk(&body, &context, builder))
        };
        let added = if body.len() > LONG_WALK {
            tokio::task::block_in_place(add)
        } else {
            add()
        };
        // The body is copied into the frame; holding it while the commit is under way would double
        // the memory of every request that waits.
        drop(body);
        let (outcome, pending) = added?;
        let receipt = pending
            .receipt(wait.min(self.config.limits.commit_timeout.duration()))
            .await?;
        self.metrics
            .outcome(receiver, &outcome, receipt.num_records());
        Ok((outcome, receipt))
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
