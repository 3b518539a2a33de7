//! Loading as a user meets it: a file, flags, an environment, and what is said about them.

use std::io::Write;

use super::load::load_with;
use super::*;

fn env(name: &str) -> Option<String> {
    match name {
        "CH" => Some("http://ch.lan:8123".to_owned()),
        "ROWS" => Some("1000".to_owned()),
        "ODD" => Some("yes: [1,\nretention: 1d".to_owned()),
        "STATE_DIRECTORY" => Some("/var/lib/watchtower:/var/lib/other".to_owned()),
        _ => None,
    }
}

fn no_env(_: &str) -> Option<String> {
    None
}

/// Loads a text as a file; what is said has the file's path replaced by `wt.yaml`.
fn load_text(text: &str, sets: &[&str]) -> Result<Config, Vec<String>> {
    load_text_with(text, sets, &env)
}

fn load_text_with(
    text: &str,
    sets: &[&str],
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<Config, Vec<String>> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
    load_with(Some(file.path()), &sets, env).map_err(|faults| {
        let path = file.path().display().to_string();
        faults
            .iter()
            .map(|fault| fault.to_string().replace(&path, "wt.yaml"))
            .collect()
    })
}

fn good(text: &str) -> Config {
    load_text(text, &[]).unwrap()
}

fn faults(text: &str) -> Vec<String> {
    load_text(text, &[]).unwrap_err()
}

#[test]
fn no_file_and_an_empty_file_give_the_defaults() {
    assert_eq!(load_with(None, &[], &no_env), Ok(Config::default()));
    for text in ["", "# nothing\n", "---\n", "listen:\nqueue:\n  disk:\n"] {
        assert_eq!(
            load_text_with(text, &[], &no_env),
            Ok(Config::default()),
            "{text:?}"
        );
    }
}

#[test]
fn b_02_both_otlp_ports_listen_by_default_and_on_loopback() {
    let listen = Config::default().listen;
    assert_eq!(listen.otlp_grpc.to_string(), "127.0.0.1:4317");
    assert_eq!(listen.otlp_http.to_string(), "127.0.0.1:4318");
}

#[test]
fn otlp_and_cors_are_checked() {
    let found = faults(
        "otlp: {path: v1/logs}\ncors: {origins: [app.lan, 'https://a.example/b'], headers: ['x y']}\n",
    );
    for key in ["otlp.path", "cors.origins", "cors.headers"] {
        let told = found.iter().any(|fault| fault.contains(key));
        assert!(told, "{key} in {found:?}");
    }
    let config = good("limits: {commit_timeout: 20s}\n");
    let warnings = config.warnings();
    assert!(
        warnings
            .iter()
            .any(|text| text.contains("limits.commit_timeout")),
        "{warnings:?}"
    );
}

#[test]
fn every_kind_of_value_is_read() {
    let config = good(
        "state_dir: /srv/wt\nretention: 7d\nlisten:\n  web: '[::1]:80'\nauth:\n  ingest_tokens:\n    - 0123\n    \
         - env: PATH\ntls:\n  cert_file: /c.pem\n  key_file: /k.pem\nlimits: {attributes: 9}\n\
         intake: {ack: received}\nqueue:\n  kind: redis\n  disk:\n    fsync: 250ms\nstore:\n  url: ${CH}\n  \
         batch_rows: ${ROWS}\n  batch_delay: 0\nlog: {format: json}\n",
    );
    assert_eq!(config.state_dir, std::path::Path::new("/srv/wt"));
    assert_eq!(config.retention, Period::days(7));
    assert_eq!(config.listen.web.to_string(), "[::1]:80");
    let tokens: Vec<_> = config
        .auth
        .ingest_tokens
        .iter()
        .map(Secret::expose)
        .collect();
    assert_eq!(tokens, ["0123", &std::env::var("PATH").unwrap()]);
    assert_eq!(
        config.tls.key_file.as_deref(),
        Some(std::path::Path::new("/k.pem"))
    );
    assert_eq!(config.limits.attributes, 9);
    assert_eq!(config.intake.ack, Ack::Received);
    assert_eq!(config.queue.kind, QueueKind::Redis);
    assert_eq!(
        config.queue.disk.fsync,
        Fsync::Interval(Period::millis(250))
    );
    assert_eq!(config.store.url.as_deref(), Some("http://ch.lan:8123"));
    assert_eq!(config.store.batch_rows, 1000);
    assert_eq!(config.store.batch_delay, Period::millis(0));
    assert_eq!(config.log.format, LogFormat::Json);
}

