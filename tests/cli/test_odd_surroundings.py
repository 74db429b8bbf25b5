"""hotcell where others would stumble: no home, no descriptors, no directory, no rights."""
import ctypes
import os
import resource
import signal
import socket
import subprocess

import harness
import pytest

HELLO = ("run", "-l", "python", "-c", "print(6 * 7)")


def works(result):
    assert (result.out, result.err, result.code) == ("42\n", "", 0)


# ---- homes ----


@pytest.mark.parametrize("home", [None, "", "relative", "/nonexistent", "/dev/null", "/proc"])
def test_a_home_that_is_missing_or_cannot_be_written(anyone, isolation, home):
    env = {name: value for name, value in anyone.env.items() if name != "HOME"}
    if home is not None:
        env["HOME"] = home
    works(anyone(*HELLO, "-q", "--isolation", isolation, env=env))
    works(anyone(*HELLO, "-q", "--last-line", "--isolation", isolation, env=env))
    assert not os.path.exists("/nonexistent")


@pytest.mark.needs_root("somebody else's home can be made by root only")
def test_the_home_of_somebody_else(nobody, public):
    """What su and sudo -u leave in the environment."""
    home = public / "of-root"
    (home / ".config/hotcell/languages").mkdir(parents=True)
    (home / ".cache").mkdir()
    home.chmod(0o700)
    works(nobody(*HELLO, env=dict(nobody.env, HOME=str(home))))


def test_a_home_whose_cache_is_a_file(hotcell, tmp_path):
    (tmp_path / ".cache").write_text("in the way")
    works(hotcell(*HELLO, env=dict(hotcell.env, HOME=str(tmp_path))))
    assert hotcell("languages", env=dict(hotcell.env, HOME=str(tmp_path))).code == 0


# ---- environments ----


def test_no_environment_at_all(anyone, isolation):
    works(anyone(*HELLO, "-q", "--isolation", isolation, env={}))


def test_an_empty_path(anyone):
    works(anyone(*HELLO, env=dict(anyone.env, PATH="")))


def test_a_path_with_programs_of_the_same_names_is_not_used(anyone, public):
    trap = public / f"trap-{harness.token()}"
    trap.mkdir()
    for name in ("python3", "sh", "hotcell-warden", "env"):
        (trap / name).write_text("#!/bin/sh\necho trapped\n")
        (trap / name).chmod(0o755)
    works(anyone(*HELLO, env=dict(anyone.env, PATH=f"{trap}:/usr/bin:/bin"), cwd=trap))


@pytest.mark.parametrize("locale", ["C", "de_DE.UTF-8", "tr_TR.UTF-8", "nonsense"])
def test_any_locale(hotcell, locale):
    env = dict(hotcell.env, LANG=locale, LC_ALL=locale)
    result = hotcell.run("-l", "PYTHON", "-c", "print('ü', 0.5)", "--timeout", "2.5s", env=env)
    assert (result.raw_out, result.err) == ("ü 0.5\n".encode(), "")


def test_posixly_correct_options_come_first(hotcell, tmp_path):
    (tmp_path / "x.py").write_text("print(6 * 7)")
    works(hotcell("run", "-q", tmp_path / "x.py", env=dict(hotcell.env, POSIXLY_CORRECT="1")))


def test_loader_settings_do_not_reach_the_warden_or_the_cell(anyone, public):
    library = public / f"preload-{harness.token()}.so"
    source = library.with_suffix(".c")
    source.write_text('#include <unistd.h>\n__attribute__((constructor)) static void at_start(void)'
                      ' { if (getpid() != getpgrp()) return; write(2, "loaded\\n", 7); }')
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source], check=True)
    env = dict(anyone.env, LD_PRELOAD=str(library), ASAN_OPTIONS="verify_asan_link_order=0")
    result = anyone(*HELLO, env=env, start_new_session=True)
    assert result.err in ("", "loaded\n"), "at most hotcell itself"
    assert result.out == "42\n"


# ---- descriptors ----


CLOSED = [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)]


@pytest.mark.parametrize("closed", CLOSED, ids=["+".join(map(str, one)) for one in CLOSED])
def test_closed_standard_descriptors(anyone, isolation, public, closed):
    """Whatever of hotcell's own got the free numbers must not be mistaken for them."""
    out = public / f"out-{harness.token()}"
    out.mkdir()
    out.chmod(0o777)
    close = " ".join(f"{number}>&-" for number in closed)
    result = anyone("run", "-q", "-l", "sh", "--isolation", isolation, "-o", out, "-c",
                    "cat; echo out; echo err >&2; echo done >file; exit 7", "--stdin", "-",
                    wrapper=["sh", "-c", f'exec "$0" "$@" {close}'])
    assert (out / "file").read_text() == "done\n"
    if 1 not in closed:
        assert (result.out, result.code) == ("out\n", 7)
    if 2 not in closed:
        assert "err\n" in result.err


@pytest.mark.parametrize("command", [["doctor"], ["languages"], ["run", "--help"], ["--version"], []])
def test_other_commands_with_everything_closed(hotcell, command):
    result = hotcell(*command, wrapper=["sh", "-c", 'exec "$0" "$@" 0<&- 1>&- 2>&-'])
    assert result.code in (0, 1, 125)


