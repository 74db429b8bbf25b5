"""Other ways to wall a program in: how each is prepared, called and ended.

All show the program the machine's own /usr, read-only, and give it an empty /tmp and /workspace and
no network: the same files as in a hotcell, and nothing is fetched from anywhere."""
import ctypes
import glob
import io
import json
import os
import shutil
import signal
import subprocess
import tarfile
import time

PR_SET_PDEATHSIG = 1
CGROUP = "bench-of-hotcell"
LINKS = ["bin", "sbin", "lib", "lib32", "lib64", "libx32"]
DIRS = ["usr", "etc", "proc", "dev", "sys", "tmp", "run", "workspace"]


class Unavailable(Exception):
    pass


def die_with_parent():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def find(program):
    path = shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin:/sbin")
    if not path:
        raise Unavailable("not installed")
    return path


def version(program, *arguments):
    done = subprocess.run([program, *arguments], capture_output=True, text=True)
    words = (done.stdout or done.stderr).split()
    return next((w.strip(",") for w in words if w[0].isdigit()), "")


def end(process):
    """Ends one process that we started, by its own handle."""
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def write_root_image(path):
    """A root with nothing of its own: links into /usr, which is laid over it."""
    with tarfile.open(path, "w") as tar:
        for name in DIRS:
            info = tarfile.TarInfo(name)
            info.type, info.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(info)
        for name in LINKS:
            if os.path.islink("/" + name):
                tar.add("/" + name, name)
            elif os.path.isdir("/" + name):
                raise Unavailable(f"/{name} is not in /usr here")
        for name in ["etc/alternatives", "etc/ld.so.cache"]:
            tar.add("/" + name, name)
        passwd = b"root:x:0:0:root:/root:/bin/sh\n"
        info = tarfile.TarInfo("etc/passwd")
        info.size = len(passwd)
        tar.addfile(info, io.BytesIO(passwd))


def remove_cgroups():
    """What podman and docker leave when their last container has gone."""
    for hierarchy in glob.glob("/sys/fs/cgroup") + glob.glob("/sys/fs/cgroup/*"):
        top = os.path.join(hierarchy, CGROUP)
        for path, _, _ in os.walk(top, topdown=False):
            try:
                os.rmdir(path)
            except OSError:
                pass


class Namespace:
    """A mount namespace for what would leave mounts behind. crun and podman refuse a machine that
    has both versions of cgroups mounted: in here the second one is not."""

    def __init__(self):
        if os.geteuid():
            raise Unavailable("needs root, for a mount namespace of its own")
        script = ("while umount /sys/fs/cgroup/unified 2>/dev/null; do :; done; "
                  "echo ready; read ignored")
        command = ["unshare", "--mount", "--propagation", "private", "sh", "-c", script]
        self.holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                       preexec_fn=die_with_parent)
        if not self.holder.stdout.readline():
            raise Unavailable("a mount namespace of its own cannot be made")
        self.path = f"/proc/{self.holder.pid}/ns/mnt"

    def enter(self, argv):
        return ["nsenter", f"--mount={self.path}", *argv]

    def end(self):
        end(self.holder)


class Peer:
    every = 1  # takes part in each n-th round
    namespace = "-"

    def __init__(self, place):
        self.place = place  # has .dir and .image, and .namespace if asked for

    def end(self):
        pass


class Bubblewrap(Peer):
    id, title = "bwrap", "bubblewrap"

    def __init__(self, place):
        super().__init__(place)
        self.program = find("bwrap")
        self.version = version(self.program, "--version")

    def argv(self, work):
        argv = [self.program, "--unshare-all", "--die-with-parent", "--new-session", "--clearenv",
                "--ro-bind", "/usr", "/usr", "--ro-bind", "/etc/alternatives", "/etc/alternatives",
                "--ro-bind", "/etc/ld.so.cache", "/etc/ld.so.cache", "--proc", "/proc",
                "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", "/workspace",
                "--chdir", "/workspace", "--hostname", "cell"]
        for name in LINKS:
            if os.path.islink("/" + name):
                argv += ["--symlink", os.readlink("/" + name), "/" + name]
            elif os.path.isdir("/" + name):
                argv += ["--ro-bind", "/" + name, "/" + name]
        return argv + ["--"] + work.argv


class Firejail(Peer):
    id, title = "firejail", "firejail"

    def __init__(self, place):
        super().__init__(place)
        self.program = find("firejail")
        self.version = version(self.program, "--version")

    def argv(self, work):
        return [self.program, "--quiet", "--noprofile", "--net=none", "--seccomp",
                "--caps.drop=all", "--nonewprivs", "--private", "--private-dev", "--private-tmp",
                "--"] + work.argv


