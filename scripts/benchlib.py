"""What the benches share: child processes with their CPU and memory, the engine, the daemon, the load."""
import json, os, re, shutil, signal, socket, statistics, subprocess, sys, tempfile, threading, time
import urllib.error, urllib.parse, urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TARGET = os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target"))
BINARY = os.path.join(TARGET, "release", "watchtower")
LOAD = os.path.join(TARGET, "release", "examples", "load")
BARE = os.path.join(TARGET, "release", "examples", "bare")
TICK = os.sysconf("SC_CLK_TCK")
USER, PASSWORD = "bench", "bench"
# connections, streams on each
SHAPE = {"grpc": (4, 8), "http": (16, 1), "http-json": (16, 1), "json": (64, 1)}


def build():
    subprocess.run(["cargo", "build", "--release", "--locked", "--bin", "watchtower", "--example", "load",
                    "--example", "bare"], cwd=ROOT, check=True)


def scratch():
    return tempfile.mkdtemp(prefix="watchtower-bench-", dir=os.environ.get("BENCH_DIR", "/var/tmp"))


def machine():
    """The machine in words, for the report."""
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "?")
    memory = int(re.search(r"MemTotal:\s+(\d+)", open("/proc/meminfo").read()).group(1)) / 1024 ** 2
    return f"{os.cpu_count()} cores ({cpu}), {memory:.0f} GiB of memory, Linux {os.uname().release}"


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def get(url, timeout=30):
    with urllib.request.urlopen(url, timeout=timeout) as answer:
        return answer.read().decode()


def answers(port):
    """Whether something listens there."""
    with socket.create_connection(("127.0.0.1", port), timeout=1):
        return True


def wait(what, holds, within=60):
    end = time.monotonic() + within
    while time.monotonic() < end:
        try:
            if holds():
                return
        except (OSError, urllib.error.URLError, ValueError, KeyError):
            pass
        time.sleep(0.05)
    sys.exit(f"{os.path.basename(sys.argv[0])}: {what}: not within {within} s")


class Process:
    """A child with its CPU seconds and memory, read from /proc."""

    def __init__(self, name, args, log, **kwargs):
        self.name = name
        self.log = open(log, "ab")
        self.child = subprocess.Popen(args, **{"stdout": self.log, "stderr": self.log, **kwargs})

    def cpu(self):
        fields = open(f"/proc/{self.child.pid}/stat").read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICK

    def reset_peak(self):
        open(f"/proc/{self.child.pid}/clear_refs", "w").write("5")

    def memory(self, field):
        text = open(f"/proc/{self.child.pid}/status").read()
        return int(re.search(field + r":\s+(\d+)", text).group(1)) / 1024

    def peak_mib(self):
        return self.memory("VmHWM")

    def stop(self):
        if self.child.poll() is None:
            self.child.send_signal(signal.SIGTERM)
            try:
                self.child.wait(60)
            except subprocess.TimeoutExpired:
                self.child.kill()
                self.child.wait()


