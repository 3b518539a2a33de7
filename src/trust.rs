//! Whom the clients of this program trust when they speak TLS.

use std::io;

use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;

/// A connector over `tcp`. The system's certificates are read only for `https`: a bare machine has none,
/// and plain HTTP needs none.
///
/// # Errors
/// When there are no certificates to trust.
pub(crate) fn connector(
    tcp: HttpConnector,
    https: bool,
) -> io::Result<HttpsConnector<HttpConnector>> {
    let provider = rustls::crypto::ring::default_provider();
    let builder = HttpsConnectorBuilder::new();
    let builder = if https {
        let no_roots = |error| {
            let text = format!("{error}; on Debian, install the package ca-certificates");
            io::Error::new(io::ErrorKind::NotFound, text)
        };
        builder
            .with_provider_and_native_roots(provider)
            .map_err(no_roots)?
    } else {
        let trusts_nobody = rustls::ClientConfig::builder_with_provider(provider.into())
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_root_certificates(rustls::RootCertStore::empty())
            .with_no_client_auth();
        builder.with_tls_config(trusts_nobody)
    };
    Ok(builder.https_or_http().enable_http1().wrap_connector(tcp))
}
