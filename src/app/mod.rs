//! Builds the stages from the configuration and owns the order in which they stop. Nothing imports it
//! but the command line.

mod overview;
mod state_dir;

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use axum::Router;
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tonic_health::pb::health_server::{Health, HealthServer};
use tracing::{error, info, warn};

use crate::api::{ApiParts, ApiState, Meta, Ports};
use crate::config::Config;
use crate::intake::{Ids, Intake};
use crate::live::{Cursor, Hub, HubConfig, Seats};
use crate::queue;
use crate::receivers::Door;
use crate::server::{self, Server};
use crate::shutdown::{self, Signals};
use crate::telemetry::Metrics;
use overview::Overview;

/// How long requests under way may take to finish once the daemon stops.
const REQUESTS_GRACE: Duration = Duration::from_secs(5);
/// How long the last frames may take to be committed.
const COMMIT_GRACE: Duration = Duration::from_secs(5);
/// How long the queue may take to make its last writes durable.
const QUEUE_GRACE: Duration = Duration::from_secs(5);

/// Runs the daemon until it is told to stop.
///
/// # Errors
/// When a stage cannot start, or one stops by itself.
pub fn run(config: Config) -> anyhow::Result<ExitCode> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("could not start the runtime")?
        .block_on(serve(Arc::new(config)))
}

/// The three listeners, bound before anything else is done.
struct Listeners {
    grpc: TcpListener,
    http: TcpListener,
    web: TcpListener,
}

impl Listeners {
    async fn bind(config: &Config) -> anyhow::Result<Listeners> {
        let listen = &config.listen;
        Ok(Listeners {
            grpc: bind("listen.otlp_grpc", listen.otlp_grpc).await?,
            http: bind("listen.otlp_http", listen.otlp_http).await?,
            web: bind("listen.web", listen.web).await?,
        })
    }

    fn ports(&self) -> std::io::Result<Ports> {
        Ok(Ports {
            otlp_grpc: self.grpc.local_addr()?.port(),
            otlp_http: self.http.local_addr()?.port(),
            web: self.web.local_addr()?.port(),
        })
    }
}

async fn bind(key: &str, address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).await.with_context(|| {
        format!("could not listen on {address} (`{key}`); is another program using the port?")
    })
}

