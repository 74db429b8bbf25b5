"""Container engines of our own, to try hotcell in: docker, podman, and podman without root.

    test ── nsenter ──> holder, pid 1 of a pid and a mount namespace
                          ├ dockerd ─ containerd ─ containers
                          └ conmon (podman) ─ containers

What engines start and mount is in those two namespaces and ends with the holder, whatever went wrong;
the holder ends when the test's end of a pipe is closed. What engines write is in a tmpfs there. Only
cgroups are the machine's own: they are all in one group, which is removed last. Nothing is fetched
from anywhere: the image is made of the files of this machine's packages, and the engines are told not
to pull."""
import ctypes
import glob
import io
import json
import os
import re
import shutil
import signal
import subprocess
import tarfile
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HOTCELL = Path(os.environ.get("HOTCELL", ROOT / "build" / "hotcell")).resolve()
IMAGE = "hotcell-nested"
PACKAGES = ["base-files", "libc-bin", "dash", "coreutils", "python3"]
NOT_NEEDED = ("/usr/share/doc", "/usr/share/man", "/usr/share/locale", "/usr/share/lintian")
USER = {"root": [], "user": ["--user", "1000:1000"]}

# Who runs podman without root, and the ids that he may give to others.
GUEST, GUEST_IDS = 61000, (600000, 65536)

# Nothing is measured by these: they only turn a hang into a failure.
START_S, PATIENCE_S = 60, 90


class Result:
    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    def __repr__(self):
        return f"<exit {self.code}\nstdout: {self.out[-2000:]}\nstderr: {self.err[-2000:]}>"


def find(program):
    # Debian's first: another client may be too new for Debian's daemon.
    path = shutil.which(program, path="/usr/bin:/usr/sbin:/bin:/sbin:" + os.environ["PATH"])
    assert path, f"{program} is not installed"
    return path


def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


# ---- the image ----


def packages_with_dependencies(names):
    """Of what is installed: these, what they depend on, and so on."""
    listing = subprocess.run(
        ["dpkg-query", "-W", "-f",
         "${binary:Package}\t${Package}\t${Provides}\t${Pre-Depends}, ${Depends}\n"],
        check=True, capture_output=True, text=True).stdout
    binary, depends, provider = {}, {}, {}

    def alternatives(text):
        for group in filter(None, (part.strip() for part in text.split(","))):
            yield [re.split(r"[\s:(]", name.strip())[0] for name in group.split("|")]

    for line in listing.splitlines():
        full, name, provides, wanted = line.split("\t")
        binary[name], depends[name] = full, list(alternatives(wanted))
        for (virtual, *_) in alternatives(provides):
            provider.setdefault(virtual, name)
    found, todo = set(), list(names)
    while todo:
        name = todo.pop()
        name = name if name in binary else provider.get(name)
        if name is None or name in found:
            continue
        found.add(name)
        for choice in depends[name]:
            todo += [next((c for c in choice if c in binary or c in provider), choice[0])]
    return [binary[name] for name in found]


def files_of(packages):
    listing = subprocess.run(["dpkg-query", "-L", *packages], check=True, capture_output=True,
                             text=True).stdout
    found = {"/bin", "/sbin", "/lib", "/lib64", "/etc/ld.so.cache"}
    for line in listing.splitlines():
        if not line.startswith("/") or line == "/." or line.startswith(NOT_NEEDED):
            continue
        # /bin/sh is /usr/bin/sh: an image may have a file only once.
        path = os.path.join(os.path.realpath(os.path.dirname(line)), os.path.basename(line))
        if path != "/" and os.path.lexists(path) and not path.startswith("/etc/alternatives"):
            found.add(path)
    return found


def libraries_of(program):
    done = subprocess.run(["ldd", program], capture_output=True, text=True)
    return {os.path.realpath(path): path for path in re.findall(r"(/\S+) \(0x", done.stdout)}