def test_standard_descriptors_that_are_directories(hotcell, tmp_path):
    directory = os.open(tmp_path, os.O_RDONLY)
    works(hotcell(*HELLO, stdin=directory))
    result = hotcell("run", "-l", "sh", "--stdin", "-", "-c", "cat; echo ran", stdin=directory)
    os.close(directory)
    assert result.code == 125
    assert "irectory" in result.err


def test_standard_descriptors_that_are_sockets(anyone):
    """As node and other programs hand them over."""
    mine, its = socket.socketpair()
    process = anyone.start("run", "-l", "sh", "--stdin", "-", "-c", "cat", stdin=its, stdout=its)
    its.close()
    mine.sendall(b"through a socket\n")
    mine.shutdown(socket.SHUT_WR)
    received = b""
    while part := mine.recv(1000):
        received += part
    assert received == b"through a socket\n"
    assert process.wait(harness.PATIENCE_S) == 0
    mine.close()


def test_a_thousand_inherited_descriptors(anyone, isolation):
    files = [open("/dev/null") for _ in range(1000)]
    for file in files:
        os.set_inheritable(file.fileno(), True)
    works(anyone(*HELLO, "-q", "--isolation", isolation, close_fds=False))


def test_few_descriptors_are_enough(anyone):
    def few():
        resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32))

    works(anyone(*HELLO, preexec_fn=few))


def test_no_descriptors_to_be_had_is_told(hotcell):
    def none():
        resource.setrlimit(resource.RLIMIT_NOFILE, (5, 5))

    result = hotcell(*HELLO, preexec_fn=none)
    assert (result.out, result.code) == ("", 125)
    assert "Too many open files" in result.err


# ---- directories ----


def test_a_directory_that_does_not_exist_any_more(anyone, isolation, public):
    gone = public / harness.token() / "gone"
    gone.mkdir(parents=True)
    # Removed by whoever may; the shell that does it then hands over to hotcell, in there.
    gone.parent.chmod(0o777)
    works(anyone(*HELLO, "-q", "--isolation", isolation, cwd=gone,
                 wrapper=["sh", "-c", f'rmdir {gone} && exec "$0" "$@"']))
    assert not gone.exists()


@pytest.mark.needs_root("a directory that one may not read is one's own otherwise")
def test_a_directory_that_may_not_be_read(nobody, tmp_path):
    secret = tmp_path / "secret"
    secret.mkdir(mode=0o700)
    process = subprocess.run(
        ["sh", "-c", 'cd "$0" && exec setpriv --reuid 65534 --regid 65534 --clear-groups "$@"', secret,
         *nobody.command(*HELLO)], capture_output=True, env=nobody.env)
    assert (process.stdout, process.stderr) == (b"42\n", b"")


@pytest.mark.parametrize("mask", [0o000, 0o077, 0o777])
def test_any_umask(anyone, hotcell, isolation, public, mask):
    out = public / f"out-{harness.token()}"
    out.mkdir()
    out.chmod(0o777)
    result = anyone("run", "-q", "-l", "c", "--isolation", isolation, "-o", out / "sub", "-c",
                    '#include <stdio.h>\nint main(void) { fputs("x", fopen("f", "w")); return 42; }',
                    umask=mask)
    if mask == 0o777 and not (harness.IS_ROOT and anyone is hotcell):
        assert result.code == 125, "the directory for the files cannot be entered by its maker"
    else:
        assert (result.code, result.err) == (42, "")
        assert (out / "sub/f").exists()


# ---- signals ----


def test_sigchld_ignored_by_the_parent(anyone, isolation):
    works(anyone(*HELLO, "-q", "--isolation", isolation,
                 preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN)))


def test_all_signals_blocked_by_the_parent(anyone, isolation):
    """The program in the cell has none blocked all the same."""
    result = anyone("run", "-q", "-l", "perl", "--isolation", isolation, "-c", """
open(my $status, '<', '/proc/self/status'); print grep { /SigBlk/ } <$status>;
$| = 1; print ''; kill 'TERM', $$; sleep 60;
""",
                    preexec_fn=lambda: signal.pthread_sigmask(
                        signal.SIG_BLOCK, set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}))
    assert result.out == "SigBlk:\t0000000000000000\n"
    assert result.code == 128 + signal.SIGTERM


SYS_RT_SIGACTION = {"x86_64": 13, "aarch64": 134}[os.uname().machine]


def test_ignored_signals_are_not_inherited_by_the_program(anyone, isolation):
    def ignore():
        for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGPIPE, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        # The first of the two that glibc keeps to itself; some CI systems start programs so.
        ignored = (ctypes.c_uint64 * 4)(1)
        assert ctypes.CDLL(None).syscall(SYS_RT_SIGACTION, 32, ignored, None, 8) == 0

    result = anyone("run", "-q", "-l", "sh", "--isolation", isolation, "-c",
                    "while read name set; do case $name in SigIgn:) echo $set; esac; done </proc/$$/status",
                    preexec_fn=ignore, restore_signals=False)
    assert result.out == "0000000000000000\n"


