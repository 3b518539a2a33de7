//! Whom the clients of this program trust when they speak TLS, and who they say they are.

use std::io;
use std::path::{Path, PathBuf};

use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

/// The files of a client's own certificate.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    /// PEM with the certificate, and those of its issuers behind it.
    pub(crate) certificate: PathBuf,
    /// PEM with its private key.
    pub(crate) key: PathBuf,
}

/// A connector over `tcp`. The system's certificates are read only for `https`: a bare machine has none,
/// and plain HTTP needs none.
///
/// # Errors
/// When there are no certificates to trust, or those of the identity cannot be read or used.
pub(crate) fn connector(
    tcp: HttpConnector,
    https: bool,
    identity: Option<&Identity>,
) -> io::Result<HttpsConnector<HttpConnector>> {
    let roots = if https {
        system_roots()?
    } else {
        RootCertStore::empty()
    };
    let config =
        ClientConfig::builder_with_provider(rustls::crypto::ring::default_provider().into())
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_root_certificates(roots);
    let config = match identity.filter(|_| https) {
        None => config.with_no_client_auth(),
        Some(Identity { certificate, key }) => {
            let chain = CertificateDer::pem_file_iter(certificate)
                .and_then(Iterator::collect)
                .map_err(|error| unusable(certificate, &error))?;
            let key = PrivateKeyDer::from_pem_file(key).map_err(|error| unusable(key, &error))?;
            config
                .with_client_auth_cert(chain, key)
                .map_err(|error| unusable(certificate, &error))?
        }
    };
    Ok(HttpsConnectorBuilder::new()
        .with_tls_config(config)
        .https_or_http()
        .enable_http1()
        .wrap_connector(tcp))
}

fn unusable(path: &Path, error: &dyn std::fmt::Display) -> io::Error {
    io::Error::other(format!("cannot use {}: {error}", path.display()))
}

fn system_roots() -> io::Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    // One that cannot be used does not spoil the others.
    roots.add_parsable_certificates(found.certs);
    if !roots.is_empty() {
        return Ok(roots);
    }
    let why = found.errors.first();
    let why = why.map_or_else(|| "there are none".to_owned(), ToString::to_string);
    Err(io::Error::new(
        io::ErrorKind::NotFound,
        format!("no certificates to trust: {why}; on Debian, install the package ca-certificates"),
    ))
}