#[test]
fn text_stays_text_whatever_it_looks_like() {
    let config = good(
        "store:\n  password: 0x1F\n  user: yes\nqueue:\n  redis:\n    prefix: ${ODD}\n    password: 1e9\n",
    );
    assert_eq!(config.store.password.expose(), "0x1F");
    assert_eq!(config.store.user, "yes");
    assert_eq!(config.queue.redis.password.expose(), "1e9");
    assert_eq!(config.queue.redis.prefix, "yes: [1,\nretention: 1d");
    assert_eq!(config.retention, Config::default().retention);
}

#[test]
fn an_optional_key_may_be_empty() {
    let config = good("store:\n  url: ${CLICKHOUSE_URL:-}\n");
    assert_eq!(config.store.url, None);
    let config = load_text("store:\n  url: http://ch:8123\n", &["store.url="]).unwrap();
    assert_eq!(config.store.url, None);
}

#[test]
fn flags_win_over_the_file_and_later_flags_over_earlier() {
    let sets = [
        "retention=1d",
        "retention=2d",
        "queue.kind=redis",
        "auth.read_tokens=a,b",
        "store.password=${CH}",
    ];
    let config = load_text("retention: 9d\nqueue: {kind: disk}\n", &sets).unwrap();
    assert_eq!(config.retention, Period::days(2));
    assert_eq!(config.queue.kind, QueueKind::Redis);
    assert_eq!(config.auth.read_tokens.len(), 2);
    assert_eq!(config.store.password.expose(), "${CH}");
    let open = load_text("auth: {read_tokens: [a]}", &["auth.read_tokens=[]"]).unwrap();
    assert_eq!(open.auth.read_tokens, []);
}

#[test]
fn whoever_needs_a_section_is_not_kept_by_faults_in_others() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let load = |file: &tempfile::NamedTempFile| load_sections(Some(file.path()), &[], &["listen"]);
    file.write_all(
        b"auth: {read_tokens: [{file: /no/such}]}\nlisten: {web: '127.0.0.1:9'}\nx: 1\n",
    )
    .unwrap();
    assert_eq!(load(&file).unwrap().listen.web.port(), 9);
    file.write_all(b"retention: 1\nlog: {level: loud}\n")
        .unwrap();
    assert_eq!(load(&file).unwrap().listen.web.port(), 9);
    file.write_all(b"listen: {web: here}\n").unwrap();
    let faults = load(&file).unwrap_err().to_string();
    assert!(faults.contains(":6: listen: is given twice"), "{faults}");
}

#[test]
fn what_an_inspection_finds_is_told_by_the_line_of_its_key() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(b"retention: 1d\nengine:\n  library: /no/such\nlog: {level: loud}\n")
        .unwrap();
    let found = |config: &Config| {
        assert_eq!(config.retention, Period::days(1));
        vec![Conflict::of("engine.library", "is not there".to_owned())]
    };
    let faults = load_inspected(Some(file.path()), &[], &found).unwrap_err();
    let faults: Vec<_> = faults.iter().map(ToString::to_string).collect();
    let path = file.path().display();
    assert_eq!(faults.len(), 2);
    assert_eq!(faults[0], format!("{path}:3: engine.library: is not there"));
    assert!(faults[1].starts_with(&format!("{path}:4: log.level: \"loud\"")));
}

#[test]
fn systemds_state_directory_is_the_default_and_no_more() {
    assert_eq!(
        good("").state_dir,
        std::path::Path::new("/var/lib/watchtower")
    );
    assert_eq!(
        good("state_dir: here").state_dir,
        std::path::Path::new("here")
    );
}

