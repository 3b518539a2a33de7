//! SIGHUP: the configuration is read again, and what can change while the daemon runs does.
//!
//! A file that is wrong changes nothing. What takes a restart is named and stays as it was. Requests take
//! the settings of the moment in which they come, also on connections that are open; connections take
//! the certificate of the moment in which they are made.

use std::sync::Arc;
use std::time::Duration;

use sd_notify::NotifyState;
use serde_yaml::Value;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;
use tracing::{debug, error, info, warn};

use super::notify;
use crate::config::{Config, Secret};
use crate::server::{Routes, Server, Switch, acceptor};
use crate::store::{Client, Schema};
use crate::telemetry::logging;

/// Reads the configuration as the start did, with its checks.
pub type Reread = Box<dyn Fn() -> anyhow::Result<Config> + Send>;

/// Keys that are taken over; all below them are too.
const LIVE: [&str; 10] = [
    "auth",
    "tls",
    "otlp",
    "cors",
    "levels",
    "limits",
    "links",
    "log.level",
    "retention",
    "retention_except",
];
/// Keys among those that take a restart all the same.
const FIXED: [&str; 2] = ["limits.connections", "limits.in_flight"];

/// When the tables are tried again that could not be changed.
const RETENTION_AGAIN: Duration = Duration::from_secs(2);

/// Makes the routes of the OTLP ports and of the web port for a configuration.
pub(super) type MakeRoutes = Box<dyn Fn(Arc<Config>) -> [Routes; 2] + Send>;

/// Everything that follows the configuration.
pub(super) struct Reloader {
    pub(super) reread: Reread,
    pub(super) config: Arc<Config>,
    pub(super) routes: MakeRoutes,
    /// Of the OTLP ports and of the web port.
    pub(super) switches: [Switch; 2],
    pub(super) server: Server,
    pub(super) read_tokens: watch::Sender<Arc<[Secret]>>,
    pub(super) store: Client,
    pub(super) schema: Schema,
    pub(super) retention: Option<AbortOnDropHandle<()>>,
}

impl Reloader {
    /// Reads the configuration again and takes over what can be.
    pub(super) fn reload(&mut self) {
        if let Ok(now) = NotifyState::monotonic_usec_now() {
            notify(&[NotifyState::Reloading, now]);
        }
        let said = match (self.reread)() {
            Ok(config) => self.take(config),
            Err(error) => {
                let error = crate::causes::joined(error.as_ref());
                error!(%error, "the configuration is wrong; everything stays as it was");
                "reload failed, see the log; everything stays as it was".to_owned()
            }
        };
        notify(&[NotifyState::Ready, NotifyState::Status(&said)]);
    }

    fn take(&mut self, config: Config) -> String {
        let tls = match acceptor(&config.tls) {
            Ok(tls) => tls,
            Err(error) => {
                error!(%error, "the certificate cannot be used; everything stays as it was");
                return format!("reload failed: {error}");
            }
        };
        if let Err(error) = logging::set_level(&config.log.level) {
            warn!(%error, "the level of the log stays as it was");
        }
        for warning in config.warnings() {
            warn!("{warning}");
        }
        let changed = changes(&self.config, &config);
        let (taken, fixed): (Vec<String>, Vec<String>) =
            changed.into_iter().partition(|key| is_live(key));
        let config = Arc::new(with_fixed(config, &self.config));
        let [otlp, web] = (self.routes)(Arc::clone(&config));
        let [otlp_switch, web_switch] = &self.switches;
        otlp_switch.set(otlp);
        web_switch.set(web);
        self.server.change(&config.limits, tls);
        self.read_tokens
            .send_replace(config.auth.read_tokens.clone().into());
        let kept = |config: &Config| (config.retention, config.retention_except.clone());
        if kept(&config) != kept(&self.config) {
            self.keep(&config);
        }
        self.config = config;
        let (taken, fixed) = (taken.join(", "), fixed.join(", "));
        info!(
            taken,
            "configuration reloaded; files it names were read again"
        );
        if fixed.is_empty() {
            return "configuration reloaded".to_owned();
        }
        warn!(
            keys = fixed,
            "changed in the configuration, and takes a restart"
        );
        format!("configuration reloaded; a restart is needed for {fixed}")
    }

