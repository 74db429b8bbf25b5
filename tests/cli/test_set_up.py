"""What the make targets leave, and that an installed hotcell works."""
import fcntl
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.request

import harness
import pytest

ROOT = harness.ROOT


def make(*args):
    """One at a time, whichever worker asks: meson allows no two in one build directory."""
    with open(ROOT / "build" / "test_set_up.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        result = subprocess.run(["make", "-C", ROOT, "--no-print-directory", *map(str, args)],
                                capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_make_help_lists_the_targets():
    listed = {line.split()[0] for line in make("help").splitlines()}
    assert listed >= {"run", "test", "languages", "build", "bench", "fuzz", "install", "help"}


def test_make_build_leaves_the_programs_and_does_nothing_the_second_time():
    for name in ("hotcell", "hotcell-warden", "hotcell-vmm"):
        assert os.access(ROOT / "build" / name, os.X_OK)
    before = (ROOT / "build/hotcell").stat().st_mtime_ns
    make("build")
    assert (ROOT / "build/hotcell").stat().st_mtime_ns == before


@pytest.fixture
def open_dir():
    """One that a service's own user can reach, too."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="hotcell-test-", dir="/var/tmp"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


def test_make_run_runs_a_first_snippet_and_starts_the_service(open_dir, tmp_path):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    out = tmp_path / "out"
    with open(out, "w") as file:
        process = subprocess.Popen(
            ["make", "-C", ROOT, "--no-print-directory", "run"], stdin=subprocess.DEVNULL, stdout=file,
            stderr=subprocess.STDOUT, env={**os.environ, "PORT": str(port), "STATE": str(open_dir)})
    try:
        for _ in range(1200):
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/livez", timeout=5):
                    break
            except OSError:
                assert process.poll() is None, out.read_text()
                time.sleep(0.1)
        request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/execute", b'{"code": "print(6 * 7)"}')
        with urllib.request.urlopen(request, timeout=60) as reply:
            assert json.load(reply)["stdout"] == "42\n"
    finally:
        process.terminate()
        process.wait()
    said = out.read_text()
    assert "Hello from Python" in said and "5050" in said, said
    assert f"curl -s localhost:{port}/v1/execute" in said
    assert said.index("serve.listening") < said.index("It works")


def test_make_run_on_a_port_that_is_taken_says_so_and_no_more(open_dir):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = subprocess.run(
            ["make", "-C", ROOT, "--no-print-directory", "run"], stdin=subprocess.DEVNULL, capture_output=True,
            text=True, env={**os.environ, "PORT": str(port), "STATE": str(open_dir)})
    said = done.stdout + done.stderr
    assert done.returncode != 0 and "Hello from Python" in said
    assert f"listen on 127.0.0.1 port {port}: Address already in use" in said and "--port" in said and "PORT=" in said
    assert "It works" not in said


def test_what_make_calls_is_there():
    text = (ROOT / "Makefile").read_text()
    called = set(re.findall(r"^\t@?((?:tools|bench)/[\w-]+)", text, re.M))
    assert {"tools/first-run", "tools/run-tests", "bench/run", "tools/fuzz"} <= called
    for name in called:
        assert os.access(ROOT / name, os.X_OK), name


def test_ci_calls_make_test_and_nothing_besides():
    lines = (ROOT / ".ci/run").read_text().splitlines()
    code = [line for line in lines if line.strip() and not line.lstrip().startswith("#")]
    commands = [line for line in code if not re.match(r"(set|cd) ", line)]
    assert len(commands) == 1
    assert re.fullmatch(r"(exec )?make test", commands[0])
    assert os.access(ROOT / ".ci/run", os.X_OK)


@pytest.mark.parametrize("name", [
    "README.md", "LICENSE", "CHANGELOG.md", "SECURITY.md", "docs/ARCHITECTURE.md", "docs/TOUR.md",
    "docs/LANGUAGES.md", "man/hotcell.1.scd", "packaging/completions/bash"])
def test_documents_are_there(name):
    assert (ROOT / name).stat().st_size > 500


def test_the_licence_is_mit():
    assert "MIT License" in (ROOT / "LICENSE").read_text()


def test_the_changelog_has_the_version(hotcell):
    version = hotcell("--version").out.split()[1]
    assert version in (ROOT / "CHANGELOG.md").read_text()


# ---- installing ----


def configured_prefix():
    """What build/ was made for. Another one would have all of it built anew."""
    options = json.loads(subprocess.run(["meson", "introspect", ROOT / "build", "--buildoptions"],
                                        capture_output=True, text=True, check=True).stdout)
    (prefix,) = [option["value"] for option in options if option["name"] == "prefix"]
    return prefix


class Installed:
    """An installation below DESTDIR, as a packager makes it, that is then put in its place: in
    a mount namespace that each run of it gets for itself."""

    def __init__(self, public):
        self.prefix = configured_prefix()
        self.destdir = public / "destdir"
        make("install", f"PREFIX={self.prefix}", f"DESTDIR={self.destdir}")
        self.below = self.destdir / self.prefix.lstrip("/")
        self.files = {str(path.relative_to(self.below)) for path in self.below.rglob("*")
                      if not path.is_dir()}

    def run(self, *command, user=None):
        script = 'mount --bind "$0" "$1" && shift && exec "$@"'
        unshare = ["unshare", "-m"] if harness.IS_ROOT else ["unshare", "-rm"]
        become = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"] if user else []
        return subprocess.run(
            [*unshare, "sh", "-c", script, self.below, self.prefix, *become, *command], cwd="/",
            capture_output=True, text=True, env={"PATH": "/usr/bin:/bin", "HOME": "/proc/none"})


@pytest.fixture(scope="module")
def installed(public):
    return Installed(public)


def test_install_puts_everything_below_destdir_and_prefix(installed):
    for wanted in (
            r"bin/hotcell", r"libexec/hotcell-warden", r"libexec/hotcell-vmm", r"include/hotcell.h", r"lib.*/libhotcell\.so",
            r"share/hotcell/languages/python\.yaml", r"share/hotcell/drivers/python/last_line\.py",
            r"share/hotcell/drivers/node/last_line\.js", r"share/man/man1/hotcell\.1",
            r"share/man/man1/hotcell-run\.1", r"share/bash-completion/completions/hotcell",
            r"share/zsh/site-functions/_hotcell", r"share/fish/vendor_completions\.d/hotcell\.fish"):
        assert any(re.fullmatch(wanted, file) for file in installed.files), wanted
    assert not any("test" in file or file.endswith(".a") for file in installed.files)
    everything = {path for path in installed.destdir.rglob("*") if not path.is_dir()}
    assert everything == {installed.below / file for file in installed.files}


def test_what_is_installed_knows_nothing_of_destdir_or_the_source(installed):
    for name in ("bin/hotcell", "libexec/hotcell-warden", "libexec/hotcell-vmm"):
        data = (installed.below / name).read_bytes()
        assert str(installed.destdir).encode() not in data
        assert str(ROOT).encode() + b"/languages" not in data


def test_the_prefix_may_be_chosen():
    out = make("-n", "install", "PREFIX=/opt/somewhere")
    assert "--prefix=/opt/somewhere" in out


@pytest.mark.parametrize("user", [None, harness.NOBODY] if harness.IS_ROOT else [None])
def test_an_installed_hotcell_works(installed, user):
    hotcell = f"{installed.prefix}/bin/hotcell"
    result = installed.run(hotcell, "run", "--last-line", "-l", "python", "-c", "6 * 7", user=user)
    assert (result.stdout, result.stderr, result.returncode) == ("42\n", "", 0)
    result = installed.run(hotcell, "run", "-l", "c", "-c", "int main(void) { return 42; }", user=user)
    assert (result.stdout, result.stderr, result.returncode) == ("", "", 42)


@pytest.mark.parametrize("compiler", ["gcc", "g++"])
def test_an_installed_library_works(installed, public, compiler):
    """The example of hotcell.h, as C and as C++."""
    (library,) = installed.below.glob("lib*/**/libhotcell.so")
    where = installed.prefix + "/" + str(library.parent.relative_to(installed.below))
    source = public / f"example-{compiler}.c"
    program = source.with_suffix("")
    source.write_text(r"""
#include <hotcell.h>
#include <stdio.h>

int main(void)
{
	struct hotcell *h;
	struct hotcell_error e;
	struct hotcell_result *r;
	struct hotcell_request q = { .language = "python", .code = "print(6 * 7)" };

	if (hotcell_open(NULL, &h, &e) || hotcell_run(h, &q, &r, &e)) {
		fprintf(stderr, "%s\n", e.text);
		return 1;
	}
	fwrite(r->out.data, 1, r->out.len, stdout);
	hotcell_result_free(r);
	hotcell_close(h);
	return 0;
}
""")
    language = ["-std=c99"] if compiler == "gcc" else ["-std=c++20", "-Wno-missing-field-initializers"]
    subprocess.run([compiler, "-x", "c" if compiler == "gcc" else "c++", *language, "-Wall", "-Wextra",
                    "-Werror", "-o", program, source, f"-I{installed.below}/include",
                    f"-L{library.parent}", f"-Wl,-rpath,{where}", "-lhotcell"], check=True)
    result = installed.run(program)
    assert (result.stdout, result.stderr, result.returncode) == ("42\n", "", 0)


def test_the_library_shows_only_its_own_names(installed):
    (library,) = installed.below.glob("lib*/**/libhotcell.so")
    names = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True).stdout
    symbols = [line.split()[-1].split("@")[0] for line in names.splitlines() if " T " in line]
    assert symbols and all(name.startswith("hotcell_") for name in symbols)


def test_a_copy_of_the_build_tree_works_anywhere(private):
    assert private.run("-l", "python", "-c", "print(6 * 7)").out == "42\n"


def test_a_link_to_the_program_works(hotcell, tmp_path):
    (tmp_path / "hc").symlink_to(hotcell.program)
    linked = harness.Hotcell(tmp_path / "hc", hotcell.home)
    assert linked.run("-l", "python", "--last-line", "-c", "6 * 7").out == "42\n"


def test_without_its_warden_it_says_so(hotcell, tmp_path):
    (tmp_path / "bin").mkdir()
    shutil.copy(hotcell.program, tmp_path / "bin/hotcell")
    shutil.copytree(ROOT / "languages", tmp_path / "share/hotcell/languages")
    broken = harness.Hotcell(tmp_path / "bin/hotcell", tmp_path)
    result = broken.run("-l", "sh", "-c", "echo ran")
    if result.code == 0:  # one is installed on this machine, and that is as good
        assert result.out == "ran\n"
    else:
        assert (result.out, result.code) == ("", 125)
        assert "hotcell-warden" in result.err


def test_the_warden_started_by_hand_says_who_starts_it(hotcell):
    warden = hotcell.program.with_name("hotcell-warden")
    for args in ([], ["--nonsense"], ["--isolation", "container"], ["--isolation", "x", "--socket", "0"]):
        result = subprocess.run([warden, *args], capture_output=True, text=True, stdin=subprocess.DEVNULL)
        assert result.returncode == 125
        assert "started by hotcell" in result.stderr
