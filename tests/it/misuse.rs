//! The command line and the configuration as people get them wrong: what is said, and the exit code.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Runs the program with nothing of this test's environment.
fn watchtower(args: &[&str], env: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_watchtower"));
    let command = command.args(args).env_clear().envs(env.iter().copied());
    command.stdin(Stdio::null()).output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Makes a certificate for `localhost` and its key.
fn certify(cert: &str, key: &str) {
    let options = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost";
    let mut openssl = Command::new("openssl");
    let made = openssl
        .args(options.split(' '))
        .args(["-keyout", key, "-out", cert])
        .output()
        .expect("openssl is installed; scripts/test installs it");
    assert!(made.status.success(), "{made:?}");
}

/// What `check` and `serve` say of a configuration; both must say the same and exit with 78.
fn refused(dir: &Path, yaml: &str) -> String {
    let file = dir.join("watchtower.yaml");
    std::fs::write(&file, yaml).unwrap();
    let path = file.to_str().unwrap();
    let [checked, served] = ["check", "serve"].map(|command| {
        let output = watchtower(&["--config", path, command], &[]);
        let told = stderr(&output).replace(path, "wt.yaml");
        assert_eq!(output.status.code(), Some(78), "{command}: {yaml}: {told}");
        assert!(output.stdout.is_empty(), "{command}: {yaml}");
        told
    });
    assert_eq!(checked, served, "{yaml}");
    checked
}

/// Case: files and directories that are not what the configuration takes them for.
/// Holds: `check` and the daemon refuse each by the line of its key, and say what is wrong.
#[test]
fn what_the_configuration_names_is_looked_at() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).display().to_string();
    for (name, text) in [
        ("empty.pem", ""),
        ("cut.pem", "-----BEGIN CERTIFICATE-----\nMIIB\n"),
        ("file", "x"),
    ] {
        std::fs::write(at(name), text).unwrap();
    }
    certify(&at("cert.pem"), &at("key.pem"));
    certify(&at("other.pem"), &at("other-key.pem"));
    let tls = |cert: &str, key: &str| {
        format!("tls:\n  cert_file: {}\n  key_file: {}\n", at(cert), at(key))
    };
    for (yaml, line, says) in [
        (
            tls("none.pem", "key.pem"),
            "2: tls.cert_file: ",
            "cannot read it: No such file",
        ),
        (
            tls("cert.pem", "none.pem"),
            "3: tls.key_file: ",
            "cannot read it: No such file",
        ),
        (
            tls("key.pem", "key.pem"),
            "2: tls.cert_file: ",
            "holds no PEM of that kind",
        ),
        (
            tls("empty.pem", "key.pem"),
            "2: tls.cert_file: ",
            "put the certificate",
        ),
        (
            tls("cut.pem", "key.pem"),
            "2: tls.cert_file: ",
            "is damaged PEM",
        ),
        (
            tls("cert.pem", "cert.pem"),
            "3: tls.key_file: ",
            "put the private key",
        ),
        (
            tls("cert.pem", "other-key.pem"),
            "2: tls.cert_file: ",
            "cannot be used with the key in tls.key_file",
        ),
        (
            format!("state_dir: {}\n", at("file")),
            "1: state_dir: ",
            "is not a directory",
        ),
        (
            format!("state_dir: {}\n", at("file/below")),
            "1: state_dir: ",
            "is below a file",
        ),
        (
            "state_dir: /proc/self/state\n".to_owned(),
            "1: state_dir: ",
            "cannot write in /proc/self: ",
        ),
        (
            format!("engine: {{library: {}}}\n", at("none.so")),
            "1: engine.library: ",
            "none.so is not there",
        ),
        (
            format!("engine: {{library: {}}}\n", at("file")),
            "1: engine.library: ",
            "is no library of Linux",
        ),
        (
            format!("engine:\n  binary: {}\n", at("file")),
            "2: engine.binary: ",
            "cannot be run: Permission denied",
        ),
        (
            format!("engine:\n  binary: {}\n", dir.path().display()),
            "2: engine.binary: ",
            "is not a file",
        ),
        (
            "otlp: {path: /v1/traces}\n".to_owned(),
            "1: otlp.path: ",
            "senders use that path for another signal",
        ),
        (
            "otlp: {path: /grpc.health.v1.Health/Check}\n".to_owned(),
            "1: otlp.path: ",
            "gRPC calls have that path",
        ),
    ] {
        // No engine is looked for unless the case is about it.
        let yaml = if yaml.starts_with("engine") {
            format!("{yaml}state_dir: {}\n", at("state"))
        } else {
            format!("{yaml}store: {{url: 'http://127.0.0.1:1'}}\n")
        };
        let told = refused(dir.path(), &yaml);
        assert!(
            told.starts_with(&format!("wt.yaml:{line}")),
            "{yaml}: {told}"
        );
        assert!(told.contains(says), "{yaml}: {told}");
        assert_eq!(told.lines().count(), 1, "{told}");
    }
    assert!(!dir.path().join("state").exists());
    let good = tls("cert.pem", "key.pem");
    let file = dir.path().join("watchtower.yaml");
    std::fs::write(&file, format!("{good}state_dir: {}\n", at("state"))).unwrap();
    let output = watchtower(&["--config", file.to_str().unwrap(), "check"], &[]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(!dir.path().join("state").exists());
}