#[test]
fn a_password_in_the_redis_url_is_moved_out_of_it() {
    let config = good("queue:\n  redis:\n    url: redis://me:p%40ss@redis.lan:6379/2\n");
    assert_eq!(config.queue.redis.url, "redis://me@redis.lan:6379/2");
    assert_eq!(config.queue.redis.password.expose(), "p@ss");
    let config = good("queue:\n  redis:\n    url: redis+unix:///run/redis.sock?db=2&pass=s3cret\n");
    assert_eq!(config.queue.redis.url, "redis+unix:///run/redis.sock?db=2");
    assert_eq!(config.queue.redis.password.expose(), "s3cret");
    assert_eq!(
        faults("queue:\n  redis:\n    url: redis://:a@h\n    password: b\n"),
        [
            "wt.yaml:3: queue.redis.url: holds a password, and queue.redis.password is set too; keep one"
        ]
    );
}

#[test]
fn r_072_every_fault_is_reported_at_once_in_the_order_of_the_file() {
    let text = "retenton: 7d\n\
                listen:\n  web: localhost:4319\n  web: 127.0.0.1:1\n\
                limits:\n  body: 64\n  body_timeout: 5seconds\n  attributes: many\n\
                fsync: always\n\
                queue: redis\n\
                store:\n  retention: 1d\n  password: ${CH_PASSWORD}\n  url:\n  batch_rows:\n\
                log:\n  level: infoo\n  format: yaml\n";
    assert_eq!(
        faults(text),
        [
            "wt.yaml:1: retenton: unknown key; did you mean `retention`?",
            "wt.yaml:3: listen.web: \"localhost:4319\" is not an address to listen on; write 127.0.0.1:4319",
            "wt.yaml:4: listen.web: is given twice, first on line 3; remove one",
            "wt.yaml:6: limits.body: \"64\" has no unit; write 64MiB or 64B",
            "wt.yaml:7: limits.body_timeout: \"5seconds\" has an unknown unit; write 5s",
            "wt.yaml:8: limits.attributes: \"many\" is not a whole number; write it like 512",
            "wt.yaml:9: fsync: unknown key; `fsync` belongs in the section `queue.disk`: queue: {disk: {fsync: …}}",
            "wt.yaml:10: queue: is a section; write its keys below it, indented: kind, disk.max_bytes, disk.min_free, \
             disk.segment_bytes, disk.fsync, redis.url, redis.password, redis.prefix, redis.lease, redis.timeout, redis.wait_replicas, redis.wait_aof",
            "wt.yaml:12: store.retention: unknown key; `retention` belongs at the top level, not in `store`",
            "wt.yaml:13: store.password: environment variable CH_PASSWORD is not set; set it, or write \
             ${CH_PASSWORD:-DEFAULT}",
            "wt.yaml:15: store.batch_rows: has no value; write one, or remove the line",
            "wt.yaml:17: log.level: \"infoo\" is not a level; write error, warn, info, debug or trace, or a filter \
             such as info,watchtower::queue=debug",
            "wt.yaml:18: log.format: unknown value `yaml`, expected `human` or `json`",
        ]
    );
}

