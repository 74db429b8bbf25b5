"""The service over HTTP, on loopback, against bare processes that are started in between."""
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import time
import urllib.request

sys.dont_write_bytecode = True
import client
import machines
import peers

LOAD = os.path.join(client.OUT, "http_load")
PYTHON = ["/usr/bin/python3", "-c", "print(sum(range(101)))"]
NODE = ["/usr/bin/node", "-e", "console.log(2+2)"]
CODE = {"code": "print(sum(range(101)))"}
JS = {"language": "javascript", "code": "console.log(2+2)"}
CONNECTIONS = 64
BARES = 8  # in each round
IN_A_ROW = 8  # containers that wait: each serves once
SESSIONS = 1000
WARM = "python,python:data,javascript,python@container,javascript@container"


def build():
    source = os.path.join(client.HERE, "http_load.c")
    os.makedirs(client.OUT, exist_ok=True)
    subprocess.run([os.environ.get("CC", "cc"), "-O2", "-Wall", "-Wextra", "-Werror", source, "-o", LOAD],
                   check=True)


class Service:
    def __init__(self, place_dir):
        self.dir = os.path.join(place_dir, "service")
        os.makedirs(self.dir)
        os.chmod(place_dir, 0o711)  # the service's own user must get through
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.process = subprocess.Popen(
            [client.HOTCELL, "serve", "--port", str(self.port), "--state-dir", self.dir + "/state",
             "--socket", self.dir + "/sock", "--log-level", "warning", "--warm", WARM,
             "--sessions-max", "10000", "--pool-min", str(IN_A_ROW)], preexec_fn=peers.die_with_parent)
        for _ in range(600):
            try:
                if self.ask("GET", "/readyz")[0] == 200:
                    return
            except OSError:
                pass
            time.sleep(0.1)
        sys.exit("bench: the service did not get ready")

    def ask(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data=data, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as reply:
                return reply.status, json.loads(reply.read() or b"null")
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read() or b"null")

    def load(self, body, want, connections, seconds, rate=0, path="/v1/execute", port=None):
        file = os.path.join(self.dir, "body")
        with open(file, "w") as out:
            json.dump(body, out)
        done = subprocess.run([LOAD, str(port or self.port), path, file, want, str(connections), str(seconds), str(rate)],
                              capture_output=True, text=True)
        if done.returncode:
            sys.exit("bench: the service failed: " + done.stderr)
        return json.loads(done.stdout)

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


def spawn(argv):
    return os.posix_spawn(argv[0], argv, os.environ,
                          file_actions=[(os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0)])


def bare_ms(argv, times):
    for _ in range(BARES):
        begin = time.perf_counter()
        os.waitpid(spawn(argv), 0)
        times.append((time.perf_counter() - begin) * 1000)


def bare_rate(argv, seconds):
    """So many a second, with all processors at it."""
    end = time.monotonic() + seconds
    count = 0
    running = {spawn(argv) for _ in range(os.cpu_count())}
    while running:
        pid, _ = os.waitpid(-1, 0)
        if pid not in running:
            continue
        running.remove(pid)
        if time.monotonic() < end:
            count += 1
            running.add(spawn(argv))
    return count / seconds


def containers(service, body, want):
    """As many as wait, with some time for each to end; and then time to warm the next ones."""
    taken = service.load({**body, "isolation": "container"}, want, 1, IN_A_ROW / 20, 20)
    time.sleep(IN_A_ROW / 4)
    return taken


def session_of(service, isolation):
    status, session = service.ask("POST", "/v1/sessions", {"isolation": isolation, "ttl_seconds": 3600})
    if status != 201:
        sys.exit(f"bench: no session: {session}")
    return session["session_id"]


def idle_sessions_mib(service, count):
    before = machines.settled_kb()
    ids = [session_of(service, "vm") for _ in range(count)]
    for id in ids:
        service.ask("POST", f"/v1/sessions/{id}/execute", {"code": "x = 1"})
    after = machines.settled_kb()
    for id in ids:
        service.ask("DELETE", f"/v1/sessions/{id}")
    return (before - after) / 1024 / count


class Control:
    """A server that computes for 0.1 ms and answers: its p99 is the machine's."""

    def __init__(self):
        self.process = subprocess.Popen([LOAD, "--serve", "100"], stdout=subprocess.PIPE, text=True,
                                        preexec_fn=peers.die_with_parent)
        self.port = self.process.stdout.readline().strip()

    def end(self):
        self.process.kill()
        self.process.wait()


