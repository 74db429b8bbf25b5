"""What the tests of the service share: how it is started and spoken to, and how to see what it left.

    service.execute("print(1)")                      -> dict, what a run came to
    service.get("/v1/files")                         -> Reply
    service.post("/v1/execute", {"code": "1"})       -> Reply
    service.stream("/v1/execute/stream", {...})      -> Stream: for event, data in stream
    service.upload("a.txt", b"...")                  -> file_id;   service.download(id) -> bytes
    service.raw(b"GET / HTTP/1.1\r\n...")            -> all bytes that come back
    service.connect()                                -> socket.socket
"""
import ctypes
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import uuid
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HOTCELL = Path(os.environ.get("HOTCELL", ROOT / "build" / "hotcell")).resolve()
IS_ROOT = os.geteuid() == 0
IS_SANITIZED = b"libasan" in subprocess.run(
    ["ldd", HOTCELL], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
HAS_KVM = os.access("/dev/kvm", os.R_OK | os.W_OK)

# Nothing is measured by this: it only turns a hang into a failure.
PATIENCE_S = int(os.environ.get("PATIENCE_S", "120"))

SANITIZER = re.compile(
    r"AddressSanitizer|LeakSanitizer|UndefinedBehavior|runtime error: |Assertion .* failed|malloc\(\)|free\(\)")


# ---- processes ----


def read(path):
    """What is there to be read; nothing if it is gone."""
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""


def stat_of(pid):
    """(state, parent, start time), or None if there is no such process."""
    text = read(f"/proc/{pid}/stat")
    if not text:
        return None
    fields = text.rsplit(b")", 1)[1].split()
    return fields[0].decode(), int(fields[1]), int(fields[19])


def processes():
    """{pid: (state, parent, start time)}"""
    found = {int(name): stat_of(name) for name in os.listdir("/proc") if name.isdigit()}
    return {pid: stat for pid, stat in found.items() if stat}


def descendants(pid):
    """{pid: start time} of all that stand below it, and of itself."""
    everybody = processes()
    found = {pid: everybody[pid][2]} if pid in everybody else {}
    grows = True
    while grows:
        grows = False
        for child, (_, parent, start) in everybody.items():
            if parent in found and child not in found:
                found[child] = start
                grows = True
    return found


def is_alive(pid, start):
    stat = stat_of(pid)
    return stat is not None and stat[2] == start and stat[0] not in "ZX"


def name_of(pid):
    return read(f"/proc/{pid}/comm").decode().strip()


def wait_until(condition, what, patience_s=PATIENCE_S):
    """Polls; only a hang guard has a time. Returns what the condition gave."""
    until = time.monotonic() + patience_s
    while True:
        found = condition()
        if found:
            return found
        assert time.monotonic() < until, f"it never came true that {what}"
        time.sleep(0.01)


def cgroup_directories():
    """All directories named hotcell-*, in every hierarchy that is mounted."""
    found = []
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        left, right = line.split(" - ")
        if right.split()[0] not in ("cgroup", "cgroup2"):
            continue
        point = left.split()[4]
        for directory, below, _ in os.walk(point):
            found += [os.path.join(directory, name) for name in below if name.startswith("hotcell-")]
            below[:] = [name for name in below if not name.startswith("hotcell-")]
    return found


def mounts():
    return set(Path("/proc/self/mountinfo").read_text().splitlines())


# ---- ports ----

# Below those that the kernel gives to clients, and another range for each worker beside us.
_worker = int(re.sub(r"\D", "", os.environ.get("PYTEST_XDIST_WORKER", "gw0")) or 0)
_next_port = 20000 + _worker * 1500 + os.getpid() % 1000


def free_port():
    global _next_port
    while True:
        _next_port += 1
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", _next_port))
                return _next_port
            except OSError:
                continue


# ---- what comes back ----


class Reply:
    def __init__(self, status, headers, body):
        self.status = status
        self.headers = headers
        self.body = body

    def json(self):
        return json.loads(self.body)

    def detail(self):
        """What an error says: one sentence, or the sentences about the fields."""
        detail = self.json()["detail"]
        return detail if isinstance(detail, str) else "; ".join(item["msg"] for item in detail)

    def __repr__(self):
        return f"<{self.status} {dict(self.headers)} {self.body[:2000]!r}>"


class Stream:
    """Server-sent events as they come: pairs (event, data). Comments are passed over."""

    def __init__(self, connection, response):
        self.connection = connection
        self.response = response
        self.status = response.status
        self.headers = response.headers

    def __iter__(self):
        event, data = None, []
        while True:
            line = self.response.readline()
            if not line:
                assert event is None and not data, "the stream ends within an event"
                return
            assert line.endswith(b"\n"), line
            line = line[:-1].decode()
            if not line:
                if event is not None:
                    yield event, json.loads("\n".join(data))
                event, data = None, []
            elif line.startswith(":"):
                continue
            else:
                name, _, value = line.partition(": ")
                assert name in ("event", "data"), line
                if name == "event":
                    event = value
                else:
                    data.append(value)

    def output(self):
        """Reads it to its end: (stdout, stderr, the last event, its data)."""
        texts = {"stdout": [], "stderr": []}
        last = None
        for event, data in self:
            assert last is None, f"{event} comes after {last}"
            if event == "output":
                texts[data["stream"]].append(data["data"])
            else:
                last = event, data
        assert last, "the stream has no last event"
        return "".join(texts["stdout"]), "".join(texts["stderr"]), *last

    def close(self):
        self.response.close()
        self.connection.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout):
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self.path))


