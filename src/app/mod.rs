//! Builds the stages from the configuration and owns the order in which they stop. Nothing imports it
//! but the command line.

mod inspect;
mod listeners;
mod memory;
mod node;
mod overview;
mod pulse;
mod reload;
mod state_dir;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use axum::Router;
use axum::middleware::{from_fn_with_state, map_response};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use sd_notify::NotifyState;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tonic_health::ServingStatus;
use tonic_health::pb::health_server::{Health, HealthServer};
use tonic_health::server::HealthReporter;
use tracing::{error, info, warn};

use crate::api::{ApiParts, ApiState, Meta, Ports};
use crate::config::{Config, Secret};
use crate::engine::Engine;
use crate::frame::Frame;
use crate::intake::resends::Resends;
use crate::intake::{Ids, Intake, unix_millis};
use crate::live::{Cursor, Hub, HubConfig, Seats};
use crate::queue::dead::DeadLetters;
use crate::queue::{self, Queue};
use crate::receivers::{At, Door};
use crate::server::{self, Port, Server, Switch};
use crate::shutdown::{self, Signals};
use crate::store::{Client, Guard, Reader, ReaderLimits, StoreBackfill, Writer, WriterStatus};
use crate::telemetry::Metrics;
pub use inspect::{inspect, missing};
use listeners::Listeners;
use overview::Overview;
use pulse::Beats;
pub use reload::Reread;
use reload::{MakeRoutes, Reloader};

/// The service whose health is reported beside the whole server's.
const LOGS_SERVICE: &str = "opentelemetry.proto.collector.logs.v1.LogsService";
/// Files that are open beside those of connections from outside: the queue's, the engine's, logs.
const OTHER_FILES: u64 = 256;
/// How long requests under way may take to finish once the daemon stops.
const REQUESTS_GRACE: Duration = Duration::from_secs(5);
/// How long the last frames may take to be committed.
const COMMIT_GRACE: Duration = Duration::from_secs(5);
/// How long the writer may take to store what is in the queue. What is left is stored after the next
/// start.
const STORE_GRACE: Duration = Duration::from_secs(10);
/// How long the queue may take to make its last writes durable.
const QUEUE_GRACE: Duration = Duration::from_secs(5);
/// How long the engine may take to end; it is killed before that.
const ENGINE_GRACE: Duration = Duration::from_secs(20);

/// Runs the daemon until it is told to stop. `reread` reads the configuration again for SIGHUP.
///
/// # Errors
/// When a stage cannot start, or one stops by itself.
pub fn run(config: Config, reread: Reread) -> anyhow::Result<ExitCode> {
    memory::give_back();
    raise_file_limit(&config);
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("could not start the runtime")?
        .block_on(serve(Arc::new(config), reread))
}

/// Raises the limit of open files as far as this user may, so that it is not reached before that of
/// connections.
fn raise_file_limit(config: &Config) {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        warn!(%error, "could not raise the limit of open files");
    }
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    if files < config.limits.connections as u64 + OTHER_FILES {
        warn!(
            files,
            connections = config.limits.connections,
            "this user may open too few files for so many connections; lower `limits.connections` or raise the limit (`ulimit -n`)"
        );
    }
}

/// The embedded engine, where it is used, and a client of the store.
fn connect(config: &Config) -> anyhow::Result<(Option<Engine>, Client)> {
    if let Some(client) = Client::of(&config.store)? {
        return Ok((None, client));
    }
    let engine = Engine::start(config)?;
    let client = Client::new(engine.endpoint())?;
    Ok((Some(engine), client))
}

