"""hotcell against a service: how the tests of the command line start it, and a server that lies.

    cli("run", "-l", "python", "-c", "1")     -> Result
    with Liar({"/v1/files": (200, b"...")}) as liar: cli.at(liar.url)("files", "list")
"""
import fcntl
import http.server
import json
import os
import pty
import re
import select
import struct
import subprocess
import termios
import threading

import harness


class Result:
    def __init__(self, code, out, err):
        self.code = code
        self.raw_out = out
        self.out = out.decode(errors="backslashreplace")
        self.err = err.decode(errors="backslashreplace")
        found = harness.SANITIZER.search(self.err)
        assert not found, f"a sanitizer spoke up:\n{self.err}"

    def json(self):
        return json.loads(self.out)

    def __repr__(self):
        return f"<exit {self.code}\nstdout: {self.out[-2000:]}\nstderr: {self.err[-2000:]}>"


class Cli:
    """The command line of somebody who has named a server."""

    def __init__(self, url, home, key=None):
        self.home = home
        self.env = {"PATH": "/usr/bin:/bin", "HOME": str(home), "LANG": "C.UTF-8",
                    "XDG_CACHE_HOME": str(harness.cache_directory())}
        self.env.update({name: os.environ[name] for name in os.environ if name.endswith("SAN_OPTIONS")})
        if url:
            self.env["HOTCELL_SERVER"] = url
        if key:
            self.env["HOTCELL_API_KEY"] = key

    def at(self, url):
        return Cli(url, self.home)

    def start(self, *words, **options):
        options.setdefault("stdin", subprocess.DEVNULL)
        options.setdefault("stdout", subprocess.PIPE)
        options.setdefault("stderr", subprocess.PIPE)
        return subprocess.Popen([str(harness.HOTCELL), *(str(word) for word in words)], env=self.env,
                                cwd=str(self.home), **options)

    def __call__(self, *words, input=None):
        process = self.start(*words, stdin=subprocess.PIPE)
        try:
            out, err = process.communicate(input or b"", timeout=harness.PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            raise AssertionError(f"it hangs: {words} {process.communicate()}") from None
        return Result(process.returncode, out, err)


def url_of(service):
    return f"http://127.0.0.1:{service.port}"


class Liar:
    """A server that answers as it is told: {path: (status, body, {header: value})}; what it was asked is
    in `asked`: (method, path, headers, body)."""

    def __init__(self, answers):
        self.asked = []
        liar = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def answer(self):
                length = int(self.headers.get("Content-Length") or 0)
                liar.asked.append((self.command, self.path, dict(self.headers), self.rfile.read(length)))
                status, body, *more = answers.get(self.path.split("?")[0], (404, b'{"detail": "no"}'))
                self.send_response(status)
                for name, value in (more[0] if more else {}).items():
                    self.send_header(name, value)
                self.send_header("Connection", "close")
                self.end_headers()
                try:
                    self.wfile.write(body)
                except OSError:
                    pass

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


def events(*pairs):
    return b"".join(f"event: {name}\ndata: {json.dumps(data)}\n\n".encode() for name, data in pairs)


RESULT = {"exit_code": 0, "timed_out": False, "duration_ms": 1, "files": [], "reason": "exited",
          "language": "python", "isolation": "vm", "id": "0"}


class Terminal:
    """A program with a terminal of its own. `seen` is all that it wrote there."""

    def __init__(self, cli, *words, rows=30, columns=120):
        self.master, slave = pty.openpty()
        self.size(rows, columns)
        self.before = termios.tcgetattr(slave)
        self.slave = slave
        self.process = cli.start(*words, stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
                                 preexec_fn=lambda: take_terminal(slave))
        self.seen = b""

    def size(self, rows, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self, patience_s=0.2):
        while select.select([self.master], [], [], patience_s)[0]:
            self.seen += os.read(self.master, 65536)

    def wait_for(self, pattern):
        def found():
            self.read(0.05)
            return re.search(pattern, self.seen, re.S)
        return harness.wait_until(found, f"{pattern!r} is on the screen: {self.seen[-3000:]!r}")

    def type(self, keys):
        os.write(self.master, keys)

    def end(self):
        code = self.process.wait(harness.PATIENCE_S)
        self.read()
        after = termios.tcgetattr(self.slave)
        os.close(self.slave)
        os.close(self.master)
        return code, after == self.before


def take_terminal(slave):
    fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
