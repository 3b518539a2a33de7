//! README.md and docs/operating.md: every command in them is run as it stands, against a real daemon.

use std::path::Path;
use std::process::{Command, Output};

use crate::support::daemon::{Daemon, watchtower};
use crate::support::http;

const README: &str = include_str!("../../README.md");
const OPERATING: &str = include_str!("../../docs/operating.md");
const FOLDER: &str = env!("CARGO_MANIFEST_DIR");

/// The blocks of a language.
fn blocks(text: &'static str, language: &str) -> impl Iterator<Item = &'static str> {
    let parts = text.split("\n```").skip(1).step_by(2);
    parts.filter_map(move |part| part.strip_prefix(language)?.strip_prefix('\n'))
}

/// The pieces of code in the running text.
fn spans(text: &str) -> impl Iterator<Item = String> + use<> {
    let prose: String = text.split("\n```").step_by(2).collect();
    let spans: Vec<_> = prose
        .split('`')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect();
    spans.into_iter().map(|span| span.replace('\n', " "))
}

/// The commands of the shell blocks, without their comments. One goes on over lines while a quote is open.
fn block_commands(text: &'static str) -> Vec<String> {
    let mut commands = Vec::new();
    let mut command = String::new();
    for line in blocks(text, "sh").flat_map(str::lines) {
        let line = line.split("    #").next().unwrap().trim_end();
        if command.is_empty() && (line.starts_with('#') || line.is_empty()) {
            continue;
        }
        command.push_str(line);
        let is_open = ['"', '\''].map(|quote| command.matches(quote).count() % 2 == 1);
        if is_open == [false, false] {
            commands.push(std::mem::take(&mut command));
        } else {
            command.push('\n');
        }
    }
    assert_eq!(command, "", "a quote stays open");
    commands
}

/// A daemon, and a shell in which the README's addresses and placeholders mean that daemon.
struct Place {
    daemon: Daemon,
    other_config: String,
}

impl Place {
    fn shell(&self, command: &str) -> Output {
        let command = command
            .replace("127.0.0.1:4317", &self.daemon.grpc.to_string())
            .replace("127.0.0.1:4318", &self.daemon.http.to_string())
            .replace("127.0.0.1:4319", &self.daemon.web.to_string())
            .replace("FILE", &self.other_config)
            .replace("QUERY", "'SELECT 40 + 2'");
        let binaries = Path::new(env!("CARGO_BIN_EXE_watchtower"))
            .parent()
            .unwrap();
        let path = std::env::var("PATH").unwrap();
        // In case something goes on for ever.
        Command::new("timeout")
            .args(["--kill-after=1", "60", "bash", "-c", &command])
            .current_dir(FOLDER)
            .env("PATH", format!("{}:{path}", binaries.display()))
            .env("WATCHTOWER_CONFIG", self.daemon.dir.join("watchtower.yaml"))
            .env("WATCHTOWER_URL", format!("http://{}", self.daemon.web))
            .output()
            .unwrap()
    }

    /// Runs a command and looks for a text in what it prints.
    fn prints(&self, command: &str, expected: &str) {
        let output = self.shell(command);
        let printed = String::from_utf8_lossy(&output.stdout);
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success() && format!("{printed}{told}").contains(expected),
            "{command}\nshall print {expected}\n{}\n{printed}{told}",
            output.status
        );
    }

    /// Runs one command of the README; fails if there is no way to.
    fn run(&self, command: &str) {
        match command.split(' ').collect::<Vec<_>>().as_slice() {
            // They build or run all of this, so that a test cannot.
            [script @ ("./scripts/quickstart" | "./scripts/test")] => {
                self.prints(&format!("bash -n {script} && test -x {script}"), "");
            }
            ["curl", "-X", ..] => self.prints(command, "\"accepted\":1"),
            // It never ends by itself; what it prints first is enough.
            ["curl", "-N", ..] => {
                self.prints(
                    &format!("grep -m 1 '^event: ' < <({command} --silent 2>/dev/null)"),
                    "event: ",
                );
            }
            // It would send to the usual port.
            ["watchtower", "send", ..] => {
                self.prints(
                    &format!("{command} --url http://127.0.0.1:4317"),
                    "accepted",
                );
            }
            ["watchtower", "tail", ..] => {
                let backlog = if command.contains(" -n ") {
                    ""
                } else {
                    "-n 10"
                };
                self.prints(&format!("{command} {backlog} --limit 1"), "timeout");
            }
            ["watchtower", "search", ..] => self.prints(command, "payment timeout"),
            // Into a pipe, with the names of the columns.
            ["watchtower", "sql", "QUERY"] => self.prints(command, "plus(40, 2)\n42\n"),
            ["watchtower", "sql", ..] => self.prints(command, "shop"),
            ["watchtower", "status"] => self.prints(command, "all well"),
            ["watchtower", "queue", "ls"] => self.prints(command, "dead letters"),
            ["watchtower", "check", .., "--print"] => self.prints(command, "retention"),
            ["watchtower", "check", ..] | ["watchtower", "queue", "replay", "--all"] => {
                self.prints(command, "");
            }
            // Nor does the daemon, until it is asked to.
            ["watchtower", "--config", ..] => self.prints(
                &format!(
                    "exec 3< <(exec {command} 2>&1); pid=$!
                    grep -m 1 listening <&3; kill $pid; cat <&3; wait $pid"
                ),
                "listening",
            ),
            // What scripts/test-package does on a machine of its own.
            ["./scripts/package", ..] | ["sudo", "dpkg", ..] | ["ss", ..] => {}
            // There may be no systemd, but the unit of this name is ours.
            ["systemctl", "status", unit] | ["journalctl", "-u", unit] => {
                let unit = format!("{FOLDER}/systemd/{unit}.service");
                assert!(Path::new(&unit).is_file(), "{unit}");
            }
            // What it does, `tests/it/reload.rs` holds.
            ["systemctl", "reload", unit] | ["sudo", "systemctl", "reload", unit] => {
                let unit = std::fs::read_to_string(format!("{FOLDER}/systemd/{unit}.service"));
                assert!(
                    unit.unwrap()
                        .contains("\nExecReload=/bin/kill -HUP $MAINPID\n")
                );
            }
            _ => panic!("there is a command that no test runs: {command}"),
        }
    }
}