/// Case: a port that somebody has, and an address that this machine has not.
/// Holds: the daemon names the key, the address and what to do, once.
#[test]
fn a_listener_that_cannot_be_had_is_told_with_its_key() {
    let dir = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let state = format!("state_dir={}", dir.path().join("state").display());
    for (address, says) in [
        (
            address.as_str(),
            "another program, or another Watchtower, has that port",
        ),
        ("192.0.2.1:4319", "this machine has no address 192.0.2.1"),
    ] {
        let sets = [
            "listen.otlp_grpc=127.0.0.1:0".to_owned(),
            "listen.otlp_http=127.0.0.1:0".to_owned(),
            format!("listen.web={address}"),
            state.clone(),
            "store.url=http://127.0.0.1:1".to_owned(),
        ];
        let sets = sets.iter().flat_map(|set| ["--set", set.as_str()]);
        let output = watchtower(&sets.collect::<Vec<_>>(), &[]);
        assert_eq!(output.status.code(), Some(1));
        let told = stderr(&output);
        let start = format!("could not listen on {address} (`listen.web`): ");
        let told = told
            .lines()
            .find(|line| line.starts_with(&start))
            .unwrap_or_else(|| panic!("{told}"));
        assert!(told.contains(says), "{told}");
        assert_eq!(told.matches("os error").count(), 1, "{told}");
    }
}

/// Case: values that no command can do anything with.
/// Holds: each is refused before anything is asked, with the bounds or with what to write.
#[test]
fn flags_out_of_bounds_are_refused_with_the_bounds() {
    for (args, says) in [
        (
            &["sql", "--timeout", "0", "SELECT 1"][..],
            "0 is not in 1..=86400",
        ),
        (
            &["sql", "--timeout", "99999999999", "SELECT 1"],
            "is not in 1..=86400",
        ),
        (
            &["search", "--from", "0s"],
            "\"0s\" is now; write how long ago",
        ),
        (
            &["search", "--from", "10000000d"],
            "is out of range; times are from 1970-01-01",
        ),
        (
            &["search", "--from", "0001-01-01T00:00:00Z"],
            "is out of range; times are from 1970-01-01",
        ),
        (
            &["search", "--to", "9999-12-31T23:59:59Z"],
            "is out of range; times are from 1970-01-01",
        ),
        (&["search", "--from", "10000y"], "is neither a time such as"),
        (&["search", "--limit", "0"], "0 is not in 1..=100000"),
        (&["tail", "--limit", "0"], "0 is not in 1.."),
        (&["tail", "--backlog", "5001"], "5001 is not in 0..=5000"),
        (
            &["tail", "--url", "localhost:4319"],
            "write http://HOST:PORT or https://HOST:PORT as --url or WATCHTOWER_URL",
        ),
        (
            &["--set", "=5", "check"],
            "--set: there is no key before the =; expected key.path=value",
        ),
        (
            &["--set", "retention", "check"],
            "--set: retention: has no value; expected key.path=value",
        ),
        (&["--set", "a.b=", "check"], "--set: a.b: unknown key;"),
        (
            &["--set", "auth.read_tokens=", "check"],
            "--set: auth.read_tokens: has no elements;",
        ),
        (
            &["--set", "retention=10000y", "check"],
            "--set: retention: \"10000y\" has an unknown unit; write one of ms, s, m, h, d",
        ),
        (
            &["--set", "cors.max_age=10000d", "check"],
            "--set: cors.max_age: is 10000d; write at most 1d",
        ),
    ] {
        let output = watchtower(args, &[]);
        assert_ne!(output.status.code(), Some(0), "{args:?}");
        assert!(
            stderr(&output).contains(says),
            "{args:?}: {}",
            stderr(&output)
        );
    }
}