async fn serve(config: Arc<Config>, reread: Reread) -> anyhow::Result<ExitCode> {
    let mut signals = Signals::new().context("could not handle signals")?;
    let tls = server::acceptor(&config.tls)?;
    let listeners = Listeners::bind(&config).await?;
    let ports = listeners.ports()?;
    state_dir::prepare(&config.state_dir)?;

    let queue = Queue::open(&config).context("could not open the queue")?;
    let node = node::number(&config.state_dir, &queue).await;
    let ids = Ids::open(&config.state_dir, node, unix_millis()).with_context(|| {
        format!(
            "could not read or write id-floor in {}",
            config.state_dir.display()
        )
    })?;
    let resends = known_requests(&config, &queue).await;
    let (engine, client) = connect(&config)?;
    let dead = DeadLetters::open(&config.state_dir.join(queue::dead::DIR))?;
    let writer = Writer::new(queue.clone(), client.clone(), dead.clone(), &config);
    let (store, schema) = (client.clone(), writer.schema());
    let reader = Reader::new(client, &config, ReaderLimits::default());
    let hub = start_hub(&config, &ids, &reader, writer.status())?;
    let metrics = Metrics::default();
    let publish = {
        let (hub, metrics) = (hub.clone(), metrics.clone());
        Arc::new(move |frame: Frame| {
            metrics.queued(frame.header().accepted);
            hub.publish(frame);
        })
    };
    let (intake, committer) = Intake::new(&config, queue.clone(), ids, publish);
    let stop = CancellationToken::new();
    let server = Server::new(&config.limits, tls, stop.clone());
    let guard = Guard::new(store.clone(), &config);
    let (beats, heard) = watch::channel(Beats::default());
    tokio::spawn(pulse::run(reader.clone(), queue.clone(), beats));
    let overview = Overview {
        beats: heard,
        guard: guard.status(),
        state_dir: config.state_dir.clone(),
        connections: server.places().clone(),
        addresses: server.addresses().clone(),
        started: Instant::now(),
        metrics: metrics.clone(),
        queue: queue.clone(),
        hub: hub.clone(),
        intake: intake.clone(),
        writer: writer.status(),
        reader: reader.clone(),
        dead,
        embedded: engine.is_some(),
    };

    let mut committer = tokio::spawn(committer.run());
    let drain = CancellationToken::new();
    let mut writer = tokio::spawn(writer.run(drain.clone().cancelled_owned()));
    tokio::spawn(overview.clone().report());
    tokio::spawn(guard.run());

    let (health, health_service) = tonic_health::server::health_reporter();
    report_health(&health, ServingStatus::Serving).await;
    let (read_tokens, readers) = watch::channel(config.auth.read_tokens.clone().into());
    let seats = Seats::new(config.live.viewers, config.live.viewers_per_address);
    let routes: MakeRoutes = {
        let (intake, overview) = (intake.clone(), overview.clone());
        Box::new(move |config| {
            let metrics = overview.metrics.clone();
            let door = Door::new(
                Arc::clone(&config),
                intake.clone(),
                metrics,
                resends.clone(),
            );
            let web = web_router(&config, &door, &overview, &seats, &readers, ports);
            let otlp = otlp_router(&door, health_service.clone());
            [(otlp, At::Otlp), (web, At::Web)]
                .map(|(router, at)| server::Routes::new(router, door.quick(at)))
        })
    };
    let [otlp, web] = routes(Arc::clone(&config)).map(Switch::new);
    let mut reloader = Reloader {
        reread,
        config: Arc::clone(&config),
        routes,
        switches: [otlp.clone(), web.clone()],
        server: server.clone(),
        read_tokens,
        store,
        schema,
        retention: None,
    };
    info!(
        otlp_grpc = %listeners.grpc.local_addr()?,
        otlp_http = %listeners.http.local_addr()?,
        web = %listeners.web.local_addr()?,
        "listening"
    );
    tokio::spawn(
        server
            .clone()
            .serve(Port::Otlp, listeners.grpc, otlp.clone()),
    );
    tokio::spawn(server.clone().serve(Port::Otlp, listeners.http, otlp));
    tokio::spawn(server.clone().serve(Port::Web, listeners.web, web));
    notify(&[NotifyState::Ready]);
    tokio::spawn(feed_watchdog());

    let signal = tokio::select! {
        signal = told_to_end(&mut signals, &mut reloader) => signal,
        ended = &mut committer => anyhow::bail!("the committer stopped by itself: {ended:?}"),
        ended = &mut writer => anyhow::bail!("the writer stopped by itself: {ended:?}"),
    };
    info!(signal, "stopping; a second signal ends the daemon at once");
    notify(&[NotifyState::Stopping]);
    tokio::spawn(async move {
        let signal = signals.next().await;
        warn!(
            signal,
            "second signal: ending at once; what was acknowledged stays in the queue"
        );
        std::process::exit(1);
    });
    report_health(&health, ServingStatus::NotServing).await;
    hub.close();
    stop.cancel();
    shutdown::step("requests", REQUESTS_GRACE, server.drained()).await;
    intake.close();
    let committed = shutdown::step("commits", COMMIT_GRACE, ended("committer", committer)).await;
    drain.cancel();
    // What is not stored by then stays in the queue.
    shutdown::step("store", STORE_GRACE, ended("writer", writer)).await;
    shutdown::step("queue", QUEUE_GRACE, queue.close()).await;
    if let Some(engine) = engine {
        shutdown::step("engine", ENGINE_GRACE, engine.stop()).await;
    }
    Ok(if committed {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Waits for the signal to end; reloads the configuration at each SIGHUP before it.
async fn told_to_end(signals: &mut Signals, reloader: &mut Reloader) -> &'static str {
    loop {
        match signals.any().await {
            Some(signal) => return signal,
            None => reloader.reload(),
        }
    }
}

/// The requests that were accepted before the start: those in the journal and those in the queue.
async fn known_requests(config: &Config, queue: &Queue) -> Resends {
    let resends = Resends::open(&config.state_dir, &config.intake);
    match queue.digests(resends.since()).await {
        Ok(known) => resends.learn(known),
        Err(error) => warn!(%error, "the queue does not say which requests are in it"),
    }
    resends
}

fn start_hub(
    config: &Config,
    ids: &Ids,
    reader: &Reader,
    writer: watch::Receiver<WriterStatus>,
) -> anyhow::Result<Hub> {
    let backfill = StoreBackfill::new(
        reader.clone(),
        writer,
        config.longest_retention().duration(),
    );
    let bounds = HubConfig {
        ring_bytes: config.live.ring.as_usize(),
        buffer_bytes: config.live.buffer.as_usize(),
        start: Cursor::at(ids.start()),
    };
    Hub::start(bounds, Some(Arc::new(backfill))).context("could not start the live hub")
}

/// Waits for a stage's task.
async fn ended(stage: &'static str, task: JoinHandle<()>) {
    if let Err(error) = task.await {
        error!(stage, %error, "the stage failed");
    }
}

async fn report_health(health: &HealthReporter, status: ServingStatus) {
    for service in ["", LOGS_SERVICE] {
        health.set_service_status(service, status).await;
    }
}

/// The routes of both OTLP ports: the receivers and the gRPC health service.
fn otlp_router<H: Health>(door: &Door, health: HealthServer<H>) -> Router {
    let health = Router::new()
        .route_service("/grpc.health.v1.Health/{*method}", health)
        .layer(map_response(blame_the_request));
    door.otlp_router().merge(health)
}

/// The library calls it a fault of its own where it cannot decode a request for the health; it has no
/// other such faults.
async fn blame_the_request(mut response: Response) -> Response {
    let status = response.headers_mut().get_mut("grpc-status");
    if let Some(status) = status.filter(|status| *status == "13") {
        *status = http::HeaderValue::from_static("3");
    }
    response
}

/// The routes of the web port: the page and the API for readers, the native JSON POST, metrics.
fn web_router(
    config: &Config,
    door: &Door,
    overview: &Overview,
    seats: &Seats,
    read_tokens: &watch::Receiver<Arc<[Secret]>>,
    ports: Ports,
) -> Router {
    let status = {
        let overview = overview.clone();
        Arc::new(move || overview.clone().status())
    };
    let ready = {
        let overview = overview.clone();
        Arc::new(move || overview.ready())
    };
    let parts = ApiParts {
        hub: overview.hub.clone(),
        seats: seats.clone(),
        search: Arc::new(overview.reader.clone()),
        status,
        ready,
        meta: meta(config, ports),
        read_tokens: read_tokens.clone(),
        host_names: vec![host_name()],
    };
    let overview = overview.clone();
    let (otlp, otlp_method) = (door.clone(), door.clone());
    let unknown_path = move |request| async move {
        match otlp.unknown_path(request).await {
            Ok(answer) => answer,
            Err(request) => crate::api::unknown_path(&request).into_response(),
        }
    };
    let unknown_method = move |request| async move {
        match otlp_method.unknown_path(request).await {
            Ok(answer) => answer,
            Err(request) => crate::api::unknown_method(request.method()).into_response(),
        }
    };
    let state = ApiState::new(parts);
    let metrics = Router::new()
        .route("/metrics", get(move || overview.clone().metrics()))
        .route_layer(from_fn_with_state(
            state.clone(),
            crate::api::require_reader,
        ));
    crate::api::router(state)
        .merge(door.web_router())
        .merge(metrics)
        .fallback(unknown_path)
        .method_not_allowed_fallback(unknown_method)
}

fn meta(config: &Config, ports: Ports) -> Meta {
    let listen = &config.listen;
    let trace = &config.links.trace;
    let links = (!trace.is_empty()).then(|| ("trace", trace.clone()));
    Meta {
        ports,
        tls: config.tls.cert_file.is_some(),
        ingest_token_needed: !config.auth.ingest_tokens.is_empty(),
        read_token_needed: !config.auth.read_tokens.is_empty(),
        retention_days: config.retention.duration().as_secs() / 86_400,
        loopback_only: listen.otlp_grpc.ip().is_loopback() && listen.otlp_http.ip().is_loopback(),
        links: links.into_iter().collect(),
    }
}

fn host_name() -> String {
    rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned()
}

/// Tells systemd, where it asked to be told.
fn notify(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(false, states) {
        warn!(%error, "could not tell systemd");
    }
}

/// Tells systemd's watchdog, where there is one, that the runtime still turns.
async fn feed_watchdog() {
    let mut micros = 0;
    if !sd_notify::watchdog_enabled(false, &mut micros) {
        return;
    }
    let mut interval = tokio::time::interval(Duration::from_micros(micros) / 3);
    loop {
        interval.tick().await;
        notify(&[NotifyState::Watchdog]);
    }
}