async fn serve(config: Arc<Config>) -> anyhow::Result<ExitCode> {
    let mut signals = Signals::new().context("could not handle signals")?;
    let tls = server::acceptor(&config.tls)?;
    let listeners = Listeners::bind(&config).await?;
    let ports = listeners.ports()?;
    state_dir::prepare(&config.state_dir)?;

    let queue = queue::Queue::open(&config).context("could not open the queue")?;
    let node = 0;
    let ids =
        Ids::open(&config.state_dir, node, crate::intake::unix_millis()).with_context(|| {
            format!(
                "could not read or write id-floor in {}",
                config.state_dir.display()
            )
        })?;
    let hub = Hub::start(
        HubConfig {
            ring_bytes: config.live.ring.as_usize(),
            buffer_bytes: config.live.buffer.as_usize(),
            start: Cursor::at(ids.start()),
        },
        None,
    )
    .context("could not start the live hub")?;
    let metrics = Metrics::default();
    let publish = {
        let hub = hub.clone();
        Arc::new(move |frame| hub.publish(frame))
    };
    let (intake, committer) = Intake::new(&config, queue.clone(), ids, publish);
    let committer = tokio::spawn(committer.run());

    let overview = Overview::new(metrics.clone(), queue.clone(), hub.clone(), intake.clone());
    let stop = CancellationToken::new();
    let (health, health_service) = tonic_health::server::health_reporter();
    health
        .set_service_status("", tonic_health::ServingStatus::Serving)
        .await;
    health
        .set_service_status(
            "opentelemetry.proto.collector.logs.v1.LogsService",
            tonic_health::ServingStatus::Serving,
        )
        .await;
    let limits = &config.limits;
    let server = Server::new(
        limits.connections,
        limits.header_timeout.duration(),
        tls,
        stop.clone(),
    );
    let door = Door::new(Arc::clone(&config), intake.clone(), metrics);
    let otlp = otlp_router(&door, health_service);
    let web = web_router(&config, &door, &overview, hub.clone(), ports);
    tokio::spawn(server.clone().serve(listeners.grpc, otlp.clone()));
    tokio::spawn(server.clone().serve(listeners.http, otlp));
    tokio::spawn(server.clone().serve(listeners.web, web));
    info!(
        grpc = %config.listen.otlp_grpc.ip(), grpc_port = ports.otlp_grpc, http_port = ports.otlp_http, web_port = ports.web,
        "listening"
    );
    notify(&[sd_notify::NotifyState::Ready]);

    let signal = tokio::select! {
        signal = signals.next() => signal,
        _ = wait_for(&committer) => anyhow::bail!("the committer stopped by itself"),
    };
    info!(signal, "stopping; a second signal ends the daemon at once");
    notify(&[sd_notify::NotifyState::Stopping]);
    tokio::spawn(async move {
        let signal = signals.next().await;
        warn!(
            signal,
            "second signal: ending at once; what was acknowledged stays in the queue"
        );
        std::process::exit(1);
    });
    health
        .set_service_status("", tonic_health::ServingStatus::NotServing)
        .await;
    hub.close();
    stop.cancel();
    shutdown::step("requests", REQUESTS_GRACE, server.drained()).await;
    intake.close();
    let committed = shutdown::step("commits", COMMIT_GRACE, async {
        if let Err(error) = committer.await {
            error!(%error, "the committer failed");
        }
    })
    .await;
    shutdown::step("queue", QUEUE_GRACE, queue.close()).await;
    Ok(if committed {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// The routes of both OTLP ports: the receivers and the gRPC health service.
fn otlp_router<H: Health>(door: &Door, health: HealthServer<H>) -> Router {
    door.otlp_router()
        .route_service("/grpc.health.v1.Health/{*method}", health)
}

/// The routes of the web port: the page and the API for readers, the native JSON POST, metrics.
fn web_router(config: &Config, door: &Door, overview: &Overview, hub: Hub, ports: Ports) -> Router {
    let search = Arc::clone(&overview.search);
    let status = {
        let overview = overview.clone();
        Arc::new(move || overview.clone().status())
    };
    let ready = {
        let overview = overview.clone();
        Arc::new(move || overview.ready())
    };
    let parts = ApiParts {
        hub,
        seats: Seats::new(config.live.viewers, config.live.viewers_per_address),
        search,
        status,
        ready,
        meta: meta(config, ports),
        read_tokens: config.auth.read_tokens.clone(),
        host_names: vec![host_name()],
    };
    let overview = overview.clone();
    crate::api::router(ApiState::new(parts))
        .merge(door.web_router())
        .route("/metrics", get(move || overview.clone().metrics()))
}

fn meta(config: &Config, ports: Ports) -> Meta {
    let listen = &config.listen;
    Meta {
        ports,
        tls: config.tls.cert_file.is_some(),
        ingest_token_needed: !config.auth.ingest_tokens.is_empty(),
        read_token_needed: !config.auth.read_tokens.is_empty(),
        retention_days: config.retention.duration().as_secs() / 86_400,
        loopback_only: listen.otlp_grpc.ip().is_loopback() && listen.otlp_http.ip().is_loopback(),
    }
}

fn host_name() -> String {
    rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned()
}

/// Tells systemd, where it asked to be told.
fn notify(states: &[sd_notify::NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(false, states) {
        warn!(%error, "could not tell systemd");
    }
}

/// Resolves when the task has ended.
async fn wait_for(task: &JoinHandle<()>) {
    // A handle that is only looked at cannot be awaited by reference; its end is rare, so a slow look
    // now and then is enough.
    while !task.is_finished() {
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}
