//! Who asks, and what is kept of it: counters by transport, encoding and status, and a line in the log
//! where something was refused. Lines are few, however many the requests.

use std::net::SocketAddr;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::{Extensions, HeaderMap, HeaderValue};
use axum::response::Response;
use http::header::USER_AGENT;
use tracing::warn;

use super::Door;
use super::body;
use super::decode::Outcome;
use super::encoding::Encoding;
use super::reply::Reject;
use crate::record::Receiver;

/// One line of a kind in this time; the others are counted in it.
const LINE_EVERY: Duration = Duration::from_secs(10);
/// Most of a User-Agent that is logged.
const AGENT_BYTES: usize = 200;

/// The form in which a caller is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Grpc,
    Http(Encoding),
}

/// Who asks.
#[derive(Debug)]
pub(super) struct Caller {
    receiver: Receiver,
    form: Form,
    peer: Option<SocketAddr>,
    agent: Option<HeaderValue>,
}

impl Caller {
    pub(super) fn new(
        receiver: Receiver,
        form: Form,
        headers: &HeaderMap,
        peer: Option<SocketAddr>,
    ) -> Self {
        Self {
            receiver,
            form,
            peer,
            agent: headers.get(USER_AGENT).cloned(),
        }
    }

    fn encoding(&self) -> Encoding {
        match self.form {
            Form::Grpc => Encoding::Protobuf,
            Form::Http(encoding) => encoding,
        }
    }

    /// The User-Agent as text. It comes from outside, so it is cut; the log escapes it.
    fn agent(&self) -> String {
        let bytes = self.agent.as_ref().map_or(&b""[..], HeaderValue::as_bytes);
        let cut = bytes.get(..AGENT_BYTES).unwrap_or(bytes);
        String::from_utf8_lossy(cut).into_owned()
    }
}

/// The address at the other end, where the server noted it.
pub(super) fn peer(extensions: &Extensions) -> Option<SocketAddr> {
    let peer = extensions.get::<ConnectInfo<SocketAddr>>();
    peer.map(|ConnectInfo(peer)| *peer)
}

impl Door {
    /// Counts, logs and answers a refusal; what is left of the body is thrown away, within bounds.
    pub(super) async fn refuse(
        &self,
        caller: &Caller,
        reject: Reject,
        headers: &HeaderMap,
        body: &mut Body,
    ) -> Response {
        let (code, http) = reject.codes();
        let status = match caller.form {
            Form::Grpc => code as u16,
            Form::Http(_) => http.as_u16(),
        };
        self.metrics.refused(caller.receiver, reject.reason());
        self.metrics
            .answered(caller.receiver, caller.encoding(), status);
        if let Some(suppressed) = self.lines.take(reject.reason()) {
            warn!(
                receiver = caller.receiver.as_str(),
                peer = caller.peer.map(tracing::field::display),
                user_agent = ?caller.agent(),
                status,
                suppressed,
                reason = reject.message(),
                "refused a request"
            );
        }
        body::drain(headers, body).await;
        match caller.form {
            Form::Grpc => reject.into_grpc(),
            Form::Http(encoding) => reject.into_http(encoding),
        }
    }

    /// Counts a request that was taken, and logs what its sender is told of it.
    pub(super) fn accepted(&self, caller: &Caller, outcome: &Outcome) {
        let status = match caller.receiver {
            Receiver::OtlpGrpc => 0,
            Receiver::OtlpHttp => 200,
            Receiver::Json => 202,
        };
        self.metrics
            .answered(caller.receiver, caller.encoding(), status);
        let Some(message) = &outcome.message else {
            return;
        };
        if let Some(suppressed) = self.lines.take(Lines::PARTIAL) {
            warn!(
                receiver = caller.receiver.as_str(),
                peer = caller.peer.map(tracing::field::display),
                user_agent = ?caller.agent(),
                accepted = outcome.accepted,
                rejected = outcome.rejected,
                suppressed,
                reason = message,
                "took a request in part, or with a warning"
            );
        }
    }
}

/// When a line of each kind was last written, and how many were not since.
#[derive(Debug, Default)]
pub(super) struct Lines {
    kinds: [Mutex<Option<(Instant, u64)>>; Reject::REASONS.len() + 1],
}

impl Lines {
    /// The kind beside the reasons of [`Reject`].
    const PARTIAL: usize = Reject::REASONS.len();

    /// Whether to write a line of this kind now: with how many that were not written before it.
    fn take(&self, kind: usize) -> Option<u64> {
        let mut kind = self.kinds.get(kind)?.lock().ok()?;
        match kind.as_mut() {
            Some((last, suppressed)) if last.elapsed() < LINE_EVERY => {
                *suppressed += 1;
                None
            }
            _ => {
                let before = kind.replace((Instant::now(), 0));
                Some(before.map_or(0, |(_, suppressed)| suppressed))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b_11_lines_of_one_kind_are_few_and_count_the_others() {
        let lines = Lines::default();
        assert_eq!(lines.take(0), Some(0));
        assert_eq!(lines.take(0), None);
        assert_eq!(lines.take(0), None);
        assert_eq!(lines.take(1), Some(0));
        let old = Instant::now().checked_sub(LINE_EVERY).unwrap();
        lines.kinds[0].lock().unwrap().as_mut().unwrap().0 = old;
        assert_eq!(lines.take(0), Some(2));
        assert_eq!(lines.take(0), None);
    }
}
