"""What `bench` measures: Watchtower in its variants, and beside it Rotel, the OpenTelemetry Collector and bare handlers.

Each is started anew for every row, so that a row's memory is its own, and stores into the same engine.
"""
import glob, os, re, subprocess

from benchlib import BARE, PASSWORD, ROOT, TARGET, USER, Daemon, Process, answers, free_port, wait

ROTEL = "rotel==0.0.1a15"
COLLECTOR = os.path.join(ROOT, ".collector", "otelcol-bench")
OTLP = ("grpc", "http", "http-json")


class Watchtower:
    protocols = (*OTLP, "json")
    table, run, message = "watchtower.logs", "attributes['bench.run']", "message"

    def __init__(self, name, *extra, redis=None, stores=True):
        self.name, self.redis = name, redis
        self.extra = [*extra, *([f"queue.kind=redis", f"queue.redis.url=redis://127.0.0.1:{redis[1]}/0"] if redis else [])]
        self.stores = stores

    def start(self, dir, store):
        dir = os.path.join(dir, self.name)
        os.makedirs(dir, exist_ok=True)
        # Nobody listens on port 1: records stay in the queue.
        self.daemon = Daemon(dir, store if self.stores else 1, self.extra, self.stores)
        return [self.daemon.process, *([self.redis[0]] if self.redis else [])]

    def address(self, protocol):
        return self.daemon.address(protocol)

    def stop(self):
        self.daemon.process.stop()


class Other:
    """A program with one port for gRPC and one for HTTP."""

    stores = True

    def start(self, dir, store):
        self.ports = {"grpc": free_port(), "http": free_port()}
        log = os.path.join(dir, f"{self.name}.log")
        self.process = Process("daemon", self.command(dir, store), log)
        for port in self.ports.values():
            wait(self.name, lambda: answers(port))
        return [self.process]

    def address(self, protocol):
        return f"127.0.0.1:{self.ports['grpc' if protocol == 'grpc' else 'http']}"

    def stop(self):
        self.process.stop()


class Bare(Other):
    name, protocols, stores = "bare", ("grpc", "http", "json"), False

    def command(self, dir, store):
        return [BARE, *[a for kind, port in self.ports.items() for a in (f"--{kind}", f"127.0.0.1:{port}")]]


class Collector(Other):
    """With the batches and the exporter's settings that the exporter's own README recommends."""

    name, protocols = "collector", OTLP
    table, run, message = "collector.otel_logs", "LogAttributes['bench.run']", "Body"

    def __init__(self):
        subprocess.run([os.path.join(ROOT, "scripts", "build-collector"), "benches/peers/collector.yaml"], check=True)

    def command(self, dir, store):
        path = os.path.join(dir, "collector.yaml")
        open(path, "w").write(f"""
receivers:
  otlp:
    protocols:
      grpc: {{endpoint: "127.0.0.1:{self.ports['grpc']}", max_recv_msg_size_mib: 64}}
      http: {{endpoint: "127.0.0.1:{self.ports['http']}"}}
processors:
  batch: {{timeout: 5s, send_batch_size: 100000}}
exporters:
  clickhouse:
    endpoint: "http://127.0.0.1:{store}?dial_timeout=10s"
    username: {USER}
    password: {PASSWORD}
    database: collector
    async_insert: true
    ttl: 72h
    compress: lz4
    create_schema: true
    logs_table_name: otel_logs
    timeout: 60s
    retry_on_failure: {{enabled: true, initial_interval: 5s, max_interval: 30s, max_elapsed_time: 300s}}
service:
  telemetry: {{metrics: {{level: none}}}}
  pipelines:
    logs: {{receivers: [otlp], processors: [batch], exporters: [clickhouse]}}
""")
        return [COLLECTOR, "--config", path]


class Rotel(Other):
    """As it comes; its table is the Collector's, made beforehand."""

    name, protocols = "rotel", OTLP
    table, run, message = "rotel.otel_logs", "LogAttributes['bench.run']", "Body"

    def __init__(self):
        venv = os.path.join(TARGET, "peers", "rotel")
        found = glob.glob(f"{venv}/lib/python*/site-packages/rotel/rotel-agent")
        if not found:
            subprocess.run(["python3", "-m", "venv", venv], check=True)
            subprocess.run([f"{venv}/bin/pip", "install", "--quiet", "--no-deps", ROTEL], check=True)
            found = glob.glob(f"{venv}/lib/python*/site-packages/rotel/rotel-agent")
        self.agent = found[0]
        os.chmod(self.agent, 0o755)

    def command(self, dir, store):
        return [self.agent, "start", "--exporter", "clickhouse", "--otlp-grpc-max-recv-msg-size-mib", "64",
                "--otlp-grpc-endpoint", f"127.0.0.1:{self.ports['grpc']}",
                "--otlp-http-endpoint", f"127.0.0.1:{self.ports['http']}",
                "--clickhouse-exporter-endpoint", f"http://127.0.0.1:{store}",
                "--clickhouse-exporter-database", "rotel",
                "--clickhouse-exporter-user", USER, "--clickhouse-exporter-password", PASSWORD,
                "--log-file", os.path.join(dir, "rotel.log"), "--pid-file", os.path.join(dir, "rotel.pid")]


def collector_table(dir, engine, collector):
    """Has the Collector make its table, and copies it for Rotel."""
    engine.sql("CREATE DATABASE IF NOT EXISTS collector")
    collector.start(dir, engine.port)
    wait("the Collector's table", lambda: engine.count(collector.table) == 0)
    collector.stop()
    engine.sql("CREATE DATABASE IF NOT EXISTS rotel")
    ddl = engine.sql(f"SHOW CREATE TABLE {collector.table} FORMAT TSVRaw")
    engine.sql(re.sub(r"collector\.otel_logs", Rotel.table, ddl, count=1))