class Crun(Peer):
    id, title = "crun", "crun run"

    def __init__(self, place):
        super().__init__(place)
        self.program = find("crun")
        self.version = version(self.program, "--version")
        self.namespace = place.namespace().path
        self.root = os.path.join(place.dir, "crun-root")
        with tarfile.open(place.image()) as tar:
            tar.extractall(self.root)

    def argv(self, work):
        bundle = os.path.join(self.place.dir, "crun-" + work.id)
        if not os.path.exists(bundle):
            self._make_bundle(bundle, work)
        return [self.program, "--root", os.path.join(self.place.dir, "crun-state"), "run",
                "--bundle", bundle, "{name}"]

    def _make_bundle(self, bundle, work):
        os.mkdir(bundle)
        subprocess.run([self.program, "spec"], cwd=bundle, check=True)
        path = os.path.join(bundle, "config.json")
        with open(path) as file:
            config = json.load(file)
        config["root"] = {"path": self.root, "readonly": True}
        config["process"].update(terminal=False, args=work.argv, cwd="/workspace")
        config["mounts"] += [
            {"destination": "/usr", "type": "bind", "source": "/usr",
             "options": ["rbind", "ro", "nosuid", "nodev"]},
            {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs"},
            {"destination": "/workspace", "type": "tmpfs", "source": "tmpfs"},
        ]
        with open(path, "w") as file:
            json.dump(config, file)


class Podman(Peer):
    id, title = "podman", "podman run"
    every = 4

    def __init__(self, place):
        super().__init__(place)
        program = find("podman")
        self.version = version(program, "--version")
        self.namespace = place.namespace().path
        at = os.path.join(place.dir, "podman-")
        self.command = [program, "--root", at + "root", "--runroot", at + "run",
                        "--tmpdir", at + "tmp", "--cgroup-manager=cgroupfs",
                        "--events-backend=none"]
        subprocess.run(place.namespace().enter(self.command + ["import", place.image(), "bench"]),
                       check=True, capture_output=True)

    def argv(self, work):
        # Its own default for the limits is more than some machines let even root have.
        return self.command + ["run", "--rm", "--network", "none", "--cgroup-parent", "/" + CGROUP,
                               "--cgroups=no-conmon", "--ulimit", "nofile=1024:1024",
                               "--ulimit", "nproc=1024:1024", "-v", "/usr:/usr:ro",
                               "--tmpfs", "/tmp", "--tmpfs", "/workspace", "-w", "/workspace",
                               "bench"] + work.argv


class Docker(Peer):
    id, title = "docker", "docker run"
    every = 5

    def __init__(self, place):
        super().__init__(place)
        if os.geteuid():
            raise Unavailable("a daemon of its own needs root")
        program, daemon = find("docker"), find("dockerd")
        at = os.path.join(place.dir, "docker-")
        socket = at + "socket"
        self.version = version(daemon, "--version")
        self.command = [program, "-H", "unix://" + socket]
        self.log = open(at + "log", "w+")
        self.daemon = subprocess.Popen(
            place.namespace().enter(
                [daemon, "--data-root", at + "data", "--exec-root", at + "exec",
                 "-H", "unix://" + socket, "--pidfile", at + "pid", "--iptables=false",
                 "--ip6tables=false", "--bridge=none", "--cgroup-parent", "/" + CGROUP]),
            stdout=self.log, stderr=self.log, preexec_fn=die_with_parent)
        self._wait_until_it_answers()
        subprocess.run(self.command + ["import", place.image(), "bench"], check=True,
                       capture_output=True)

    def _wait_until_it_answers(self):
        until = time.monotonic() + 30
        while self.daemon.poll() is None and time.monotonic() < until:
            if subprocess.run(self.command + ["version"], capture_output=True).returncode == 0:
                return
            time.sleep(0.2)
        end(self.daemon)
        self.log.seek(0)
        last = self.log.read().strip().splitlines()[-1:]
        raise Unavailable("its daemon did not start: " + "".join(last))

    def argv(self, work):
        return self.command + ["run", "--rm", "--network", "none", "-v", "/usr:/usr:ro",
                               "--tmpfs", "/tmp", "--tmpfs", "/workspace", "-w", "/workspace",
                               "bench"] + work.argv

    def end(self):
        end(self.daemon)
        self.log.close()


ALL = [Bubblewrap, Firejail, Crun, Podman, Docker]
