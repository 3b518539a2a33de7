//! The engine's two configuration files, and the one that says how to reach it.
//!
//! The engine is a guest on somebody's machine beside the daemon: no logs of its own in tables, no
//! network but one loopback port, bounded memory, few threads, and little to do while nothing comes.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::Error;
use crate::config::{self, Secret};
use crate::store::Endpoint;

/// The daemon's user at the engine.
pub(super) const USER: &str = "watchtower";
/// The user for people's own queries, who may read and nothing else.
const READER: &str = "reader";

/// What the daemon's user may do on its database.
const RIGHTS: &str = "SHOW, SELECT, INSERT, ALTER, CREATE DATABASE, CREATE TABLE, CREATE VIEW, \
     DROP TABLE, DROP VIEW, TRUNCATE, OPTIMIZE";

/// Name of the file with the reader's access, beside the configuration.
const ACCESS: &str = "access";

/// Where the engine's files are.
#[derive(Debug, Clone)]
pub(super) struct Files {
    pub(super) dir: PathBuf,
    pub(super) config: PathBuf,
    pub(super) data: PathBuf,
    users: PathBuf,
    access: PathBuf,
}

/// The passwords of one life of the engine.
pub(super) struct Passwords {
    pub(super) daemon: Secret,
    pub(super) reader: Secret,
}

impl Passwords {
    pub(super) fn random() -> Result<Passwords, getrandom::Error> {
        Ok(Passwords {
            daemon: random()?,
            reader: random()?,
        })
    }
}

fn random() -> Result<Secret, getrandom::Error> {
    let mut bytes = [0; 24];
    getrandom::fill(&mut bytes)?;
    Ok(Secret::new(hex(&bytes)))
}

impl Files {
    pub(super) fn new(state_dir: &Path) -> Result<Files, Error> {
        // The engine runs in the same directory, but says where its files are in its messages.
        let dir =
            std::path::absolute(state_dir.join("engine")).map_err(Error::io("start", state_dir))?;
        Ok(Files {
            config: dir.join("config.xml"),
            users: dir.join("users.xml"),
            access: dir.join(ACCESS),
            data: dir.join("data"),
            dir,
        })
    }

    /// Writes both files, for this password and this database.
    pub(super) fn write(
        &self,
        engine: &config::Engine,
        database: &str,
        passwords: &Passwords,
    ) -> Result<(), Error> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.data)
            .map_err(Error::io("start", &self.data))?;
        self.replace(&self.users, &users(database, passwords))?;
        self.replace(&self.config, &self.server(engine))
    }

    /// Writes down how to reach the running engine, for `watchtower sql`; the file is its owner's only.
    pub(super) fn write_access(&self, port: u16, passwords: &Passwords) -> Result<(), Error> {
        let password = passwords.reader.expose();
        self.replace(
            &self.access,
            &format!("http://127.0.0.1:{port}\n{READER}\n{password}\n"),
        )
    }

    fn replace(&self, path: &Path, text: &str) -> Result<(), Error> {
        let write = || {
            let new = path.with_extension("new");
            let mut file = fs::OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .open(&new)?;
            file.write_all(text.as_bytes())?;
            fs::rename(&new, path)
        };
        write().map_err(Error::io("start", path))
    }

    fn server(&self, engine: &config::Engine) -> String {
        let memory = engine.memory.as_u64();
        let cores = std::thread::available_parallelism().map_or(2, |cores| cores.get().clamp(2, 8));
        let mut xml = String::from("<clickhouse>\n");
        let mut set = |name: &str, value: &dyn std::fmt::Display| {
            writeln!(xml, "  <{name}>{value}</{name}>").expect("a string takes everything");
        };
        set("path", &escape(&self.data));
        set("tmp_path", &escape(&self.data.join("tmp/")));
        set("user_files_path", &escape(&self.data.join("user_files/")));
        set("users_config", &escape(&self.users));
        set("listen_host", &"127.0.0.1");
        // Above the daemon's own pause between two inserts, so that the socket is used again.
        set("keep_alive_timeout", &10);
        set("max_server_memory_usage", &memory);
        set("max_concurrent_queries", &64);
        set("max_thread_pool_size", &256);
        set("max_thread_pool_free_size", &16);
        set("mlock_executable", &false);
        // Caches: what a search reads is in the page cache too.
        set("mark_cache_size", &(memory / 32));
        set("index_mark_cache_size", &(memory / 64));
        set("primary_index_cache_size", &(memory / 64));
        set("uncompressed_cache_size", &0);
        set("index_uncompressed_cache_size", &0);
        set("mmap_cache_size", &0);
        set("compiled_expression_cache_size", &(8 << 20));
        // Threads that do nothing for a store of one table.
        set("background_pool_size", &cores);
        set("background_merges_mutations_concurrency_ratio", &2);
        set("background_schedule_pool_size", &(2 * cores));
        set("background_common_pool_size", &2);
        set("background_move_pool_size", &1);
        set("background_fetches_pool_size", &1);
        set("background_buffer_flush_schedule_pool_size", &1);
        set("background_message_broker_schedule_pool_size", &1);
        set("background_distributed_schedule_pool_size", &1);
        // What would wake up twenty times a second to measure itself.
        set("memory_worker_period_ms", &1_000);
        set("asynchronous_metrics_update_period_s", &60);
        set("asynchronous_heavy_metrics_update_period_s", &3_600);
        set("dns_cache_update_period", &3_600);
        xml.push_str(FIXED);
        writeln!(
            xml,
            "  <merge_tree>\n    \
             <number_of_free_entries_in_pool_to_execute_mutation>{cores}</number_of_free_entries_in_pool_to_execute_mutation>\n    \
             <number_of_free_entries_in_pool_to_execute_optimize_entire_partition>{cores}</number_of_free_entries_in_pool_to_execute_optimize_entire_partition>\n    \
             <number_of_free_entries_in_pool_to_lower_max_size_of_merge>{cores}</number_of_free_entries_in_pool_to_lower_max_size_of_merge>\n  \
             </merge_tree>\n</clickhouse>"
        )
        .expect("a string takes everything");
        xml
    }
}