class Machine:
    """How the machine fares meanwhile: a bad p99 may be its own."""

    def __init__(self):
        self.before = self.ticks()
        self.loops = []

    @staticmethod
    def ticks():
        with open("/proc/stat") as file:
            fields = [int(field) for field in file.readline().split()[1:9]]
        return fields[7], sum(fields)

    def look(self):
        """The same little work, after some rest, again and again."""
        for _ in range(50):
            time.sleep(0.002)
            begin = time.perf_counter()
            sum(range(5000))
            self.loops.append(time.perf_counter() - begin)

    def line(self):
        stolen, all = (now - then for now, then in zip(self.ticks(), self.before))
        slow = statistics.median(self.loops) / min(self.loops)
        return (f"the machine meanwhile: its host took {100 * stolen / all:.1f} % of the processors' time, and a short loop "
                f"took {slow:.1f} x its best at the median")


def fraction(bare, other):
    return f"1/{bare / other:.0f}" if other < bare else f"{other / bare:.2f} x"


def measure(service, machine, control, quick):
    """Interleaved: what slows down one slows down the others."""
    rounds, seconds = (2, 0.5) if quick else (8, 1)
    session = session_of(service, "vm")
    service.ask("POST", f"/v1/sessions/{session}/execute", {"code": "x = 6 * 7"})
    python, node = [], []
    taken = {name: [] for name in ("vm", "container", "node", "session", "crowd", "open", "control", "bare_rate")}
    for _ in range(rounds):
        machine.look()
        bare_ms(PYTHON, python)
        taken["vm"].append(service.load(CODE, "5050", 1, seconds))
        taken["session"].append(service.load({"code": "print(x)"}, "42", 1, seconds,
                                             path=f"/v1/sessions/{session}/execute"))
        taken["container"].append(containers(service, CODE, "5050"))
        taken["crowd"].append(service.load(CODE, "5050", CONNECTIONS, 2 * seconds))
        half = taken["crowd"][-1]["rate"] / 2
        taken["open"].append(service.load(CODE, "5050", CONNECTIONS, 2 * seconds, half))
        taken["control"].append(service.load(CODE, "5050", CONNECTIONS, 2 * seconds, half, port=control.port))
        taken["bare_rate"].append(bare_rate(PYTHON, seconds))
        if os.path.exists(NODE[0]):
            bare_ms(NODE, node)
            taken["node"].append(containers(service, JS, '"4'))
    return python, node, taken


def mid(list_of, key):
    return statistics.median(t[key] for t in list_of)


def lines(quick, place_dir):
    """What is to be told, one sentence for each."""
    build()
    service = Service(place_dir)
    machine = Machine()
    control = Control()
    try:
        python, node, taken = measure(service, machine, control, quick)
        how_it_was = machine.line()
        mib = idle_sessions_mib(service, 50 if quick else SESSIONS)
    finally:
        control.end()
        service.end()
    bare = statistics.median(python) * 1000
    told = [
        f"HTTP, fresh vm, Python: p50 {mid(taken['vm'], 'p50_us'):.0f} µs, "
        f"{fraction(bare, mid(taken['vm'], 'p50_us'))} of a bare start of {bare / 1000:.1f} ms (wanted: 1/40)",
        f"HTTP, fresh vm, Python, {CONNECTIONS} connections: {mid(taken['crowd'], 'rate'):.0f} a second, "
        f"{mid(taken['crowd'], 'rate') / statistics.median(taken['bare_rate']):.0f} x bare (wanted: 30), "
        f"p99 {mid(taken['crowd'], 'p99_us') / 1000:.1f} ms, {mid(taken['crowd'], 'p99_us') / bare:.2f} x "
        "a bare start (wanted: 2)",
        f"HTTP, at half of the highest rate (open loop): p99 {mid(taken['open'], 'p99_us') / 1000:.1f} ms, "
        f"{mid(taken['open'], 'p99_us') / bare:.2f} x a bare start (wanted: 0.5); "
        f"{mid(taken['control'], 'p99_us') / 1000:.1f} ms for a server that only computes 0.1 ms",
        f"HTTP, warm container, Python: p50 {mid(taken['container'], 'p50_us') / 1000:.2f} ms, "
        f"{fraction(bare, mid(taken['container'], 'p50_us'))} of bare (wanted: 1/12)",
        f"HTTP, a vm session's next run: p50 {mid(taken['session'], 'p50_us'):.0f} µs, "
        f"{fraction(bare, mid(taken['session'], 'p50_us'))} of bare (wanted: 1/40)",
        f"an idle vm session: {mib:.1f} MiB of memory (wanted: at most 5)",
        how_it_was,
    ]
    if node:
        bare_node = statistics.median(node) * 1000
        told.insert(4, f"HTTP, warm container, node: p50 {mid(taken['node'], 'p50_us') / 1000:.2f} ms, "
                       f"{fraction(bare_node, mid(taken['node'], 'p50_us'))} of bare node (wanted: 1/6)")
    return told


if __name__ == "__main__":
    import tempfile
    for name in set(os.environ) - {"PATH", "HOME", "LANG"}:
        del os.environ[name]  # as bench/run does: some make others slow
    with tempfile.TemporaryDirectory() as place:
        for line in lines("--quick" in sys.argv, place):
            print(line)
