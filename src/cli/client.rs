//! The HTTP client of `tail`, `search` and `send`.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use bytes::Bytes;
use clap::Args;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, USER_AGENT};
use http::{HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{self, Client as Pool};
use hyper_util::rt::TokioExecutor;
use prost::Message;

use super::ConfigArgs;
use super::address::{self, Door};
use crate::causes;
use crate::config::Secret;
use crate::trust::{self, Identity};

/// What is said of an address that is none.
const NO_URL: &str =
    "is not a URL; write http://HOST:PORT or https://HOST:PORT as --url or WATCHTOWER_URL";
/// Longest time to connect, and to wait for an answer to begin.
const PATIENCE: Duration = Duration::from_secs(30);
const CONNECT_PATIENCE: Duration = Duration::from_secs(10);
/// Largest answer that is read whole: a page of search results of long messages.
const MAX_ANSWER_BYTES: usize = 256 << 20;

/// The media type of OTLP's binary form.
pub(super) const PROTOBUF: &str = "application/x-protobuf";

/// The body of an OTLP error answer, `google.rpc.Status`; only its words are of use here.
#[derive(Clone, PartialEq, Message)]
struct OtlpStatus {
    #[prost(string, tag = "2")]
    message: String,
}

/// Where the daemon is that is asked.
#[derive(Debug, Args)]
pub(super) struct ServerArgs {
    /// The daemon's web address [default: as the configuration in use says, else
    /// http://127.0.0.1:4319]
    #[arg(long, env = "WATCHTOWER_URL")]
    url: Option<String>,
    /// Read token, if the daemon asks for one
    #[arg(long, env = "WATCHTOWER_TOKEN", hide_env_values = true, value_parser = secret)]
    token: Option<Secret>,
    #[command(flatten)]
    identity: IdentityArgs,
}

impl ServerArgs {
    pub(super) fn client(&self, source: &ConfigArgs) -> anyhow::Result<Client> {
        let url = address::url(self.url.as_deref(), source, Door::Web)?;
        Client::new(&url, self.token.as_ref(), &self.identity)
    }
}

/// The certificate to show where the daemon asks its clients for one (`tls.client_ca_file`).
#[derive(Debug, Default, Args)]
pub(super) struct IdentityArgs {
    /// PEM file with the certificate to show, if the daemon asks for one
    #[arg(
        long,
        env = "WATCHTOWER_CLIENT_CERT",
        value_name = "FILE",
        requires = "client_key"
    )]
    client_cert: Option<PathBuf>,
    /// PEM file with its private key
    #[arg(
        long,
        env = "WATCHTOWER_CLIENT_KEY",
        value_name = "FILE",
        requires = "client_cert"
    )]
    client_key: Option<PathBuf>,
}

impl IdentityArgs {
    pub(super) fn identity(&self) -> Option<Identity> {
        let (certificate, key) = self.client_cert.clone().zip(self.client_key.clone())?;
        Some(Identity { certificate, key })
    }
}

/// Takes a token from the command line; one that is empty is none.
#[expect(
    clippy::unnecessary_wraps,
    reason = "clap's value parsers return results"
)]
pub(super) fn secret(text: &str) -> Result<Secret, std::convert::Infallible> {
    Ok(Secret::new(text.trim().to_owned()))
}

/// The header that carries a token, if there is one.
pub(super) fn authorization(token: Option<&Secret>) -> anyhow::Result<Option<HeaderValue>> {
    let Some(token) = token.filter(|token| !token.is_empty()) else {
        return Ok(None);
    };
    let mut value = HeaderValue::try_from(format!("Bearer {}", token.expose()))
        .ok()
        .context("the token holds characters that no header can carry")?;
    value.set_sensitive(true);
    Ok(Some(value))
}

/// An answer other than success.
#[derive(Debug, thiserror::Error)]
#[error("{url} answers {status}{text}{hint}")]
pub(super) struct Refused {
    url: String,
    pub(super) status: StatusCode,
    text: String,
    hint: &'static str,
}

/// Talks to one daemon.
pub(super) struct Client {
    pool: Pool<HttpsConnector<HttpConnector>, Full<Bytes>>,
    base: String,
    authorization: Option<HeaderValue>,
}

impl Client {
    pub(super) fn new(
        url: &str,
        token: Option<&Secret>,
        identity: &IdentityArgs,
    ) -> anyhow::Result<Self> {
        let base = url.trim_end_matches('/').to_owned();
        let uri: Uri = base
            .parse()
            .with_context(|| format!("\"{url}\" {NO_URL}"))?;
        if !matches!(uri.scheme_str(), Some("http" | "https")) || uri.host().is_none() {
            bail!("\"{url}\" {NO_URL}");
        }
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        http.set_nodelay(true);
        http.set_connect_timeout(Some(CONNECT_PATIENCE));
        let https = uri.scheme_str() == Some("https");
        let connector = trust::connector(http, https, identity.identity().as_ref())?;
        Ok(Self {
            pool: Pool::builder(TokioExecutor::new()).build(connector),
            base,
            authorization: authorization(token)?,
        })
    }

    /// The address it talks to.
    pub(super) fn base(&self) -> &str {
        &self.base
    }