    /// Changes how long the tables keep records.
    fn keep(&mut self, config: &Config) {
        self.schema.keep(config);
        let (schema, store) = (self.schema.clone(), self.store.clone());
        let changed = tokio::spawn(async move {
            while let Err(error) = schema.ensure(&store).await {
                debug!(%error, "the tables still have their old retention");
                tokio::time::sleep(RETENTION_AGAIN).await;
            }
        });
        self.retention = Some(AbortOnDropHandle::new(changed));
    }
}

/// The new configuration with what takes a restart as it was.
fn with_fixed(new: Config, old: &Config) -> Config {
    let mut config = old.clone();
    config.auth = new.auth;
    config.tls = new.tls;
    config.otlp = new.otlp;
    config.cors = new.cors;
    config.levels = new.levels;
    config.links = new.links;
    config.retention = new.retention;
    config.retention_except = new.retention_except;
    config.log.level = new.log.level;
    config.limits = crate::config::Limits {
        connections: old.limits.connections,
        in_flight: old.limits.in_flight,
        ..new.limits
    };
    config
}

fn is_live(key: &str) -> bool {
    let among = |keys: &[&str]| {
        keys.iter().any(|of| {
            let rest = key.strip_prefix(of);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        })
    };
    among(&LIVE) && !among(&FIXED)
}

/// The keys whose values differ. Secrets are written as `***`, so that those are compared apart.
fn changes(old: &Config, new: &Config) -> Vec<String> {
    let mut found = Vec::new();
    let value = |config: &Config| serde_yaml::to_value(config).unwrap_or_default();
    differ("", &value(old), &value(new), &mut found);
    let mut secret = |key: &str, differs: bool| {
        if differs && !found.iter().any(|known| known == key) {
            found.push(key.to_owned());
        }
    };
    secret(
        "auth.ingest_tokens",
        old.auth.ingest_tokens != new.auth.ingest_tokens,
    );
    secret(
        "auth.read_tokens",
        old.auth.read_tokens != new.auth.read_tokens,
    );
    secret("store.password", old.store.password != new.store.password);
    secret(
        "queue.redis.url",
        old.queue.redis.url != new.queue.redis.url,
    );
    found
}

fn differ(key: &str, old: &Value, new: &Value, found: &mut Vec<String>) {
    match (old, new) {
        (Value::Mapping(old), Value::Mapping(new)) => {
            for (name, value) in new {
                let name_text = name.as_str().unwrap_or_default();
                let dot = if key.is_empty() { "" } else { "." };
                let old = old.get(name).unwrap_or(&Value::Null);
                differ(&format!("{key}{dot}{name_text}"), old, value, found);
            }
        }
        _ if old != new => found.push(key.to_owned()),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::load_text;

    fn config(text: &str) -> Config {
        load_text(Path::new("test.yaml"), text.to_owned(), &[], &|_| None).unwrap()
    }

    #[test]
    fn what_differs_is_named_secrets_too() {
        let old = config("auth: {ingest_tokens: [a]}\nretention: 3d\n");
        let new = config(
            "auth: {ingest_tokens: [b]}\nlimits: {body: 1MiB, connections: 7}\nretention: 3d\n",
        );
        assert_eq!(
            changes(&old, &new),
            ["limits.body", "limits.connections", "auth.ingest_tokens"]
        );
        assert_eq!(changes(&old, &old), [""; 0]);
    }

    #[test]
    fn what_takes_a_restart_stays_as_it_was() {
        let old = config("listen: {web: '127.0.0.1:1'}\n");
        let new = config(
            "listen: {web: '127.0.0.1:2'}\nlimits: {body: 1MiB, connections: 7}\nlog: {level: debug}\n",
        );
        let both = with_fixed(new, &old);
        assert_eq!(both.listen, old.listen);
        assert_eq!(both.limits.connections, old.limits.connections);
        assert_eq!(both.limits.body.as_usize(), 1 << 20);
        for key in changes(&old, &both) {
            assert!(is_live(&key), "{key}");
        }
    }

    #[test]
    fn keys_are_told_apart_by_their_names() {
        for (key, live) in [
            ("auth.read_tokens", true),
            ("limits.body", true),
            ("limits.connections", false),
            ("log.level", true),
            ("log.format", false),
            ("listen.web", false),
            ("store.url", false),
        ] {
            assert_eq!(is_live(key), live, "{key}");
        }
    }
}
