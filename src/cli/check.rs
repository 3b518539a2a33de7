//! `watchtower check`.

use std::io::Write;
use std::process::ExitCode;

use clap::Args;

use super::ConfigArgs;
use crate::config::{Config, QueueKind};

#[derive(Debug, Args)]
pub(super) struct CheckArgs {
    /// Print the whole configuration as it will be used, secrets as ***
    #[arg(long)]
    print: bool,
}

pub(super) fn run(args: &CheckArgs, source: &ConfigArgs) -> anyhow::Result<ExitCode> {
    let config = source.load_inspected()?;
    let mut out = std::io::stdout().lock();
    if args.print {
        out.write_all(config.to_yaml().as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    }
    let missing = crate::app::missing(&config);
    for warning in config.warnings().into_iter().chain(missing) {
        writeln!(out, "warning: {warning}")?;
    }
    let file = source
        .file()
        .map_or("built-in defaults".to_owned(), |path| {
            path.display().to_string()
        });
    writeln!(out, "OK: {file}")?;
    out.write_all(summary(&config).as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// What the daemon would do, in a few lines.
fn summary(config: &Config) -> String {
    let listen = &config.listen;
    let queue = match config.queue.kind {
        QueueKind::Disk => {
            let disk = &config.queue.disk;
            format!("disk, up to {}, fsync {}", disk.max_bytes, disk.fsync)
        }
        QueueKind::Redis => format!("redis at {}", config.queue.redis.url),
    };
    let store = match &config.store.url {
        Some(url) => format!("{url}, database {}", config.store.database),
        None => format!(
            "embedded ClickHouse engine, up to {} of memory",
            config.engine.memory
        ),
    };
    let tls = if config.tls.cert_file.is_some() {
        "on"
    } else {
        "off"
    };
    let tokens = |count: usize| match count {
        0 => "none asked".to_owned(),
        count => format!("{count} accepted"),
    };
    format!(
        "  listens:   OTLP/gRPC {}, OTLP/HTTP {}, web and JSON {}; TLS {tls}\n  \
           tokens:    for sending {}, for reading {}\n  \
           state in:  {}\n  \
           queue:     {queue}\n  \
           store:     {store}, kept {}\n",
        listen.otlp_grpc,
        listen.otlp_http,
        listen.web,
        tokens(config.auth.ingest_tokens.len()),
        tokens(config.auth.read_tokens.len()),
        config.state_dir.display(),
        config.retention,
    )
}