def write_image(path):
    """A small Debian with Python and hotcell, made of this machine's own files."""
    def no_owner(info):
        info.uid = info.gid = 0
        info.uname = info.gname = ""
        return info

    with tarfile.open(path, "w") as tar:
        files = files_of(packages_with_dependencies(PACKAGES))
        for name in sorted(files):
            tar.add(name, recursive=False, filter=no_owner)
        tar.add("/etc/alternatives", filter=no_owner)
        text = b"root:x:0:0:root:/root:/bin/sh\nguest:x:1000:1000::/tmp:/bin/sh\n"
        info = tarfile.TarInfo("etc/passwd")
        info.size = len(text)
        tar.addfile(info, io.BytesIO(text))
        for program in ("hotcell", "hotcell-warden", "hotcell-vmm"):
            source = HOTCELL.with_name(program)
            tar.add(source, f"usr/local/bin/{program}", filter=no_owner)
            # A sanitized build has libraries that no package above depends on.
            for real, name in libraries_of(source).items():
                if not files & {real, name, os.path.realpath(os.path.dirname(name)) +
                                "/" + os.path.basename(name)}:
                    tar.add(real, name.lstrip("/"), filter=no_owner)
                    files.add(name)
        for name in ("languages", "drivers"):
            tar.add(ROOT / name, f"usr/local/share/hotcell/{name}", filter=no_owner)


# ---- where engines live ----

HOLDER = """
set -e
trap '' CHLD  # whoever has no parent any more is ours: let the kernel bury it
# crun takes a machine with both versions of cgroups for one with version 2: show it only one.
while umount /sys/fs/cgroup/unified 2>/dev/null; do :; done
for name in passwd group subuid subgid; do
	mount --bind "$1/$name" /etc/$name
done
mount -t tmpfs -o mode=0755 engines "$1/engines"
install -d -m 0700 -o guest -g guest "$1/engines/guest" "$1/engines/guest/run"
echo ready
exec cat >/dev/null  # until the pipe is closed
"""


