//! Whether a connection is of any use: what it has under way, and since when nothing.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::response::Response;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tokio::time::Instant;

/// What one connection does. A request is under way until the last of its answer was taken, so that a live view
/// is never idle.
#[derive(Debug)]
pub(super) struct Activity {
    start: Instant,
    under_way: AtomicUsize,
    /// When the last request ended, in milliseconds since the start.
    ended: AtomicU64,
}

impl Activity {
    pub(super) fn new() -> Arc<Activity> {
        Arc::new(Activity {
            start: Instant::now(),
            under_way: AtomicUsize::new(0),
            ended: AtomicU64::new(0),
        })
    }

    /// Notes a request, until what it gives back is dropped.
    pub(super) fn begin(self: &Arc<Self>) -> UnderWay {
        self.under_way.fetch_add(1, Ordering::Relaxed);
        UnderWay(Arc::clone(self))
    }

    /// For how long nothing has been under way.
    pub(super) fn idle(&self) -> Duration {
        if self.under_way.load(Ordering::Relaxed) > 0 {
            return Duration::ZERO;
        }
        let ended = Duration::from_millis(self.ended.load(Ordering::Relaxed));
        self.start.elapsed().saturating_sub(ended)
    }
}

/// One request under way.
#[derive(Debug)]
pub(super) struct UnderWay(Arc<Activity>);

impl UnderWay {
    /// Goes on until the answer's body was sent.
    pub(super) fn with(self, answer: Response) -> Response {
        answer.map(|body| {
            Body::new(Sent {
                body,
                _under_way: self,
            })
        })
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let since = self.0.start.elapsed().as_millis();
        let since = u64::try_from(since).unwrap_or(u64::MAX);
        self.0.ended.fetch_max(since, Ordering::Relaxed);
        self.0.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A body whose request is under way as long as it is there.
struct Sent {
    body: Body,
    _under_way: UnderWay,
}

impl HttpBody for Sent {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_idle_once_the_last_answer_was_sent() {
        let activity = Activity::new();
        tokio::time::advance(Duration::from_millis(20)).await;
        assert!(activity.idle() >= Duration::from_millis(20));
        let answer = activity.begin().with(Response::new(Body::from("sent")));
        tokio::time::advance(Duration::from_millis(20)).await;
        assert_eq!(activity.idle(), Duration::ZERO);
        let sent = axum::body::to_bytes(answer.into_body(), 10).await.unwrap();
        assert_eq!(&sent[..], b"sent");
        assert!(activity.idle() < Duration::from_millis(20));
        tokio::time::advance(Duration::from_millis(20)).await;
        assert!(activity.idle() >= Duration::from_millis(20));
    }
}