#[test]
fn r_072_a_wrong_unit_or_shape_is_refused_with_what_to_write() {
    for (text, says) in [
        (
            "retention: 90",
            "retention: \"90\" has no unit; write 90s or 90ms",
        ),
        (
            "retention: -1s",
            "retention: \"-1s\" is negative; write it like 500ms, 10s, 5m, 12h or 30d",
        ),
        (
            "retention: 0",
            "retention: is 0; write a time from 1h to 18250d",
        ),
        (
            "retention: [1d]",
            "retention: takes one value, not a list; put it in quotes if it begins with [",
        ),
        (
            "limits: {body: 1e9}",
            "limits.body: \"1e9\" is not a whole number and a unit; write it like 64MiB",
        ),
        (
            "limits: {body: -1}",
            "limits.body: \"-1\" is negative; write it like 64MiB",
        ),
        (
            "limits: {attributes: -3}",
            "limits.attributes: \"-3\" is not a whole number; write it like 512",
        ),
        (
            "limits: {attributes: 1.5}",
            "limits.attributes: \"1.5\" is not a whole number; write it like 512",
        ),
        (
            "limits: {commit_timeout: 0s}",
            "limits.commit_timeout: is 0; write a time over 0 and up to 1h",
        ),
        (
            "listen: {web: 99999}",
            "listen.web: \"99999\" is not an address to listen on; write an IP address and a port, such as \
             127.0.0.1:4319 or [::1]:4319",
        ),
        (
            "listen: {web: ':4319'}",
            "listen.web: \":4319\" is not an address to listen on; write 0.0.0.0:4319 for all addresses, or 127.0.0.1:4319",
        ),
        (
            "auth: {read_tokens: abc}",
            "auth.read_tokens: is a list; write each element below it as \"- ELEMENT\"",
        ),
        (
            "auth: {read_tokens: ['']}",
            "auth.read_tokens: holds an empty token; write the token, or remove the line",
        ),
        (
            "auth: {ingest_tokens: }",
            "auth.ingest_tokens: has no elements; write [] if there are to be none, or remove the line",
        ),
        (
            "auth: {read_tokens: [{file: /no/such}]}",
            "auth.read_tokens: cannot read /no/such: No such file or directory (os error 2); make it readable for \
             the user the daemon runs as",
        ),
        (
            "queue: {redis: {prefix: {watchtower}}}",
            "queue.redis.prefix: invalid type: map, expected a string; put the value in quotes if it begins with {",
        ),
        (
            "queue: {disk: {fsync: sometimes}}",
            "queue.disk.fsync: \"sometimes\" is not",
        ),
        (
            "intake: {ack: true}",
            "intake.ack: unknown value `true`, expected `queued` or `received`",
        ),
        (
            "store.url: http://x",
            "store.url: unknown key; write it as nested sections: store: {url: …}",
        ),
        (
            "store: {pasword: x}",
            "store.pasword: unknown key; did you mean `store.password`?",
        ),
    ] {
        let faults = faults(text);
        assert_eq!(faults.len(), 1, "{text}: {faults:?}");
        let fault = faults.first().unwrap();
        assert!(
            fault.starts_with(&format!("wt.yaml:1: {says}")),
            "{text}: {fault}"
        );
    }
}

#[test]
fn settings_that_do_not_go_together_are_refused() {
    for (text, says) in [
        (
            "listen:\n  web: 0.0.0.0:4317",
            ":2: listen.web: is 0.0.0.0:4317, and listen.otlp_grpc is 127.0.0.1:4317; give each its own port",
        ),
        (
            "tls: {cert_file: a}",
            ":1: tls.cert_file: needs tls.key_file too; set both, or neither",
        ),
        (
            "tls: {key_file: a}",
            ":1: tls.key_file: needs tls.cert_file too; set both, or neither",
        ),
        (
            "limits: {in_flight: 32MiB}",
            ":1: limits.in_flight: is 32MiB, under limits.body which is 64MiB; raise it, or lower limits.body",
        ),
        (
            "limits: {body: 1GiB, in_flight: 512MiB}",
            ":1: limits.body: is 1GiB, over limits.in_flight which is 512MiB; lower it, or raise limits.in_flight",
        ),
        (
            "queue: {disk: {segment_bytes: 6GiB}}",
            ":1: queue.disk.segment_bytes: is 6GiB; write at most half of queue.disk.max_bytes, which is 10GiB",
        ),
        (
            "queue: {disk: {segment_bytes: 4MiB}}",
            ":1: queue.disk.segment_bytes: is 4MiB, under intake.frame_bytes which is 8MiB; raise it, or lower intake.frame_bytes",
        ),
        (
            "queue: {redis: {timeout: 20s}}",
            ":1: queue.redis.timeout: is 20s; write less than queue.redis.lease, which is 15s, or one slow",
        ),
        (
            "live: {viewers: 4}",
            ":1: live.viewers: is 4, under live.viewers_per_address which is 8; raise it, or lower live.viewers_per_address",
        ),
        (
            "listen:\n  otlp_grpc: 127.0.0.1:4319",
            ":2: listen.otlp_grpc: is 127.0.0.1:4319, and listen.web is 127.0.0.1:4319; give each its own port",
        ),
        (
            "links: {trace: 'javascript:alert(1)//{trace_id}'}",
            ":1: links.trace: is \"javascript:alert(1)//{trace_id}\"; write an address such as http://jaeger.lan:16686/trace/{trace_id}",
        ),
        (
            "cors: {max_age: 10000d}",
            ":1: cors.max_age: is 10000d; write at most 1d",
        ),
        (
            "otlp: {path: /v1/traces}",
            ":1: otlp.path: is \"/v1/traces\"; senders use that path for another signal",
        ),
        (
            "state_dir: ''",
            ":1: state_dir: is empty; write a directory such as /var/lib/watchtower",
        ),
        (
            "store: {url: ch.lan}",
            ":1: store.url: is not an HTTP URL; write http://HOST:8123 or https://HOST:8443",
        ),
        (
            "store: {url: 'http://u:s3cret@h:8123'}",
            ":1: store.url: holds a user or password; write them as store.user and store.password",
        ),
        (
            "store: {url: 'http://h:9000'}",
            ":1: store.url: names the port of ClickHouse's own protocol; write the HTTP port, usually 8123 or 8443",
        ),
        (
            "store: {database: a-b}",
            ":1: store.database: is \"a-b\"; write a name of letters, digits and _",
        ),
        (
            "queue: {redis: {url: 'http://x'}}",
            ":1: queue.redis.url: is not a Redis URL: ",
        ),
        (
            "queue: {redis: {lease: 2s}}",
            ":1: queue.redis.lease: is 2s; write more than queue.redis.timeout, which is 5s",
        ),
        (
            "queue: {disk: {max_bytes: 64MiB}}",
            ":1: queue.disk.max_bytes: is 64MiB; write at least two segments, 128MiB",
        ),
        (
            "queue: {disk: {fsync: 0s}}",
            ":1: queue.disk.fsync: is 0; write always, never, or a time over 0",
        ),
        (
            "engine: {memory: 1MiB}",
            ":1: engine.memory: is 1MiB; write at least 256MiB",
        ),
        (
            "intake: {commits_in_flight: 0}",
            ":1: intake.commits_in_flight: is 0; write a number from 1 to 1024",
        ),
    ] {
        let faults = faults(text);
        assert_eq!(faults.len(), 1, "{text}: {faults:?}");
        assert!(
            faults.concat().starts_with(&format!("wt.yaml{says}")),
            "{text}: {faults:?}"
        );
        assert!(!faults.concat().contains("s3cret"), "{faults:?}");
    }
}