class Place:
    """A directory, an image in it, and the namespaces in which engines run."""

    def __init__(self):
        # Short: a socket's path may have 107 bytes. Public: the guest must get in.
        self.dir = Path(tempfile.mkdtemp(prefix="nested-", dir="/tmp"))
        self.dir.chmod(0o755)
        self.engines = self.dir / "engines"
        self.group = self.dir.name
        self.holder = None
        self.number = 0

    def start(self):
        assert HOTCELL.exists(), f"{HOTCELL} is not built (make build)"
        assert os.geteuid() == 0, "needs root: a docker daemon of its own does"
        self._write_users()
        self.engines.mkdir()
        self.secret = self.dir / "secret"
        self.secret.write_text("secret\n")
        self.image = self.dir / "image.tar"
        write_image(self.image)
        self.image.chmod(0o644)
        self.holder = subprocess.Popen(
            ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc",
             "--propagation", "private", "sh", "-c", HOLDER, "sh", self.dir],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            preexec_fn=die_with_parent)
        if self.holder.stdout.readline() != "ready\n":
            raise AssertionError(f"no namespaces for engines: {self.holder.stderr.read()}")
        children = Path(f"/proc/{self.holder.pid}/task/{self.holder.pid}/children")
        self.first = children.read_text().split()[0]

    def _write_users(self):
        """Files that are laid over those in /etc, for the guest to be known."""
        line = f"guest:x:{GUEST}:{GUEST}::{self.engines}/guest:/bin/sh\n"
        (self.dir / "passwd").write_text(Path("/etc/passwd").read_text() + line)
        (self.dir / "group").write_text(Path("/etc/group").read_text() + f"guest:x:{GUEST}:\n")
        for name in ("subuid", "subgid"):
            assert Path("/etc", name).exists(), f"/etc/{name} is missing (package uidmap has it)"
            (self.dir / name).write_text(f"guest:{GUEST_IDS[0]}:{GUEST_IDS[1]}\n")

    def enter(self, argv):
        return ["nsenter", "--target", self.first, "--mount", "--pid", "--", *map(str, argv)]

    def call(self, argv, **options):
        """Runs a command where the engines are; returns its Result."""
        process = subprocess.Popen(self.enter(argv), stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   **options)
        try:
            out, err = process.communicate(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            raise AssertionError(f"hangs: {argv}\n{out[-2000:]}\n{err[-2000:]}") from None
        return Result(process.returncode, out, err)

    def end(self):
        if self.holder:
            self.holder.stdin.close()
            try:
                self.holder.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                self.holder.kill()
                self.holder.wait()
        self._remove_cgroups()
        shutil.rmtree(self.dir)

    def _remove_cgroups(self):
        until = time.monotonic() + START_S
        while (left := self.cgroups()) and time.monotonic() < until:
            for path in left:
                try:
                    os.rmdir(path)
                except OSError:
                    pass  # whoever is in it is still dying
            time.sleep(0.02)
        assert not left, f"cgroups left: {left}"

    def cgroups(self):
        """All groups of our containers, the innermost first."""
        tops = [os.path.join(top, self.group)
                for top in ["/sys/fs/cgroup", *glob.glob("/sys/fs/cgroup/*/")]]
        return [path for top in tops for path, _, _ in os.walk(top, topdown=False)]

    def name(self):
        self.number += 1
        return f"{self.group}-{self.number}"


# ---- engines ----


class Engine:
    """
        engine.run(flags, "hotcell", "run", ...)           -> Result
        engine.start(flags, "sleep", "infinity")           -> name of a container
        engine.inside(name, "hotcell", ...)                -> Result
        engine.kill(name), engine.stop(name)
    """
    options = []

    def __init__(self, place):
        self.place = place

    def call(self, *arguments):
        return self.place.call([*self.command, *arguments])

    def must(self, *arguments):
        result = self.call(*arguments)
        assert result.code == 0, f"{arguments}: {result}"
        return result

    def load(self):
        self.must("import", self.place.image, IMAGE)

    def _run(self, flags, argv, *options):
        return ["run", "--pull", "never", "--network", "none", *self.options, *options, *flags,
                IMAGE, *argv]

    def run(self, flags, *argv):
        return self.call(*self._run(flags, argv, "--rm"))

    def start(self, flags, *argv):
        name = self.place.name()
        self.must(*self._run(flags, argv, "--detach", "--name", name))
        return name

    def inside(self, name, *argv):
        return self.call("exec", name, *argv)

    def kill(self, name):
        self.must("rm", "--force", name)

    def stop(self, name):
        """Asks its first process to end, and waits. Returns its exit code and what it printed."""
        self.must("kill", "--signal", "TERM", name)
        code = int(self.must("wait", name).out)
        out = self.must("logs", name).out
        self.kill(name)
        return code, out

    def json(self, flags, *argv):
        """What --json printed."""
        result = self.run(flags, *argv)
        assert result.out.startswith("{"), result
        return json.loads(result.out)


class Docker(Engine):
    name = "docker"

    def __init__(self, place):
        super().__init__(place)
        at = f"{place.engines}/docker-"
        self.command = [find("docker"), "-H", f"unix://{at}socket"]
        self.options = ["--cgroup-parent", f"/{place.group}"]
        self.log = place.dir / "docker.log"
        daemon = [find("dockerd"), "--data-root", at + "data", "--exec-root", at + "exec",
                  "-H", f"unix://{at}socket", "--pidfile", at + "pid", "--bridge=none",
                  "--iptables=false", "--ip6tables=false"]
        with self.log.open("w") as log:
            self.daemon = subprocess.Popen(place.enter(daemon), stdin=subprocess.DEVNULL,
                                           stdout=log, stderr=log)
        self._wait()
        self.load()

    def _wait(self):
        until = time.monotonic() + START_S
        while self.daemon.poll() is None and time.monotonic() < until:
            if self.call("version").code == 0:
                return
            time.sleep(0.1)
        raise AssertionError("dockerd did not start:\n" + self.log.read_text()[-2000:])

    def end(self):
        self.daemon.terminate()
        self.daemon.wait(PATIENCE_S)


class Podman(Engine):
    name = "podman"

    def __init__(self, place):
        super().__init__(place)
        self.command = self.podman(place.engines / "podman")
        # Its own limits are more than some machines let even root have.
        self.options = ["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024",
                        *self.groups()]
        self.load()

    def groups(self):
        return ["--cgroups=no-conmon", "--cgroup-parent", f"/{self.place.group}"]

    def podman(self, at):
        return [find("podman"), "--root", f"{at}/root", "--runroot", f"{at}/runroot",
                "--tmpdir", f"{at}/tmp", "--storage-driver=overlay",
                "--cgroup-manager=cgroupfs", "--events-backend=none",
                "--log-level=error"]

    def end(self):
        pass


class RootlessPodman(Podman):
    name = "rootless"

    def groups(self):
        return ["--cgroups=disabled"]  # the guest may make none

    def podman(self, at):
        at = self.place.engines / "guest"
        return ["setpriv", f"--reuid={GUEST}", f"--regid={GUEST}", "--clear-groups",
                "env", "-i", "-C", "/", f"HOME={at}", f"XDG_RUNTIME_DIR={at}/run",
                "PATH=/usr/bin:/usr/sbin:/bin:/sbin", *super().podman(at)]


ENGINES = {engine.name: engine for engine in (Docker, Podman, RootlessPodman)}
