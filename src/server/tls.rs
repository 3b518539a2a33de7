//! TLS for the listeners, with rustls.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio_rustls::TlsAcceptor;

use crate::config;

/// Why TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Only one of the two files is set.
    #[error("`tls.cert_file` and `tls.key_file` go together; only one is set")]
    Incomplete,
    /// A file cannot be read or has no PEM of the kind.
    #[error("`{key}` names {path}: {fault}")]
    File {
        /// The key of the configuration.
        key: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong with it, and what would be right.
        fault: String,
    },
    /// The certificates of authorities are of no use.
    #[error("`tls.client_ca_file` cannot be used: {0}")]
    Clients(String),
    /// Certificate and key do not fit, or are of no use.
    #[error("`tls.cert_file` and `tls.key_file` cannot be used together: {0}")]
    Pair(rustls::Error),
}

impl Error {
    /// The key of the configuration that is to be changed, and what is wrong with its value.
    #[must_use]
    pub fn blame(&self) -> (&'static str, String) {
        match self {
            Error::File { key, path, fault } => (key, format!("{}: {fault}", path.display())),
            Error::Clients(fault) => ("tls.client_ca_file", fault.clone()),
            Error::Incomplete => ("tls.cert_file", "needs tls.key_file too".to_owned()),
            Error::Pair(error) => {
                let problem = format!("cannot be used with the key in tls.key_file: {error}");
                ("tls.cert_file", problem)
            }
        }
    }
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
    let chain = "the certificate, and those of its issuers behind it";
    let certificates = certificates(cert_file)
        .map_err(|error| fault("tls.cert_file", cert_file, chain, &error))?;
    let key = PrivateKeyDer::from_pem_file(key_file)
        .map_err(|error| fault("tls.key_file", key_file, "the private key", &error))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let server = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(Error::Pair)?;
    let server = match &config.client_ca_file {
        None => server.with_no_client_auth(),
        Some(path) => server.with_client_cert_verifier(clients(path, provider)?),
    };
    let mut server = server
        .with_single_cert(certificates, key)
        .map_err(Error::Pair)?;
    server.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Some(TlsAcceptor::from(Arc::new(server))))
}

/// The certificates in a PEM file, of which there is at least one.
fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, pem::Error> {
    let found = CertificateDer::pem_file_iter(path)?.collect::<Result<Vec<_>, _>>()?;
    if found.is_empty() {
        return Err(pem::Error::NoItemsFound);
    }
    Ok(found)
}

/// Asks every client for a certificate that one of the authorities in a file issued.
fn clients(
    path: &Path,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, Error> {
    let authorities = certificates(path).map_err(|error| {
        let wanted = "the certificates of those who issue clients' certificates";
        fault("tls.client_ca_file", path, wanted, &error)
    })?;
    let mut roots = RootCertStore::empty();
    for authority in authorities {
        roots.add(authority).map_err(|error| {
            Error::Clients(format!(
                "{}: a certificate in it cannot be used: {error}",
                path.display()
            ))
        })?;
    }
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
        .build()
        .map_err(|error| Error::Clients(format!("{}: {error}", path.display())))
}

fn fault(key: &'static str, path: &Path, wanted: &str, error: &pem::Error) -> Error {
    let fault = match error {
        pem::Error::Io(error) => format!(
            "cannot read it: {error}; it must be there, and readable for the user the daemon runs as"
        ),
        pem::Error::NoItemsFound => {
            format!("holds no PEM of that kind; put {wanted} into it as PEM")
        }
        error => format!("is damaged PEM: {error}; put {wanted} into it as PEM"),
    };
    Error::File {
        key,
        path: path.to_owned(),
        fault,
    }
}