/// Case: the commands of the README in its order, blocks before running text, with its ports and file
/// names replaced by a test's.
/// Holds: each does what the README says.
#[test]
fn every_command_of_the_readme_works() {
    let dir = tempfile::tempdir().unwrap();
    let place = Place {
        daemon: Daemon::start(dir.path(), ""),
        other_config: dir.path().join("other.yaml").display().to_string(),
    };
    let other = format!(
        "state_dir: {}\nlisten: {{otlp_grpc: 127.0.0.1:0, otlp_http: 127.0.0.1:0, web: 127.0.0.1:0}}\n",
        dir.path().join("other").display()
    );
    std::fs::write(&place.other_config, other).unwrap();
    let record = r#"{"level": "warn", "service": "shop", "message": "payment timeout"}"#;
    let answer = http::post(
        place.daemon.web,
        "/api/logs",
        "application/json",
        record.as_bytes(),
    );
    assert_eq!(answer.unwrap().status, 202);
    place.daemon.wait_stored();

    let (exports, commands): (Vec<_>, Vec<_>) = block_commands(README)
        .into_iter()
        .partition(|command| command.starts_with("export "));
    assert!(
        exports.len() >= 5 && commands.len() >= 6,
        "{exports:?} {commands:?}"
    );
    for command in commands {
        place.run(&command);
    }
    let mut num_spans = 0;
    for span in spans(README) {
        match span.split_once(' ') {
            Some(("watchtower" | "curl", _)) => place.run(&span),
            Some(("GET", path)) => {
                assert_eq!(
                    http::get(place.daemon.web, path).unwrap().status,
                    200,
                    "{path}"
                );
            }
            _ => continue,
        }
        num_spans += 1;
    }
    assert!(num_spans >= 8, "{num_spans}");

    let operating: Vec<_> = block_commands(OPERATING)
        .into_iter()
        .chain(spans(OPERATING).filter(|span| span.starts_with("watchtower ")))
        .collect();
    assert!(operating.len() >= 12, "{operating:?}");
    for command in operating {
        place.run(&command);
    }
    for span in spans(OPERATING) {
        if let Some(path) = span.strip_prefix("GET ") {
            let status = http::get(place.daemon.web, path).unwrap().status;
            assert_eq!(status, 200, "{path}");
        }
    }

    // The variables that "every SDK reads" are all that an SDK needs.
    let exports = exports.join("\n");
    place.prints(
        &format!("{exports}\nexec .venv/bin/python otel-examples/python/example.py"),
        "trace ",
    );
    let query = "SELECT count() FROM logs WHERE (service, environment) = ('shop', 'prod')";
    place.daemon.wait_stored();
    assert_eq!(place.daemon.sql(query), [["3"]]);
}

/// Case: the configurations of the README.
/// Holds: `check` finds nothing wrong with them.
#[test]
fn every_configuration_of_the_readme_is_good() {
    let dir = tempfile::tempdir().unwrap();
    let password = dir.path().join("clickhouse.password");
    std::fs::write(&password, "secret").unwrap();
    let mut num_blocks = 0;
    for block in blocks(README, "yaml") {
        let text = block.replace(
            "/etc/watchtower/clickhouse.password",
            password.to_str().unwrap(),
        );
        let config = dir.path().join("watchtower.yaml");
        std::fs::write(&config, text).unwrap();
        let output = watchtower(&["check", "--config", config.to_str().unwrap()], "");
        assert!(
            output.status.success(),
            "{block}\n{}",
            String::from_utf8_lossy(&output.stderr)
        );
        num_blocks += 1;
    }
    assert!(num_blocks > 0);
}