/// Case: a configuration that says where the daemon listens, and one whose secrets the user may not read.
/// Holds: tail, search and send go there; WATCHTOWER_URL and --url win over it, the latter over both.
#[test]
fn clients_go_where_the_configuration_says() {
    let free = || {
        TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
    };
    let [grpc, http, web, elsewhere, flagged] = [(); 5].map(|()| free());
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("watchtower.yaml");
    let yaml = format!(
        "listen:\n  otlp_grpc: {grpc}\n  otlp_http: {http}\n  web: {web}\nauth:\n  read_tokens: [file: /no/such]\n"
    );
    std::fs::write(&file, yaml).unwrap();
    let config = file.to_str().unwrap();
    for (args, address) in [
        (&["tail"][..], web),
        (&["search"], web),
        (&["send", "x"], web),
        (&["send", "x", "--via", "http"], http),
        (&["send", "x", "--via", "grpc"], grpc),
    ] {
        let asked = |extra: &[&str], env: &[(&str, &str)]| {
            let output = watchtower(&[args, extra].concat(), env);
            assert_eq!(output.status.code(), Some(1), "{args:?}");
            stderr(&output)
        };
        let in_file = ("WATCHTOWER_CONFIG", config);
        let elsewhere = format!("http://{elsewhere}");
        let in_variable = ("WATCHTOWER_URL", elsewhere.as_str());
        let flag = format!("http://{flagged}");
        for (told, address) in [
            (asked(&[], &[in_file]), format!("http://{address}")),
            (
                asked(&["--config", config], &[]),
                format!("http://{address}"),
            ),
            (asked(&[], &[in_file, in_variable]), elsewhere.clone()),
            (
                asked(&["--url", &flag], &[in_file, in_variable]),
                flag.clone(),
            ),
        ] {
            assert!(
                told.starts_with(&format!("cannot reach {address}; "))
                    || told.starts_with(&format!("cannot reach {address}: ")),
                "{args:?}: {told}"
            );
            assert_eq!(told.matches("refused").count(), 1, "{told}");
        }
    }
    let output = watchtower(&["tail", "--set", "listen.web=127.0.0.1:0"], &[]);
    assert!(
        stderr(&output).contains("`listen.web` takes any free port"),
        "{}",
        stderr(&output)
    );
}

/// Case: what packages install beside the program.
/// Holds: the completions of each shell and the pages know the commands and their flags.
#[test]
fn completions_and_pages_are_made_from_the_flags() {
    let printed = |args: &[&str]| {
        let output = watchtower(args, &[]);
        assert_eq!(
            output.status.code(),
            Some(0),
            "{args:?}: {}",
            stderr(&output)
        );
        String::from_utf8(output.stdout).unwrap()
    };
    for shell in ["bash", "zsh", "fish"] {
        let script = printed(&["completions", shell]);
        for word in ["tail", "search", "min-level"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
    let page = printed(&["man"]);
    assert!(page.contains(".TH watchtower 1"), "{page}");
    assert!(page.contains("watchtower\\-tail(1)"), "{page}");
    assert!(!page.contains("completions"), "{page}");
    let page = printed(&["man", "tail"]);
    assert!(
        page.contains(".TH watchtower-tail 1") && page.contains("\\-\\-min\\-level"),
        "{page}"
    );
    assert_eq!(watchtower(&["man", "tale"], &[]).status.code(), Some(1));
}
