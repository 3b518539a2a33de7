//! TLS for the listeners, with rustls.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

use crate::config;

/// Why TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Only one of the two files is set.
    #[error("`tls.cert_file` and `tls.key_file` go together; only one is set")]
    Incomplete,
    /// A file cannot be read or has no PEM of the kind.
    #[error("cannot read {what} from {path}: {source}")]
    File {
        /// Certificate or key.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: rustls::pki_types::pem::Error,
    },
    /// Certificate and key do not fit, or are of no use.
    #[error("certificate and key cannot be used together: {0}")]
    Pair(#[from] rustls::Error),
}

/// The acceptor for the configured certificate; `None` when TLS is off.
///
/// # Errors
/// When the configuration is incomplete, a file is unreadable, or the pair does not fit.
pub fn acceptor(config: &config::Tls) -> Result<Option<TlsAcceptor>, Error> {
    let (cert_file, key_file) = match (&config.cert_file, &config.key_file) {
        (None, None) => return Ok(None),
        (Some(cert_file), Some(key_file)) => (cert_file, key_file),
        _ => return Err(Error::Incomplete),
    };
    let certificates = CertificateDer::pem_file_iter(cert_file)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|source| fault("certificates", cert_file, source))?;
    let key = PrivateKeyDer::from_pem_file(key_file)
        .map_err(|source| fault("a private key", key_file, source))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut server = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(certificates, key)?;
    server.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Some(TlsAcceptor::from(Arc::new(server))))
}

fn fault(what: &'static str, path: &Path, source: rustls::pki_types::pem::Error) -> Error {
    Error::File {
        what,
        path: path.to_owned(),
        source,
    }
}
