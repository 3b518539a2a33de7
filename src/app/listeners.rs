//! The three listeners, bound before anything else is done.

use std::io::{Error, ErrorKind};
use std::net::SocketAddr;

use anyhow::anyhow;
use tokio::net::TcpListener;

use crate::api::Ports;
use crate::config::Config;

pub(super) struct Listeners {
    pub(super) grpc: TcpListener,
    pub(super) http: TcpListener,
    pub(super) web: TcpListener,
}

impl Listeners {
    pub(super) async fn bind(config: &Config) -> anyhow::Result<Listeners> {
        let listen = &config.listen;
        Ok(Listeners {
            grpc: bind("listen.otlp_grpc", listen.otlp_grpc).await?,
            http: bind("listen.otlp_http", listen.otlp_http).await?,
            web: bind("listen.web", listen.web).await?,
        })
    }

    pub(super) fn ports(&self) -> std::io::Result<Ports> {
        Ok(Ports {
            otlp_grpc: self.grpc.local_addr()?.port(),
            otlp_http: self.http.local_addr()?.port(),
            web: self.web.local_addr()?.port(),
        })
    }
}

async fn bind(key: &str, address: SocketAddr) -> anyhow::Result<TcpListener> {
    let bound = TcpListener::bind(address).await;
    bound.map_err(|error| anyhow!(refused(key, address, &error)))
}

/// Why an address cannot be had, and what to do.
fn refused(key: &str, address: SocketAddr, error: &Error) -> String {
    let port = address.port();
    let help = match error.kind() {
        ErrorKind::AddrInUse => format!(
            "another program, or another Watchtower, has that port: `ss -ltnp 'sport = :{port}'` shows \
             which; stop it, or set `{key}` to another port"
        ),
        ErrorKind::AddrNotAvailable => format!(
            "this machine has no address {}; set `{key}` to one that `ip address` shows, or to \
             0.0.0.0:{port} for all",
            address.ip()
        ),
        ErrorKind::PermissionDenied => format!(
            "only root may take ports below 1024; set `{key}` to a higher one, or give the unit \
             AmbientCapabilities=CAP_NET_BIND_SERVICE"
        ),
        _ => format!("set `{key}` to an address that this machine can listen on"),
    };
    format!("could not listen on {address} (`{key}`): {error}; {help}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_address_that_cannot_be_had_is_told_with_its_key_and_a_way_out() {
        let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = taken.local_addr().unwrap();
        let told = bind("listen.web", address).await.unwrap_err().to_string();
        let start = format!("could not listen on {address} (`listen.web`): Address already in use");
        assert!(told.starts_with(&start), "{told}");
        assert!(
            told.contains(&format!("'sport = :{}'", address.port())),
            "{told}"
        );

        // TEST-NET-1, which no machine has.
        let foreign: SocketAddr = "192.0.2.1:0".parse().unwrap();
        let told = bind("listen.otlp_http", foreign)
            .await
            .unwrap_err()
            .to_string();
        assert!(
            told.contains("this machine has no address 192.0.2.1; set `listen.otlp_http`"),
            "{told}"
        );

        let denied = Error::from_raw_os_error(rustix::io::Errno::ACCESS.raw_os_error());
        let told = refused("listen.otlp_grpc", "0.0.0.0:80".parse().unwrap(), &denied);
        assert!(told.contains("Permission denied"), "{told}");
        assert!(
            told.contains("set `listen.otlp_grpc` to a higher one"),
            "{told}"
        );
    }
}
