//! `tls.client_ca_file`: only clients with a certificate of that authority may connect.

use std::path::Path;
use std::process::Command;

use crate::support::daemon::Daemon;

fn openssl(dir: &Path, line: &str) {
    let made = Command::new("openssl")
        .current_dir(dir)
        .args(line.split(' '))
        .output()
        .expect("openssl is installed; scripts/test installs it");
    assert!(made.status.success(), "{line}: {made:?}");
}

/// An authority `name.pem`, and what it issues to `NAME-client` and to a server on this machine.
fn authority(dir: &Path, name: &str) {
    const KEY: &str = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    openssl(
        dir,
        &format!("req -x509 {KEY} -days 2 -subj /CN={name} -keyout {name}.key -out {name}.pem"),
    );
    std::fs::write(
        dir.join("san.cnf"),
        "subjectAltName=DNS:localhost,IP:127.0.0.1\n",
    )
    .unwrap();
    for leaf in ["client", "server"] {
        openssl(
            dir,
            &format!("req {KEY} -subj /CN={leaf} -keyout {name}-{leaf}.key -out {leaf}.csr"),
        );
        openssl(
            dir,
            &format!(
                "x509 -req -in {leaf}.csr -CA {name}.pem -CAkey {name}.key -CAcreateserial -days 2 -extfile san.cnf -out {name}-{leaf}.pem"
            ),
        );
    }
}

/// `watchtower send`, as somebody with these certificates would.
fn send(dir: &Path, daemon: &Daemon, via: &str, client: Option<&str>) -> (bool, String) {
    let port = match via {
        "grpc" => daemon.grpc.port(),
        "http" => daemon.http.port(),
        _ => daemon.web.port(),
    };
    let mut command = Command::new(env!("CARGO_BIN_EXE_watchtower"));
    command
        .current_dir(dir)
        .env("SSL_CERT_FILE", dir.join("ours.pem"))
        .args(["send", "hello", "--via", via])
        .args(["--url", &format!("https://localhost:{port}")]);
    if let Some(client) = client {
        command
            .args(["--client-cert", &format!("{client}-client.pem")])
            .args(["--client-key", &format!("{client}-client.key")]);
    }
    let done = command.output().unwrap();
    let text = [done.stdout, done.stderr].concat();
    (
        done.status.success(),
        String::from_utf8_lossy(&text).into_owned(),
    )
}

/// Case: clients with a certificate of the authority, with another one's, and with none; then the file is
/// exchanged for the other's.
/// Holds: the first is served on each port and no other is, and a reload turns that round.
#[test]
fn only_clients_of_the_authority_are_served() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path();
    authority(path, "ours");
    authority(path, "theirs");
    std::fs::copy(path.join("ours.pem"), path.join("clients.pem")).unwrap();
    let at = |name: &str| path.join(name).display().to_string();
    let config = format!(
        "tls: {{cert_file: {}, key_file: {}, client_ca_file: {}}}\nstore: {{url: 'http://127.0.0.1:9'}}\n",
        at("ours-server.pem"),
        at("ours-server.key"),
        at("clients.pem")
    );
    let daemon = Daemon::spawned(path, &config);
    daemon.wait_until("it serves a client of ours", || {
        send(path, &daemon, "json", Some("ours")).0
    });
    for via in ["grpc", "http", "json"] {
        let (done, text) = send(path, &daemon, via, Some("ours"));
        assert!(done, "{via}: {text}");
        for other in [None, Some("theirs")] {
            let (done, text) = send(path, &daemon, via, other);
            assert!(!done, "{via} as {other:?}: {text}");
        }
    }
    std::fs::copy(path.join("theirs.pem"), path.join("clients.pem")).unwrap();
    daemon.reload(&config);
    let (done, text) = send(path, &daemon, "json", Some("theirs"));
    assert!(done, "{text}");
    assert!(!send(path, &daemon, "json", Some("ours")).0);
}