class Client:
    """Speaks to a service: by TCP, or by its unix socket; with a key, or without."""

    def __init__(self, port, socket_path=None, key=None, headers=None):
        self.port = port
        self.socket_path = socket_path
        self.headers = dict(headers or {})
        if key:
            self.headers["Authorization"] = f"Bearer {key}"

    def connection(self, timeout=PATIENCE_S):
        if self.port is None:
            return UnixConnection(self.socket_path, timeout)
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    def connect(self, timeout=PATIENCE_S):
        return socket.create_connection(("127.0.0.1", self.port), timeout=timeout)

    def begin(self, method, path, body=None, headers=None):
        """(connection, response): the head has come, the body not."""
        headers = {**self.headers, **(headers or {})}
        if body is not None and not isinstance(body, (bytes, str)):
            body = json.dumps(body)
            headers.setdefault("Content-Type", "application/json")
        connection = self.connection()
        try:
            connection.request(method, path, body, headers)
        except (BrokenPipeError, ConnectionResetError):
            pass  # it may have answered without taking all of the body
        return connection, connection.getresponse()

    def request(self, method, path, body=None, headers=None):
        connection, response = self.begin(method, path, body, headers)
        try:
            return Reply(response.status, response.headers, response.read())
        finally:
            connection.close()

    def get(self, path, **options):
        return self.request("GET", path, **options)

    def delete(self, path, **options):
        return self.request("DELETE", path, **options)

    def post(self, path, body=None, **options):
        return self.request("POST", path, body, **options)

    def put(self, path, body=None, **options):
        return self.request("PUT", path, body, **options)

    def patch(self, path, body=None, **options):
        return self.request("PATCH", path, body, **options)

    def execute(self, code, **fields):
        """A run that is served, however its program ends."""
        reply = self.post("/v1/execute", {"code": code, **fields})
        assert reply.status == 200, reply
        return reply.json()

    def stream(self, path, body=None, method="POST", headers=None):
        connection, response = self.begin(method, path, body, headers)
        return Stream(connection, response)

    def upload_reply(self, name, data, field="file", content_type="application/octet-stream"):
        boundary = uuid.uuid4().hex
        body = (f'--{boundary}\r\nContent-Disposition: form-data; name="{field}"; '
                f'filename="{name}"\r\nContent-Type: {content_type}\r\n\r\n').encode()
        body += data + f"\r\n--{boundary}--\r\n".encode()
        return self.post("/v1/files", body,
                         headers={"Content-Type": f"multipart/form-data; boundary={boundary}"})

    def upload(self, name, data):
        reply = self.upload_reply(name, data)
        assert reply.status == 201, reply
        return reply.json()["file_id"]

    def download(self, file_id):
        reply = self.get(f"/v1/files/{file_id}")
        assert reply.status == 200, reply
        return reply.body

    def raw(self, data, half_close=False):
        """All that comes back, until the service closes the connection. (It need not take it all.)"""
        with self.connect() as sock:
            try:
                sock.sendall(data)
                if half_close:
                    sock.shutdown(socket.SHUT_WR)
            except (BrokenPipeError, ConnectionResetError):
                pass
            return read_to_end(sock)

    def metrics(self):
        """{name with labels: value}"""
        lines = self.get("/metrics").body.decode().splitlines()
        return {name: float(value) for name, _, value in
                (line.rpartition(" ") for line in lines if line and not line.startswith("#"))}


