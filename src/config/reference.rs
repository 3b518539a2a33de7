//! `docs/configuration.md` and `docs/metrics.md`, made from the code's own words: the doc comments of the
//! sections, and the table of metrics. The tests here fail while a file differs; to write it anew:
//!
//! ```sh
//! WATCHTOWER_WRITE_DOCS=1 cargo test --lib config::reference
//! ```

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use serde_yaml::Value;

use super::Config;
use crate::telemetry::metrics;

const SOURCES: [&str; 2] = [include_str!("sections.rs"), include_str!("otlp.rs")];

const HEAD: &str = "# Configuration

<!-- Made from the doc comments in src/config by `WATCHTOWER_WRITE_DOCS=1 cargo test --lib config::reference`. -->

One YAML file: `--config FILE`, else the one that `WATCHTOWER_CONFIG` names, else
`/etc/watchtower/watchtower.yaml` where it exists, else the defaults below. `config/watchtower.yaml` has every key
at its default. One setting may be given on the command line, over the file's: `--set queue.disk.fsync=100ms`; the
elements of a list are separated by commas there.

`watchtower check` reports everything that is wrong, each with its line and what to write instead, and exits with 78
if anything is; `watchtower check --print` prints the whole configuration as it will be used.

`${NAME}` and `${NAME:-DEFAULT}` in a value stand for an environment variable, `$$` for a `$`. Secrets are written as
their text, as `{file: PATH}` or as `{env: NAME}`, and are never printed. Sizes have a unit (`64MiB`, `10GB`), and
so have times (`500ms`, `10s`, `5m`, `12h`, `30d`).
";

const METRICS_HEAD: &str = "# Metrics

<!-- Made from src/telemetry/metrics.rs by `WATCHTOWER_WRITE_DOCS=1 cargo test --lib config::reference`. -->

`GET /metrics` of the web port, in the Prometheus text format. Labels come from closed lists and never from a record:
`receiver` is `otlp_grpc`, `otlp_http` or `json`. Counters of receivers and of the store count from the start of the
daemon.

| metric | kind | meaning |
|---|---|---|
";

/// What stands in the source: a struct's fields, or an enum's variants, each with its doc comment.
#[derive(Default)]
struct Item {
    doc: String,
    members: Vec<Member>,
}

struct Member {
    name: String,
    kind: String,
    doc: String,
}

/// Reads the public structs and enums of a source file as rustfmt writes them.
fn items(source: &str) -> BTreeMap<String, Item> {
    let mut items = BTreeMap::new();
    let mut open: Option<(String, Item)> = None;
    let mut doc = String::new();
    for line in source.lines() {
        let text = line.trim();
        if let Some(words) = text.strip_prefix("///") {
            let words = words.trim();
            if !doc.is_empty() && !words.is_empty() {
                doc.push(' ');
            }
            doc.push_str(words);
            continue;
        }
        if text.starts_with("#[") {
            continue;
        }
        let begun = text
            .strip_prefix("pub struct ")
            .or_else(|| text.strip_prefix("pub enum "));
        if let Some(name) = begun.and_then(|rest| rest.strip_suffix(" {")) {
            let item = Item {
                doc: std::mem::take(&mut doc),
                members: Vec::new(),
            };
            open = Some((name.to_owned(), item));
        } else if line == "}" {
            items.extend(open.take());
        } else if let Some((_, item)) = open.as_mut() {
            let member = text.trim_start_matches("pub ").trim_end_matches(',');
            let (name, kind) = member.split_once(": ").unwrap_or((member, ""));
            // The one variant that holds a value, of `fsync`, holds a period.
            let name = if name.contains('(') { "a period" } else { name };
            item.members.push(Member {
                name: name.to_owned(),
                kind: kind.to_owned(),
                doc: std::mem::take(&mut doc),
            });
        }
        doc.clear();
    }
    items
}