# ---- arguments ----


def test_a_megabyte_of_arguments_is_told(anyone):
    result = anyone("run", "-l", "sh", "-c", "echo ran", *["--arg=" + "x" * 100_000] * 11)
    assert (result.out, result.code) == ("", 125)
    assert "arguments" in result.err and len(result.err) < 1000


def test_a_long_argument(hotcell):
    argument = "x" * 60_000
    result = hotcell("run", "-l", "python", "-c", "import sys; print(len(sys.argv[1]))", "--arg", argument)
    assert (result.out, result.err, result.code) == ("60000\n", "", 0)


def test_a_megabyte_of_code(anyone):
    result = anyone("run", "-l", "python", "-", input=b"#" + b"x" * (1 << 20) + b"\nprint(6 * 7)")
    works(result)


def test_a_program_name_that_is_anything(hotcell):
    for name in ("", "-", "x" * 4000):
        process = subprocess.run([name, *HELLO], executable=hotcell.program, env=hotcell.env,
                                 capture_output=True)
        assert process.stdout == b"42\n"


def test_no_arguments_at_all(hotcell):
    """execve() with an empty argv; newer kernels put an empty word there."""
    code = ("import ctypes, os; libc = ctypes.CDLL(None); "
            f"libc.execve({os.fsencode(hotcell.program)!r}, (ctypes.c_char_p * 1)(None), "
            "(ctypes.c_char_p * 1)(None))")
    process = subprocess.run(["/usr/bin/python3", "-c", code], capture_output=True)
    assert process.returncode == 125


# ---- rights ----


@pytest.mark.parametrize("flags", [["-r"], ["-rm"], ["-rn"], ["-rpf", "--mount-proc"], ["-riu"]],
                         ids=lambda flags: flags[0])
def test_inside_a_user_namespace(anyone, flags):
    works(anyone(*HELLO, wrapper=["unshare", *flags]))


def test_inside_a_user_namespace_that_keeps_the_user(anyone):
    works(anyone(*HELLO, wrapper=["unshare", "-c"]))


def test_inside_a_user_namespace_without_a_map_it_is_told(anyone):
    result = anyone(*HELLO, wrapper=["unshare", "-U"])
    assert (result.out, result.code) == ("", 125)
    assert "user namespace" in result.err


def test_inside_a_user_namespace_a_process_cell_is_not_root(anyone):
    """Root in there is an ordinary user outside; but it is not ours to decide that this is fine."""
    result = anyone("run", "-q", "--isolation", "process", "-l", "sh", "-c", "id -u",
                    wrapper=["unshare", "-r"])
    if result.code == 0:
        assert result.out.strip() != "0"
    else:
        assert (result.out, result.code) == ("", 125)
        assert "root" in result.err


@pytest.mark.needs_root("pid namespaces without a user namespace")
def test_inside_a_pid_namespace(hotcell, isolation):
    works(hotcell(*HELLO, "-q", "--isolation", isolation, wrapper=["unshare", "-pf", "--mount-proc"]))


@pytest.mark.needs_root("only root has capabilities to drop")
def test_root_without_capabilities(hotcell):
    """What a hardened service manager leaves of root."""
    result = hotcell(*HELLO, wrapper=["setpriv", "--inh-caps=-all", "--bounding-set=-all"])
    if result.code == 0:
        assert result.out == "42\n"
    else:
        assert (result.out, result.code) == ("", 125)
        assert result.err.startswith("hotcell: ") and len(result.err) > 30


@pytest.mark.needs_root("setpriv of another user")
def test_no_new_privileges_is_fine(hotcell, nobody):
    for one in (hotcell, nobody):
        works(one(*HELLO, wrapper=["setpriv", "--no-new-privs"]))


def test_a_hotcell_in_a_hotcell_is_told_why_it_cannot(hotcell):
    """No new user namespaces inside."""
    build = harness.ROOT / "build"  # not a sanitized one: that needs calls that a cell does not allow
    files = ("-f", build / "hotcell", "-f", build / "hotcell-warden", "-f", harness.ROOT / "languages")
    result = hotcell("run", "-l", "sh", *files, "-c",
                     "mkdir -p share/hotcell bin; mv languages share/hotcell; mv hotcell* bin;"
                     " bin/hotcell run -l sh -c 'echo inner'; echo $?")
    assert result.out == "125\n"
    assert "namespace" in result.err


def test_low_limits_of_the_caller_are_kept(anyone, isolation):
    """They are not raised for the cell, and hotcell lives within them."""
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (20, 20))

    result = anyone("run", "-q", "-l", "sh", "--isolation", isolation, "-c", "ulimit -f; ulimit -t",
                    preexec_fn=limit)
    assert result.out.split()[0] == "2048"
    assert int(result.out.split()[1]) <= 21


def test_a_lowered_priority_is_kept(anyone):
    result = anyone("run", "-l", "sh", "-c", "nice", preexec_fn=lambda: os.nice(7))
    assert result.out == "7\n"
