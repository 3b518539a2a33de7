//! Where the daemon is that `tail`, `search` and `send` talk to, if nobody says.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use anyhow::bail;

use super::ConfigArgs;
use crate::config::{self, Config, Listen};

/// A listener of the daemon.
#[derive(Debug, Clone, Copy)]
pub(super) enum Door {
    Grpc,
    Http,
    Web,
}

impl Door {
    fn of(self, listen: &Listen) -> (&'static str, SocketAddr) {
        match self {
            Door::Grpc => ("listen.otlp_grpc", listen.otlp_grpc),
            Door::Http => ("listen.otlp_http", listen.otlp_http),
            Door::Web => ("listen.web", listen.web),
        }
    }
}

/// The URL that was asked for, else that of the daemon of the configuration in use.
pub(super) fn url(asked: Option<&str>, source: &ConfigArgs, door: Door) -> anyhow::Result<String> {
    // A variable that is set to nothing is as good as unset.
    match asked.map(str::trim).filter(|url| !url.is_empty()) {
        Some(url) => Ok(url.to_owned()),
        None => of(&listening(source)?, door),
    }
}

/// The sections that say where the daemon listens. Whoever sends or reads logs may not be allowed to
/// read the daemon's secrets, or its file.
fn listening(source: &ConfigArgs) -> anyhow::Result<Config> {
    let file = source.file();
    let is_asked = source
        .config
        .as_deref()
        .is_some_and(|path| !path.as_os_str().is_empty());
    let readable = |path: &std::path::PathBuf| is_asked || std::fs::File::open(path).is_ok();
    let file = file.filter(readable);
    Ok(config::load_sections(
        file.as_deref(),
        &source.sets,
        &["listen", "tls"],
    )?)
}

fn of(config: &Config, door: Door) -> anyhow::Result<String> {
    let (key, address) = door.of(&config.listen);
    if address.port() == 0 {
        bail!("`{key}` takes any free port; write the one that the daemon logged as --url");
    }
    // All addresses are none to connect to.
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    let scheme = if config.tls.cert_file.is_some() {
        "https"
    } else {
        "http"
    };
    Ok(format!(
        "{scheme}://{}",
        SocketAddr::new(ip, address.port())
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_says_where_the_daemon_is() {
        let source = |sets: &[&str]| ConfigArgs {
            config: None,
            sets: sets.iter().map(|set| (*set).to_owned()).collect(),
        };
        for (sets, door, expected) in [
            (
                &["listen.web=127.0.0.1:5000"][..],
                Door::Web,
                "http://127.0.0.1:5000",
            ),
            (
                &["listen.web=0.0.0.0:5000"],
                Door::Web,
                "http://127.0.0.1:5000",
            ),
            (
                &["listen.otlp_http=[::]:5000"],
                Door::Http,
                "http://[::1]:5000",
            ),
            (
                &[
                    "listen.otlp_grpc=10.0.0.7:5000",
                    "tls.cert_file=c",
                    "tls.key_file=k",
                ],
                Door::Grpc,
                "https://10.0.0.7:5000",
            ),
            // What is wrong elsewhere is the daemon's business.
            (
                &["retention=1", "listen.web=127.0.0.1:5000"],
                Door::Web,
                "http://127.0.0.1:5000",
            ),
        ] {
            assert_eq!(
                url(None, &source(sets), door).unwrap(),
                expected,
                "{sets:?}"
            );
        }
        let source = source(&["listen.web=127.0.0.1:0"]);
        assert!(
            url(Some(" "), &source, Door::Web)
                .unwrap_err()
                .to_string()
                .contains("`listen.web`")
        );
        assert_eq!(
            url(Some("http://x"), &source, Door::Web).unwrap(),
            "http://x"
        );
    }
}