_prctl = ctypes.CDLL(None).prctl
_main_thread = threading.main_thread()


def _end_with_us():
    """Tests that are killed leave no service. (The kernel means the thread by it, not the process.)"""
    if threading.current_thread() is _main_thread:
        _prctl(1, signal.SIGTERM)


def read_to_end(sock):
    """All that comes until it is closed."""
    received = b""
    try:
        while True:
            piece = sock.recv(65536)
            if not piece:
                return received
            received += piece
    except ConnectionResetError:
        return received


class Service(Client):
    """A `hotcell serve` of its own. `options` are its settings: timeout_max_ms=500 is --timeout-max-ms 500."""

    def __init__(self, directory, env=None, **options):
        self.directory = Path(directory)
        self.state_dir = self.directory / "state"
        self.runtime_dir = self.directory / "run"
        self.runtime_dir.mkdir(parents=True, exist_ok=True)
        super().__init__(free_port(), self.runtime_dir / "sock")
        self.log_path = self.directory / "log"
        self.env = env or {}
        # Less is kept warm than by default: each kind takes a second or two to get so.
        self.options = {"port": self.port, "socket": self.socket_path, "state_dir": self.state_dir,
                        "warm": "python", **options}
        self.process = None
        self.local = Client(None, self.socket_path)
        self._seen = {}     # pid: start time, of all processes that were ever seen
        self._wardens = {}  # of these, the wardens

    def command(self):
        words = [str(HOTCELL), "serve"]
        for name, value in self.options.items():
            if value is None:
                continue
            if isinstance(value, bool):
                value = "yes" if value else "no"
            words.append(f"--{name.replace('_', '-')}={value}")
        return words

    def environment(self):
        env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8",
               "HOME": str(self.directory), "XDG_CACHE_HOME": str(cache_directory())}
        env.update({name: os.environ[name] for name in os.environ if name.endswith("SAN_OPTIONS")})
        env.update(self.env)
        return env

    def start(self, ready=True):
        self._log = open(self.log_path, "ab")
        self._was_asked = False
        self.process = subprocess.Popen(self.command(), env=self.environment(), cwd="/",
                                        stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log,
                                        preexec_fn=_end_with_us)
        if ready:
            self.wait_ready()
        return self

    def is_ready(self):
        assert self.process.poll() is None, f"it ended with {self.process.returncode}:\n{self.log()}"
        try:
            return self.local_or_tcp().get("/readyz").status == 200
        except (OSError, http.client.HTTPException):
            return False

    def local_or_tcp(self):
        return self if self.options.get("host", "127.0.0.1") else self.local

    def wait_ready(self):
        wait_until(self.is_ready, f"the service is ready:\n{self.log()[-4000:]}")
        self.note()

    def log(self):
        return read(self.log_path).decode(errors="backslashreplace")

    # ---- its processes ----

    def note(self):
        """Remembers what runs now, so that stop() can tell what has stayed."""
        now = descendants(self.process.pid)
        self._seen.update(now)
        self._wardens.update({pid: start for pid, start in now.items()
                              if name_of(pid).startswith("hotcell-warden")})
        return now

    def children(self, name):
        """The supervisor's own children of that name."""
        self.note()
        return [pid for pid, (state, parent, _) in processes().items()
                if parent == self.process.pid and state not in "ZX" and name_of(pid) == name]

    def daemon_pid(self):
        return wait_until(lambda: self.children("hotcell-daemon"), "there is a daemon")[0]

    def warden_pids(self):
        return self.children("hotcell-warden")

    def cell_pids(self):
        """Everything below the wardens."""
        found = set()
        for warden in self.warden_pids():
            found |= set(descendants(warden)) - {warden}
        return found

    def fds(self):
        return len(os.listdir(f"/proc/{self.daemon_pid()}/fd"))

    def memory(self):
        """Resident memory of the daemon, in bytes: what is its own."""
        text = read(f"/proc/{self.daemon_pid()}/status").decode()
        return int(re.search(r"RssAnon:\s+(\d+) kB", text)[1]) * 1024

    def cgroups(self):
        """Those of its wardens, living and dead."""
        return [path for path in cgroup_directories() if self._is_ours(os.path.basename(path))]

    def _is_ours(self, name):
        match = re.match(r"hotcell-\d+-(\d+)-(\d+)", name)
        return match and self._wardens.get(int(match[1])) == int(match[2])

    # ---- its end ----

    def signal(self, number):
        self._was_asked = number == signal.SIGTERM
        self.process.send_signal(number)

    def wait(self):
        try:
            code = self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.kill_all()
            raise AssertionError(f"the service does not end:\n{self.log()[-4000:]}") from None
        finally:
            self._log.close()
        return code

    def stop(self):
        """As an administrator does, and looks at what is left."""
        if self.process.poll() is None and not self._was_asked:  # a second time would be harsh
            self.note()
            self.signal(signal.SIGTERM)
        code = self.wait()
        assert code == 0, f"it ended with {code}:\n{self.log()[-6000:]}"
        self.check_log()
        self.check_nothing_left()

    def kill_all(self):
        """After a failure only: whatever a test has left running."""
        self.note()
        for pid, start in self._seen.items():
            if is_alive(pid, start):
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        self.process.wait()

    def check_log(self):
        found = SANITIZER.search(self.log())
        assert not found, f"a sanitizer spoke up:\n{self.log()[max(0, found.start() - 500):][:8000]}"

    def left(self):
        """What should be gone with the service."""
        found = [f"process {pid} {name_of(pid)}" for pid, start in self._seen.items()
                 if is_alive(pid, start)]
        found += [f"cgroup {path}" for path in self.cgroups()]
        found += [f"file {path}" for path in self.runtime_dir.rglob("*")]
        found += [f"mount {line}" for line in mounts() if str(self.directory) in line]
        found += [f"directory {path}" for path in Path("/tmp").glob("hotcell-*")
                  if self._is_ours(path.name)]
        return found

    def check_nothing_left(self):
        # The kernel takes a moment to clear away what was killed.
        until = time.monotonic() + 10
        while self.left() and time.monotonic() < until:
            time.sleep(0.05)
        assert not self.left(), "\n".join(self.left())