class Steady(threading.Thread):
    """Samples the memory of processes; its steady size is the median of the later half."""

    def __init__(self, processes):
        super().__init__(daemon=True)
        self.samples, self.done = {process: [] for process in processes}, threading.Event()
        self.start()

    def run(self):
        while not self.done.wait(0.25):
            for process, samples in self.samples.items():
                try:
                    samples.append(process.memory("VmRSS"))
                except (OSError, AttributeError):
                    return

    def stop(self):
        self.done.set()
        self.join()
        return {p.name: statistics.median(s[len(s) // 2:]) if s else 0 for p, s in self.samples.items()}


class Engine:
    """The engine as the daemon starts it, but with a user that this script knows."""

    def __init__(self, dir):
        state = os.path.join(dir, "template")
        log = os.path.join(dir, "engine.log")
        ports = [free_port() for _ in range(3)]
        daemon = Process("daemon", [BINARY, *listen(ports), "--set", f"state_dir={state}", "serve"], log, cwd=ROOT)
        wait("the first start", lambda: json.loads(get(f"http://127.0.0.1:{ports[2]}/api/status"))["pipeline"]["store"]["ok"])
        library = next(p.split()[-1] for p in open(f"/proc/{child_of(daemon.child.pid)}/maps") if p.rstrip().endswith("libchdb.so"))
        daemon.stop()
        config = open(os.path.join(state, "engine", "config.xml")).read()
        users = os.path.join(dir, "users.xml")
        config = re.sub(r"<users_config>.*?</users_config>", f"<users_config>{users}</users_config>", config)
        config = config.replace(os.path.join(state, "engine"), os.path.join(dir, "engine"))
        text = open(os.path.join(state, "engine", "users.xml")).read()
        user = (f"<{USER}><password>{PASSWORD}</password><networks><ip>127.0.0.1</ip></networks>"
                f"<profile>default</profile><quota>default</quota><access_management>1</access_management></{USER}>")
        open(users, "w").write(text.replace("</users>", user + "</users>"))
        os.makedirs(os.path.join(dir, "engine", "data"))
        path = os.path.join(dir, "engine", "config.xml")
        open(path, "w").write(config)
        self.port = free_port()
        args = [BINARY, "engine", "--path", os.path.join(dir, "engine", "data"), "--config", path,
                "--port", str(self.port), "--parent", str(os.getpid()), "--library", library]
        self.process = Process("engine", args, log, stdin=subprocess.PIPE)
        wait("the engine", lambda: self.sql("SELECT 1").strip() == "1")

    def sql(self, query, body=b"", **settings):
        settings.update(user=USER, password=PASSWORD, query=query)
        url = f"http://127.0.0.1:{self.port}/?" + urllib.parse.urlencode(settings)
        try:
            with urllib.request.urlopen(urllib.request.Request(url, data=body or b" "), timeout=600) as answer:
                return answer.read().decode()
        except urllib.error.HTTPError as error:
            raise ValueError(error.read().decode()[:500]) from error

    def count(self, table):
        return int(self.sql(f"SELECT count() FROM {table}"))

    def quiet(self, within=20):
        """Waits, but not for ever, until nothing is merged: the next row is to pay for itself alone."""
        end = time.monotonic() + within
        while time.monotonic() < end and int(self.sql("SELECT count() FROM system.merges")):
            time.sleep(0.2)

    def bytes_per_record(self, table):
        self.sql(f"OPTIMIZE TABLE {table} FINAL")
        database, name = table.split(".")
        stored = self.sql("SELECT sum(bytes_on_disk) / sum(rows) FROM system.parts "
                          f"WHERE database = '{database}' AND table = '{name}' AND active")
        return float(stored)


def child_of(pid):
    for task in os.listdir(f"/proc/{pid}/task"):
        if children := open(f"/proc/{pid}/task/{task}/children").read().split():
            return int(children[0])
    raise ValueError(f"process {pid} has no child")


def listen(ports):
    keys = ["listen.otlp_grpc", "listen.otlp_http", "listen.web"]
    return [arg for key, port in zip(keys, ports) for arg in ("--set", f"{key}=127.0.0.1:{port}")]


class Daemon:
    """Watchtower, storing into the engine through `port`."""

    def __init__(self, dir, port, extra, store_ok=True):
        self.ports = [free_port() for _ in range(3)]
        self.log = os.path.join(dir, "daemon.log")
        sets = [f"state_dir={dir}/state", f"store.url=http://127.0.0.1:{port}",
                f"store.user={USER}", f"store.password={PASSWORD}", *extra]
        args = [BINARY, *listen(self.ports), *[a for s in sets for a in ("--set", s)], "serve"]
        self.process = Process("daemon", args, self.log)
        wait("the daemon", lambda: self.status()["store"]["ok"] or not store_ok)

    def status(self):
        return json.loads(get(f"http://127.0.0.1:{self.ports[2]}/api/status"))["pipeline"]

    def address(self, protocol):
        return f"127.0.0.1:{self.ports[{'grpc': 0, 'http': 1, 'http-json': 1, 'json': 2}[protocol]]}"


class Row:
    """`protocol:records`, with `xN` for N connections, `@N` for N records/s offered, and `+gzip`."""

    def __init__(self, text):
        match = re.fullmatch(r"(grpc|http|http-json|json):(\d+)(?:x(\d+))?(?:@(\d+))?(\+gzip)?", text)
        if not match:
            sys.exit(f"bench: a row is protocol:records[xCONNECTIONS][@RATE][+gzip], not {text!r}")
        self.text, self.protocol, self.records = text, match[1], match[2]
        connections, streams = SHAPE[self.protocol]
        self.args = ["--protocol", self.protocol, "--records", self.records, "--streams", str(streams),
                     "--connections", match[3] or str(connections), "--rate", match[4] or "0",
                     *(["--gzip"] if match[5] else [])]


def load(row, address, seconds, run, extra=()):
    """Runs the load generator to its end; its report."""
    args = [LOAD, *row.args, "--address", address, "--run", run, "--seconds", str(seconds), *extra]
    return json.loads(subprocess.run(args, check=True, capture_output=True).stdout)


def start_redis(dir):
    """A Redis that writes an append-only file, synced every second; the process and its port."""
    port = free_port()
    args = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", dir,
            "--appendonly", "yes", "--appendfsync", "everysec"]
    process = Process("redis", args, os.path.join(dir, "redis.log"))
    wait("Redis", lambda: answers(port))
    return process, port


def ceiling(dir, engine, total):
    """The same records as Native blocks of 1,000 rows, 100,000 rows an INSERT, straight into the engine."""
    blocks = os.path.join(dir, "native")
    subprocess.run([LOAD, "--write-native", blocks, "--records", "1000", "--total", str(total)], check=True)
    ddl = engine.sql("SHOW CREATE TABLE watchtower.logs FORMAT TSVRaw")
    engine.sql(ddl.replace("watchtower.logs", "watchtower.ceiling", 1))
    engine.quiet()
    before, started = engine.process.cpu(), time.monotonic()
    for name in sorted(os.listdir(blocks)):
        body = open(os.path.join(blocks, name), "rb").read()
        engine.sql("INSERT INTO watchtower.ceiling FORMAT Native", body, async_insert=0, insert_deduplication_token=name)
    seconds = time.monotonic() - started
    rows = engine.count("watchtower.ceiling")
    engine.quiet()
    cpu = engine.process.cpu() - before
    stored = engine.bytes_per_record("watchtower.ceiling")
    engine.sql("DROP TABLE watchtower.ceiling SYNC")
    shutil.rmtree(blocks)
    return {"landed_per_s": rows / seconds, "cpu_us": cpu / rows * 1e6, "rows": rows, "bytes_per_record": stored}
