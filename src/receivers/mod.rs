//! The doors: OTLP over gRPC, OTLP over HTTP, and the native JSON POST.
//!
//! Each reads a bounded body, has it walked into intake's frame, waits for the receipt and answers in
//! its protocol's own form. What they share is here; only [`reply`] turns outcomes into codes.

mod body;
mod caller;
mod coding;
mod cors;
pub mod decode;
mod encoding;
mod envelope;
#[cfg(fuzzing)]
pub mod fuzzing;
mod grpc;
mod guard;
mod http;
mod json;
mod paths;
mod rate;
mod reply;
mod response;
mod rpc_status;

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ::http::HeaderMap;
use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::middleware::from_fn_with_state;
use axum::response::Response;
use axum::routing::{any, post};
use bytes::Bytes;

use crate::auth::{Denied, Tokens};
use crate::config::Config;
use crate::intake::resends::{Resends, Seen, digest};
use crate::intake::{self, AddError, Filling, Intake, Permit};
use crate::normalize::Context;
use crate::record::Receiver;
use crate::telemetry::Metrics;
use body::Bounds;
use coding::{Coding, Unpacker};
use decode::{DecodeError, Outcome};
pub(crate) use encoding::Encoding;
pub use guard::At;
pub(crate) use reply::Reject;

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
    bounds: Bounds,
    unpacker: Unpacker,
    lines: Arc<caller::Lines>,
    resends: Resends,
    rates: Arc<rate::Rates>,
}

/// By what a request is recognized when it comes again.
#[derive(Debug, Clone, Copy)]
enum Identity {
    /// It is not.
    None,
    /// By its bytes, if their records have times of their own.
    Bytes { sender: u64 },
    /// By a key that its sender gave it, and its bytes: under one key that was given to two requests, both are stored.
    Key(u64),
}

impl Door {
    /// The doors in front of `intake`.
    #[must_use]
    pub fn new(config: Arc<Config>, intake: Intake, metrics: Metrics, resends: Resends) -> Self {
        Self {
            intake,
            tokens: Tokens::new(&config.auth.ingest_tokens, &config.auth.read_tokens)
                .counted(|name| metrics.token(name)),
            bounds: Bounds {
                limit: config.limits.body.as_usize(),
                pause: config.limits.body_timeout.duration(),
            },
            unpacker: Unpacker::new(&config.limits),
            lines: Arc::default(),
            rates: Arc::new(rate::Rates::new(config.limits.requests_per_address)),
            config,
            metrics,
            resends,
        }
    }

    /// The routes of the OTLP ports. Both protocols are served on both ports, told apart by path, so
    /// that a sender with the two mixed up is served all the same.
    pub fn otlp_router(&self) -> Router {
        let (door, path) = (Arc::new(self.clone()), &self.config.otlp.path);
        Router::new()
            .route(grpc::EXPORT_PATH, any(grpc::export))
            .route(path, any(http::export))
            .route(&format!("{path}/"), any(http::export))
            .fallback(paths::unknown)
            .layer(from_fn_with_state(Arc::clone(&door), guard::layer))
            .with_state(door)
    }

    /// The routes that the web port has besides its own.
    pub fn web_router(&self) -> Router {
        let door = Arc::new(self.clone());
        let native = if self.config.cors.is_on() {
            post(json::accept).options(json::options)
        } else {
            post(json::accept)
        };
        Router::new()
            .route("/api/logs", native.clone())
            .route("/api/logs/", native)
            .route("/v1/logs", any(http::export))
            .route("/v1/logs/", any(http::export))
            .layer(from_fn_with_state(Arc::clone(&door), guard::layer))
            .with_state(door)
    }

    /// Answers a request to a path or with a method of the web port that there is not, if it is one
    /// that OTLP senders use; else gives the request back.
    ///
    /// # Errors
    /// The request, when it is for somebody else.
    pub async fn unknown_path(&self, request: Request) -> Result<Response, Request> {
        if paths::is_otlp(&request) {
            return Ok(paths::unknown_on_web(self, request).await);
        }
        Err(request)
    }