#[test]
fn faults_of_flags_name_the_flag() {
    for (set, says) in [
        (
            "retention",
            "--set: retention: has no value; expected key.path=value, such as `retention=7d`",
        ),
        (
            "=5",
            "--set: there is no key before the =; expected key.path=value",
        ),
        (
            "",
            "--set: there is no key before the =; expected key.path=value",
        ),
        (
            "queue.kind=",
            "--set: queue.kind: has no value after the =; expected",
        ),
        (
            "state_dir= ",
            "--set: state_dir: has no value after the =; expected",
        ),
        (
            "limits.body=",
            "--set: limits.body: has no value after the =; expected",
        ),
        ("a.b=", "--set: a.b: unknown key; "),
        (
            "auth.ingest_tokens=",
            "--set: auth.ingest_tokens: has no elements; write them with commas between, or write [] if",
        ),
        (
            "auth.read_tokens=[a,b]",
            "--set: auth.read_tokens: takes plain elements with commas between, such as one,two; write [ ]",
        ),
        (
            "auth.read_tokens={file:/x}",
            "--set: auth.read_tokens: takes plain elements with commas between",
        ),
        (
            "auth.read_tokens=a,,b",
            "--set: auth.read_tokens: holds an empty element",
        ),
        (
            "retenton=1d",
            "--set: retenton: unknown key; did you mean `retention`?",
        ),
        (
            "queue.disk.maxbytes=1GiB",
            "--set: queue.disk.maxbytes: unknown key; did you mean `queue.disk.max_bytes`?",
        ),
        (
            "tls=x",
            "--set: tls: is a section; set one of its keys: cert_file, key_file",
        ),
        (
            "fsync=never",
            "--set: fsync: unknown key; `fsync` belongs in the section `queue.disk`",
        ),
        (
            "limits.body=64",
            "--set: limits.body: \"64\" has no unit; write 64MiB or 64B",
        ),
        (
            "tls.key_file=a",
            "--set: tls.key_file: needs tls.cert_file too",
        ),
    ] {
        let faults = load_text("", &[set]).unwrap_err();
        assert_eq!(faults.len(), 1, "{set}: {faults:?}");
        assert!(faults.concat().starts_with(says), "{set}: {faults:?}");
    }
}