/// Makes a path fit for an XML element.
fn escape(path: &Path) -> String {
    escape_text(&path.to_string_lossy())
}

fn escape_text(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

fn sha256_hex(secret: &Secret) -> String {
    hex(ring::digest::digest(&ring::digest::SHA256, secret.expose().as_bytes()).as_ref())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").expect("a string takes everything");
        hex
    })
}

/// What holds on every machine. `SYSTEM` tables with the server's own logs are not configured, and so
/// do not exist; nothing is sent anywhere.
const FIXED: &str = "  <logger><level>warning</level><console>1</console></logger>
  <send_crash_reports><enabled>false</enabled></send_crash_reports>
  <query_cache><max_size_in_bytes>0</max_size_in_bytes></query_cache>
";

/// The users file: the session that holds the engine open, the daemon, and people's own queries.
///
/// `default` may open the port and read standard input through `file('-')`, which takes READ ON FILE
/// and CREATE TEMPORARY TABLE. The password is of random bytes, so that a plain SHA-256 of it gives
/// nothing away.
fn users(database: &str, passwords: &Passwords) -> String {
    let hash = sha256_hex(&passwords.daemon);
    let reader_hash = sha256_hex(&passwords.reader);
    let database = escape_text(&format!(
        "`{}`",
        database.replace('\\', "\\\\").replace('`', "\\`")
    ));
    format!(
        "<clickhouse>
  <profiles>
    <default/>
    <session><max_sessions_for_user>1</max_sessions_for_user></session>
    <reader><readonly>2</readonly></reader>
  </profiles>
  <quotas><default/></quotas>
  <users>
    <default>
      <no_password/>
      <networks><ip>127.0.0.1</ip></networks>
      <profile>session</profile>
      <quota>default</quota>
      <grants>
        <query>GRANT SYSTEM LISTEN ON *.*</query>
        <query>GRANT SELECT ON system.one</query>
        <query>GRANT CREATE TEMPORARY TABLE ON *.*</query>
        <query>GRANT READ ON FILE</query>
      </grants>
    </default>
    <{USER}>
      <password_sha256_hex>{hash}</password_sha256_hex>
      <networks><ip>127.0.0.1</ip></networks>
      <profile>default</profile>
      <quota>default</quota>
      <grants>
        <query>GRANT {RIGHTS} ON {database}.*</query>
        <query>GRANT SELECT ON system.*</query>
        <query>GRANT TABLE ENGINE ON MergeTree</query>
        <query>GRANT TABLE ENGINE ON ReplacingMergeTree</query>
        <query>GRANT TABLE ENGINE ON SummingMergeTree</query>
      </grants>
    </{USER}>
    <{READER}>
      <password_sha256_hex>{reader_hash}</password_sha256_hex>
      <networks><ip>127.0.0.1</ip></networks>
      <profile>reader</profile>
      <quota>default</quota>
      <grants>
        <query>GRANT SELECT, SHOW ON {database}.*</query>
        <query>GRANT SELECT ON system.*</query>
      </grants>
    </{READER}>
  </users>
</clickhouse>
"
    )
}

/// How people reach the embedded engine of the daemon with this state directory.
///
/// # Errors
/// When there is none running there, or its files belong to another user.
pub fn access(state_dir: &Path) -> Result<Endpoint, Error> {
    let path = state_dir.join("engine").join(ACCESS);
    let text = fs::read_to_string(&path).map_err(Error::io("access", &path))?;
    let mut lines = text.lines();
    let mut next = || lines.next().unwrap_or_default().to_owned();
    Ok(Endpoint {
        url: next(),
        user: next(),
        password: Secret::new(next()),
    })
}
