//! The names by which this machine may be addressed while reading asks for no token.
//!
//! A web page anywhere can let its own name point to this machine (DNS rebinding) and then read
//! through its visitor's browser as if it were the same site. It cannot do so under a name that it
//! cannot own: an address, a name without a dot, or one below a top-level name kept for local use.

use std::net::IpAddr;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::uri::Authority;
use http::{HeaderMap, StatusCode, Uri, header};

use super::{ApiError, ApiState};

/// Top-level names that nobody can register.
const LOCAL: [&str; 8] = [
    "localhost",
    "local",
    "lan",
    "home.arpa",
    "internal",
    "localdomain",
    "home",
    "test",
];

pub(super) async fn require(
    State(state): State<ApiState>,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    if !state.read_tokens().is_empty() {
        return Ok(next.run(request).await);
    }
    let host = named(request.uri(), request.headers());
    match host {
        Some(host) if !is_ours(name(host), &state.host_names) => Err(ApiError::new(
            StatusCode::FORBIDDEN,
            "unknown_host",
            format!("this daemon does not know itself as `{}`", name(host)),
        )
        .hint("set `auth.read_tokens`, or open the page by the machine's address")),
        // A browser always names a host; what does not is a tool on this network.
        _ => Ok(next.run(request).await),
    }
}

/// The host that a request names: in its target with HTTP/2, in a header before.
pub(crate) fn named<'a>(uri: &'a Uri, headers: &'a HeaderMap) -> Option<&'a str> {
    let authority = uri.authority().map(Authority::as_str);
    authority.or_else(|| headers.get(header::HOST)?.to_str().ok())
}

/// A host without its port.
fn name(host: &str) -> &str {
    if host.starts_with('[') {
        return host.split_inclusive(']').next().unwrap_or(host);
    }
    host.rsplit_once(':').map_or(host, |(name, _)| name)
}

fn is_ours(name: &str, known: &[String]) -> bool {
    let bare = name
        .strip_prefix('[')
        .and_then(|name| name.strip_suffix(']'));
    if bare.unwrap_or(name).parse::<IpAddr>().is_ok() {
        return true;
    }
    let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    let is_below = |top: &str| {
        name.strip_suffix(top)
            .is_some_and(|rest| rest.ends_with('.'))
    };
    !name.contains('.')
        || LOCAL.iter().copied().any(is_below)
        || known.iter().any(|known| known.eq_ignore_ascii_case(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_nobody_else_can_own_are_ours() {
        let known = ["logs.example.com".to_owned()];
        for host in [
            "127.0.0.1:4319",
            "10.0.0.7",
            "[::1]:4319",
            "[fe80::1]",
            "localhost:4319",
            "nas",
            "NAS.local",
            "logs.lan:80",
            "logs.home.arpa.",
            "app.localhost",
            "Logs.Example.com",
        ] {
            assert!(is_ours(name(host), &known), "{host}");
        }
    }

    #[test]
    fn names_that_somebody_can_register_are_not() {
        for host in [
            "example.com",
            "rebind.example.com:4319",
            "evil-local.com",
            "xlocal.co",
            "lan.evil.io",
            "127.0.0.1.evil.io",
            "1.2.3.4.5",
            "logs.example.com.evil.io",
        ] {
            assert!(
                !is_ours(name(host), &["logs.example.com".to_owned()]),
                "{host}"
            );
        }
    }
}