/// Writes a section's table, and then those of the sections in it.
fn section(
    out: &mut String,
    items: &BTreeMap<String, Item>,
    name: &str,
    path: &str,
    defaults: &Value,
) {
    let item = items
        .get(name)
        .unwrap_or_else(|| panic!("no struct {name}"));
    if !path.is_empty() {
        writeln!(out, "\n## `{path}`\n\n{}", item.doc).unwrap();
    }
    let (sections, keys): (Vec<_>, Vec<_>) = item
        .members
        .iter()
        .partition(|member| defaults.get(&member.name).is_some_and(Value::is_mapping));
    if !keys.is_empty() {
        out.push_str("\n| key | default | meaning |\n|---|---|---|\n");
    }
    let below = |member: &Member| match path {
        "" => member.name.clone(),
        _ => format!("{path}.{}", member.name),
    };
    for key in keys {
        assert!(!key.doc.is_empty(), "{} has no doc comment", below(key));
        let default = match &defaults[&key.name] {
            Value::Null => "unset".to_owned(),
            Value::String(text) if text.is_empty() => "empty".to_owned(),
            value => format!(
                "`{}`",
                serde_yaml::to_string(value)
                    .unwrap()
                    .trim()
                    .trim_matches('\'')
            ),
        };
        let values = items.get(&key.kind).map_or(String::new(), values);
        writeln!(
            out,
            "| `{}` | {default} | {}{values} |",
            below(key),
            key.doc
        )
        .unwrap();
    }
    for inner in sections {
        section(
            out,
            items,
            &inner.kind,
            &below(inner),
            &defaults[&inner.name],
        );
    }
}

/// What each value of an enum means.
fn values(item: &Item) -> String {
    let each = item.members.iter().map(|variant| {
        // As serde and the texts of `fsync` write them.
        format!(" **{}**: {}", variant.name.to_lowercase(), variant.doc)
    });
    each.collect()
}

fn configuration() -> String {
    let items = SOURCES.into_iter().flat_map(items).collect();
    let defaults = serde_yaml::to_value(Config::default()).unwrap();
    let mut text = HEAD.to_owned();
    section(&mut text, &items, "Config", "", &defaults);
    text
}

fn metrics() -> String {
    let rows = metrics::ALL.iter().map(|metric| {
        format!(
            "| `{}` | {} | {} |\n",
            metric.name, metric.kind, metric.help
        )
    });
    METRICS_HEAD.to_owned() + &rows.collect::<String>()
}

/// Compares a file of `docs/` with what the code says, or writes it anew.
fn compare(name: &str, expected: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("docs")
        .join(name);
    if std::env::var_os("WATCHTOWER_WRITE_DOCS").is_some() {
        std::fs::write(&path, expected).unwrap();
    }
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = expected
        .lines()
        .zip(text.lines())
        .find(|(new, old)| new != old);
    assert!(
        text == expected,
        "docs/{name} is not what the code says ({differs:?}); write it anew with \
         WATCHTOWER_WRITE_DOCS=1 cargo test --lib config::reference"
    );
}

#[test]
fn config_docs_say_what_the_code_says() {
    compare("configuration.md", &configuration());
}

#[test]
fn metrics_docs_say_what_the_code_says() {
    compare("metrics.md", &metrics());
}

#[test]
fn every_key_has_its_line_in_the_reference() {
    let text = configuration();
    for key in super::schema::Schema::new().keys() {
        assert_eq!(text.matches(&format!("| `{key}` |")).count(), 1, "{key}");
    }
}

/// The names of metrics in a file of `config/`, without what Prometheus adds to them.
fn names_in(file: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("config")
        .join(file);
    let text = std::fs::read_to_string(path).unwrap();
    let is_part = |c: char| c.is_ascii_lowercase() || c == '_';
    text.split(|c| !is_part(c))
        .filter(|word| word.starts_with("watchtower_"))
        .map(str::to_owned)
        .collect()
}

#[test]
fn alerts_and_dashboard_name_metrics_that_exist() {
    for (file, least) in [
        ("prometheus/watchtower.rules.yml", 8),
        ("grafana/watchtower.json", 15),
    ] {
        let names = names_in(file);
        assert!(names.len() >= least, "{file}: {names:?}");
        for name in names {
            let known = metrics::ALL.iter().any(|metric| metric.name == name);
            assert!(known, "{file}: {name}");
        }
    }
}