    /// Asks for a path, and waits for the answer to begin.
    ///
    /// # Errors
    /// [`Refused`] for an answer other than success, anything else where there is no answer.
    pub(super) async fn get(
        &self,
        path: &str,
        query: &[(&str, String)],
        headers: &[(&'static str, String)],
    ) -> anyhow::Result<Response<Incoming>> {
        let mut url = format!("{}{path}", self.base);
        for (index, (name, value)) in query.iter().enumerate() {
            url.push(if index == 0 { '?' } else { '&' });
            url.push_str(name);
            url.push('=');
            push_encoded(&mut url, value);
        }
        let mut request = Request::builder().method(Method::GET).uri(&url);
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        self.send(request.body(Full::default())?).await
    }

    /// Sends a body, and reads the answer.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub(super) async fn post(
        &self,
        path: &str,
        content_type: &'static str,
        body: Bytes,
    ) -> anyhow::Result<(StatusCode, Bytes)> {
        let request = Request::builder()
            .method(Method::POST)
            .uri(format!("{}{path}", self.base))
            .header(CONTENT_TYPE, content_type)
            .header(ACCEPT, content_type)
            .body(Full::new(body))?;
        let response = self.send(request).await?;
        let status = response.status();
        Ok((status, read(response).await?))
    }

    async fn send(&self, mut request: Request<Full<Bytes>>) -> anyhow::Result<Response<Incoming>> {
        let url = request.uri().clone();
        let headers = request.headers_mut();
        headers.insert(
            USER_AGENT,
            HeaderValue::from_static(concat!("watchtower/", env!("CARGO_PKG_VERSION"))),
        );
        if let Some(authorization) = &self.authorization {
            headers.insert(AUTHORIZATION, authorization.clone());
        }
        let answer = tokio::time::timeout(PATIENCE, self.pool.request(request)).await;
        let response = match answer {
            Ok(answer) => answer.map_err(|error| self.unreachable(&error))?,
            Err(_) => bail!("{} does not answer within {PATIENCE:?}", self.base),
        };
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status();
        let is_otlp = response
            .headers()
            .get(CONTENT_TYPE)
            .is_some_and(|kind| kind == PROTOBUF);
        let mut text = read(response).await.unwrap_or_default();
        if is_otlp && let Ok(status) = OtlpStatus::decode(text.clone()) {
            text = status.message.into();
        }
        Err(anyhow::Error::new(Refused {
            url: format!("{}{}", self.base, url.path()),
            status,
            text: match error_text(&text) {
                text if text.is_empty() => text,
                text => format!(": {text}"),
            },
            hint: match status {
                StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => "; give the right --token",
                StatusCode::NOT_FOUND => "; is this the daemon's web address?",
                _ => "",
            },
        }))
    }

    fn unreachable(&self, error: &legacy::Error) -> anyhow::Error {
        let mut cause: &(dyn std::error::Error + 'static) = error;
        // The outer ones say only that it failed, the inner ones why.
        if let Some(inner) = cause.source() {
            cause = inner.source().unwrap_or(inner);
        }
        let cause = causes::joined(cause);
        let hint = match error.is_connect() {
            true if cause.contains("alert") => "; does the daemon have TLS, and is --url right?",
            true => "; is the daemon running, and is --url right?",
            false => "",
        };
        anyhow::anyhow!("cannot reach {}: {cause}{hint}", self.base)
    }
}

/// Reads an answer whole.
pub(super) async fn read(response: Response<Incoming>) -> anyhow::Result<Bytes> {
    let body = Limited::new(response.into_body(), MAX_ANSWER_BYTES);
    let whole = tokio::time::timeout(PATIENCE, body.collect()).await;
    match whole.context("the answer does not end")? {
        Ok(whole) => Ok(whole.to_bytes()),
        Err(error) => bail!("the answer breaks off: {}", causes::joined(&*error)),
    }
}

/// The words of an error answer: those of the API's JSON, else the text itself, in one line.
fn error_text(body: &[u8]) -> String {
    let json: Option<serde_json::Value> = serde_json::from_slice(body).ok();
    let field = |name: &str| json.as_ref()?.get(name)?.as_str().map(str::to_owned);
    let text = field("text")
        .or_else(|| field("message"))
        .or_else(|| field("error"));
    let text = text.unwrap_or_else(|| String::from_utf8_lossy(body).into_owned());
    let hint = field("hint")
        .map(|hint| format!(" ({hint})"))
        .unwrap_or_default();
    let line: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(500)
        .collect();
    format!("{}{hint}", line.trim())
}

/// Percent-encodes a query's value.
fn push_encoded(url: &mut String, value: &str) {
    for byte in value.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                url.push(char::from(byte))
            }
            _ => url.push_str(&format!("%{byte:02X}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn query_values_are_percent_encoded() {
        let mut url = String::new();
        push_encoded(&mut url, "a b&c=ü/~");
        assert_eq!(url, "a%20b%26c%3D%C3%BC%2F~");
    }

    #[test]
    fn an_error_answer_is_told_in_its_own_words() {
        for (body, text) in [
            (
                r#"{"code":"x","text":"no such field","hint":"try level"}"#,
                "no such field (try level)",
            ),
            (r#"{"error":"no"}"#, "no"),
            ("<html>\nBad Gateway\x1b[31m", "<html> Bad Gateway [31m"),
            ("", ""),
        ] {
            assert_eq!(error_text(body.as_bytes()), text);
        }
    }
}