#[test]
fn a_file_that_cannot_be_read_is_a_fault() {
    let missing = load_with(Some("/no/such/wt.yaml".as_ref()), &[], &no_env).unwrap_err();
    assert_eq!(
        missing.to_string(),
        "/no/such/wt.yaml: cannot read it: No such file or directory (os error 2)"
    );
    assert_eq!(
        faults("a:\n\tb: 2\n"),
        [
            "wt.yaml:2: not valid YAML: found character that cannot start any token at line 2 column 1, while scanning \
          for the next token; indent with blanks, not with tabs"
        ]
    );
    assert_eq!(
        faults("- a\n"),
        ["wt.yaml: expected sections and keys, such as `retention: 30d`"]
    );
}

#[test]
fn warnings_tell_what_is_open() {
    assert_eq!(good("").warnings(), Vec::<String>::new());
    let open = good("listen: {web: '0.0.0.0:4319'}").warnings().join("\n");
    assert!(
        open.contains("can send logs; set auth.ingest_tokens"),
        "{open}"
    );
    assert!(
        open.contains("can read the logs; set auth.read_tokens"),
        "{open}"
    );
    let with = |read_token: &str| {
        let auth =
            format!("auth: {{ingest_tokens: [sixteen-letters-], read_tokens: [{read_token}]}}");
        good(&format!("listen: {{web: '0.0.0.0:4319'}}\n{auth}")).warnings()
    };
    let plain = with("another-that-is-long");
    assert_eq!(plain.len(), 1);
    assert!(plain.concat().contains("unencrypted"), "{plain:?}");
    let short = with("guess-me");
    assert_eq!(short.len(), 2);
    assert!(short.concat().contains("can be guessed"), "{short:?}");
    assert!(!short.concat().contains("guess-me"), "{short:?}");
}

#[test]
fn printing_the_configuration_hides_secrets_and_is_read_back() {
    let config = good(
        "auth: {read_tokens: [s3cret]}\nstore: {password: s3cret}\nqueue: {redis: {url: 'redis://:s3cret@h'}}\n",
    );
    let yaml = config.to_yaml();
    assert!(!yaml.contains("s3cret"), "{yaml}");
    assert!(!format!("{config:?}").contains("s3cret"));
    assert_eq!(yaml.matches("***").count(), 3, "{yaml}");
    let printed = Config::default().to_yaml();
    assert_eq!(load_text(&printed, &[]), Ok(Config::default()));
}

/// The keys that a text gives a value, by their whole paths.
fn keys_of(text: &str) -> Vec<String> {
    fn collect(section: &str, node: &tree::Node, schema: &schema::Schema, keys: &mut Vec<String>) {
        match node {
            tree::Node::Map(entries) if schema.is_section(section) => {
                for (name, node) in entries {
                    collect(&schema::join(section, name), node, schema, keys);
                }
            }
            _ => keys.push(section.to_owned()),
        }
    }
    let mut keys = Vec::new();
    let node = tree::parse(text).ok().unwrap();
    collect("", &node, &schema::Schema::new(), &mut keys);
    keys
}

fn shipped(name: &str) -> String {
    let path = format!("{}/config/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn the_annotated_file_has_every_key_at_its_default() {
    let text = shipped("watchtower.yaml");
    assert_eq!(load_text_with(&text, &[], &no_env), Ok(Config::default()));
    let schema = schema::Schema::new();
    assert_eq!(keys_of(&text), schema.keys().collect::<Vec<_>>());
    // Every key is explained: a comment stands above it or beside it, or above its neighbour.
    for section in text.split("\n\n") {
        assert!(section.contains('#'), "without a word: {section}");
    }
}

#[test]
fn the_annotated_file_follows_systemd() {
    let env = |name: &str| (name == "STATE_DIRECTORY").then(|| "/var/lib/wt".to_owned());
    let config = load_text_with(&shipped("watchtower.yaml"), &[], &env).unwrap();
    assert_eq!(config.state_dir, std::path::Path::new("/var/lib/wt"));
}