    /// The methods of a path that takes logs.
    fn methods(&self) -> &'static str {
        if self.config.cors.is_on() {
            "POST, OPTIONS"
        } else {
            "POST"
        }
    }

    fn check_token(&self, headers: &HeaderMap) -> Result<(), Reject> {
        self.tokens.check(headers).map_err(|denied| match denied {
            Denied::Other => Reject::Forbidden(denied),
            Denied::Missing | Denied::Wrong => Reject::Unauthenticated(denied),
        })
    }

    /// Reads a body and undoes its coding.
    async fn read(
        &self,
        receiver: Receiver,
        headers: &HeaderMap,
        body: &mut Body,
        coding: Coding,
    ) -> Result<(Bytes, Permit), Reject> {
        let budget = self.intake.budget();
        let (bytes, mut permit) = body::read(headers, body, self.bounds, budget, |_| None).await?;
        self.metrics.received(receiver, bytes.len());
        let bytes = self.unpacker.unpack(coding, bytes, &mut permit).await?;
        Ok((bytes, permit))
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
        walk: impl FnOnce(&[u8], &Context, &mut Filling) -> Result<Outcome, DecodeError>,
    ) -> Result<Outcome, Reject> {
        let context = Context::new(receiver, unix_nanos(), &self.config);
        let longest = self.config.limits.commit_timeout.duration();
        let wait = wait.min(longest);
        let deadline = Instant::now() + wait;
        let name = match identity {
            Identity::Bytes { sender } => Some(digest(&body, sender)),
            Identity::Key(key) => Some(digest(&body, key)),
            Identity::None => None,
        };
        let ticket = match name.filter(|_| self.config.intake.dedup_resends) {
            None => None,
            Some(name) => match self.resends.begin(name, wait).await? {
                Seen::New(ticket) => Some(ticket),
                Seen::Before(_receipt) => {
                    let outcome = long(body.len(), || {
                        walk(&body, &context, &mut Filling::new(permit))
                    })?;
                    self.metrics.resent(receiver);
                    return Ok(outcome);
                }
            },
        };
        let add = |filling: &mut Filling| {
            let outcome = walk(&body, &context, filling)?;
            // Records without a time look alike although each is one of its own.
            let anonymous =
                matches!(identity, Identity::Bytes { .. }) && filling.has_time(context.received_at);
            Ok((outcome, ticket.filter(|_| !anonymous)))
        };
        let added = long(body.len(), || self.intake.add_once(permit, add));
        // The body is copied into the frame; holding it while the commit is under way would double
        // the memory of every request that waits.
        drop(body);
        let (outcome, pending) = added?;
        let left = deadline.saturating_duration_since(Instant::now());
        let receipt = pending.receipt(left).await.map_err(|error| match error {
            intake::Error::Timeout(_) if wait < longest => Reject::Deadline,
            intake::Error::Timeout(_) => intake::Error::Timeout(wait).into(),
            other => other.into(),
        })?;
        self.metrics
            .outcome(receiver, &outcome, receipt.num_records());
        Ok(outcome)
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
                Identity::Key(u128::from_le_bytes(digest(key.as_bytes(), seed)) as u64)
            }
            _ => Identity::None,
        }
    }
}

/// Does what takes long for a body of this size off the runtime's own thread.
fn long<T>(body_bytes: usize, work: impl FnOnce() -> T) -> T {
    if body_bytes > LONG_WALK {
        tokio::task::block_in_place(work)
    } else {
        work()
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
                what: "the request's records together are",
                setting: "limits.in_flight",
            },
            DecodeError::Damaged { ref path, .. } => Reject::BadData {
                field: path.clone(),
                text: error.to_string(),
            },
            DecodeError::NoRoom { .. } => Reject::Unavailable(error.to_string()),
            DecodeError::Empty => Reject::bad_data(error.to_string()),
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