def cache_directory():
    """Where snapshots are kept: one place for all tests, so that each language is warmed up once."""
    where = os.environ.get("XDG_CACHE_HOME")
    return Path(where) if where else HOTCELL.parent / "test-cache"


def make_directory():
    """A directory that other users may enter: the daemon becomes one of them, and pytest's are private."""
    where = "/var/lib" if IS_ROOT else tempfile.gettempdir()
    path = Path(tempfile.mkdtemp(prefix="hotcell-api-", dir=where))
    path.chmod(0o755)
    return path


class Running:
    """with harness.Running(timeout_max_ms=500) as service: ... ends it, and looks for what is left."""

    def __init__(self, env=None, ready=True, prepare=None, **options):
        self.directory = make_directory()
        self.service = Service(self.directory, env, **options)
        self.ready = ready
        self.prepare = prepare

    def __enter__(self):
        if self.prepare:
            self.prepare(self.service)
        try:
            return self.service.start(self.ready)
        except BaseException:
            self._clear()
            raise

    def __exit__(self, kind, *_):
        try:
            if kind is None:
                self.service.stop()
        finally:
            self._clear()

    def _clear(self):
        if self.service.process:
            self.service.kill_all()
        shutil.rmtree(self.directory, ignore_errors=True)


# ---- many at once ----


def at_once(*calls):
    """Calls all of these at one time; returns what they returned, in order. Raises what one has raised."""
    results = [None] * len(calls)
    errors = []

    def work(index):
        try:
            results[index] = calls[index]()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(i,), daemon=True) for i in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
        assert not thread.is_alive(), "a call hangs"
    if errors:
        raise errors[0]
    return results


class Background:
    """A call that goes on beside the test: .result() waits for it."""

    def __init__(self, call):
        self._value = self._error = None

        def work():
            try:
                self._value = call()
            except BaseException as error:
                self._error = error

        self.thread = threading.Thread(target=work, daemon=True)
        self.thread.start()

    def result(self):
        self.thread.join(PATIENCE_S)
        assert not self.thread.is_alive(), "the call hangs"
        if self._error:
            raise self._error
        return self._value

    def is_over(self):
        return not self.thread.is_alive()
