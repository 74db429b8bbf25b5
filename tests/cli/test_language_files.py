"""Language files: where they are looked for, what is wrong with them, and how programs are probed."""
import json
import os
import shutil
import stat
import subprocess

import harness
import pytest

GREETING = """
id: {id}
name: {name}
aliases: [{id}-alias]
file: main.greet
endings: [.greet]
shebangs: [greet]
find: [{{ program: /bin/sh }}]
version: ["{{program}}", -c, "echo {version}"]
run: ["{{program}}", -c, "echo {says}; cat $0", "{{file}}"]
"""


def greeting(**more):
    return GREETING.format(**{"id": "greet", "name": "Greet", "version": "1.0", "says": "hi", **more})


@pytest.fixture
def directory(public):
    path = public / harness.token()
    path.mkdir()
    return path


@pytest.fixture
def own(public):
    """A hotcell with a home of its own, and the directory for language files in it."""
    home = public / f"home-{harness.token()}"
    home.mkdir()
    own = harness.Hotcell(harness.HOTCELL, home)
    own.languages_dir = own.home / ".config/hotcell/languages"
    own.languages_dir.mkdir(parents=True)
    return own


def ids(hotcell, *args, **options):
    result = hotcell("languages", "--json", *args, **options)
    assert result.code == 0, result
    return {row["id"]: row for row in json.loads(result.out)}


# ---- where ----


def test_a_file_in_the_home_adds_a_language(own):
    (own.languages_dir / "greet.yaml").write_text(greeting())
    assert own.run("-l", "greet", "-c", "code").out == "hi\ncode"
    assert own.run("-l", "Greet-Alias", "-c", "code").out == "hi\ncode"
    assert ids(own)["greet"]["version"] == "1.0"
    assert "python" in ids(own)


def test_xdg_config_home_comes_before_home(own, tmp_path):
    (own.languages_dir / "greet.yaml").write_text(greeting(says="home"))
    other = tmp_path / "xdg/hotcell/languages"
    other.mkdir(parents=True)
    (other / "greet.yaml").write_text(greeting(says="xdg"))
    env = dict(own.env, XDG_CONFIG_HOME=str(tmp_path / "xdg"))
    assert own.run("-l", "greet", "-c", "", env=env).out == "xdg\n"


def test_a_relative_xdg_config_home_is_ignored(own, tmp_path):
    (own.languages_dir / "greet.yaml").write_text(greeting(says="home"))
    env = dict(own.env, XDG_CONFIG_HOME="xdg")
    assert own.run("-l", "greet", "-c", "", env=env, cwd=tmp_path).out == "home\n"


def test_a_directory_given_adds_languages(anyone, directory):
    (directory / "greet.yml").write_text(greeting())
    assert anyone.run("--languages", directory, "-l", "greet", "-c", "code").out == "hi\ncode"
    assert "greet" in ids(anyone, "--languages", directory)
    assert "greet" not in ids(anyone)


def test_a_relative_directory_is_fine(hotcell, directory):
    (directory / "greet.yaml").write_text(greeting())
    assert hotcell.run("--languages", directory.name, "-l", "greet", "-c", "",
                       cwd=directory.parent).out == "hi\n"


def test_later_directories_override_earlier_ones(own, directory, tmp_path):
    (own.languages_dir / "greet.yaml").write_text(greeting(says="home"))
    (directory / "greet.yaml").write_text(greeting(says="first"))
    second = tmp_path / "second"
    second.mkdir()
    (second / "other-name.yaml").write_text(greeting(says="second"))
    first, last = ("--languages", directory), ("--languages", second)
    assert own.run("-l", "greet", "-c", "").out == "home\n"
    assert own.run(*first, "-l", "greet", "-c", "").out == "first\n"
    assert own.run(*first, *last, "-l", "greet", "-c", "").out == "second\n"
    assert own.run(*last, *first, "-l", "greet", "-c", "").out == "first\n"


def test_a_shipped_language_is_overridden_as_a_whole(own):
    (own.languages_dir / "python.yaml").write_text(greeting(id="python", says="not python"))
    assert own.run("-l", "python", "-c", "print(1)").out == "not python\nprint(1)"
    result = own.run("-l", "py", "-c", "print(1)")
    assert result.code == 125, "its aliases went with it"


def test_endings_and_first_lines_of_own_languages_are_guessed(own, tmp_path):
    (own.languages_dir / "greet.yaml").write_text(greeting())
    (tmp_path / "x.greet").write_text("file")
    assert own.run(tmp_path / "x.greet").out == "hi\nfile"
    assert own.run("-", input=b"#!/usr/bin/env greet\n").out == "hi\n#!/usr/bin/env greet\n"


def test_an_ending_goes_to_the_later_directory(own, tmp_path):
    (own.languages_dir / "greet.yaml").write_text(greeting().replace(".greet", ".py"))
    (tmp_path / "x.py").write_text("print(1)")
    assert own.json(tmp_path / "x.py")["language"] == "greet"


def test_files_of_other_kinds_are_left_alone(own):
    for name in ("greet.yaml~", ".greet.yaml", "README", "greet.yaml.bak"):
        (own.languages_dir / name).write_text("{ this is: not, a: language")
    result = own("languages")
    assert (result.code, result.err) == (0, "")


def test_a_directory_that_is_not_there_is_told_if_it_was_asked_for(hotcell):
    for command in (["run", "-l", "sh", "-c", ""], ["languages"]):
        result = hotcell(*command, "--languages", "/nonexistent")
        assert result.code == 125
        assert "/nonexistent" in result.err


def test_without_a_home_there_are_the_shipped_ones(hotcell):
    env = {name: value for name, value in hotcell.env.items() if name != "HOME"}
    assert len(ids(hotcell, env=env)) >= 17


# ---- wrong files ----

WRONG = [
    ("endigns: [.x]", "endigns: unknown key; did you mean endings?"),
    ("frobnicate: 1", "frobnicate"),
    ("aliases: x", "aliases: want a list"),
    ("memory_mb: lots", "memory_mb"),
    ("env: [NOVALUE]", "env"),
    ("endings: [py]", "endings: 'py': want a dot"),
    ("compile_limits: { timeout: 5 }", "timeout"),
    ("driver: [a]", "driver"),
    ("id: greet", "id"),
]


@pytest.mark.parametrize("line, said", WRONG, ids=[line for line, _ in WRONG])
def test_a_wrong_line_is_told_with_file_key_and_line_and_the_others_load(own, line, said):
    text = greeting().lstrip()
    text = "\n".join(old for old in text.splitlines() if old.split(":")[0] != line.split(":")[0]
                     or line == "id: greet")
    (own.languages_dir / "wrong.yaml").write_text(f"{text}\n{line}\n")
    (own.languages_dir / "right.yaml").write_text(greeting(id="right"))
    number = len(text.splitlines()) + 1
    result = own("languages")
    assert f"{own.languages_dir}/wrong.yaml:{number}: " in result.err
    assert said in result.err
    assert result.code == 0
    assert own.run("-q", "-l", "right", "-c", "").out == "hi\n"
    assert "right" in ids(own) and "python" in ids(own) and "greet" not in ids(own)


@pytest.mark.parametrize("key", ["id", "name", "file", "find", "version", "run"])
def test_a_missing_key_is_named(own, key):
    text = "\n".join(line for line in greeting().splitlines() if not line.startswith(key + ":"))
    (own.languages_dir / "wrong.yaml").write_text(text)
    result = own("languages")
    assert f"wrong.yaml:" in result.err and f"{key}: is missing" in result.err
    assert result.code == 0


@pytest.mark.parametrize("text", [
    b"", b"\0", b"\xff\xfe", b"- a\n- b\n", b"just text", b"id: [", b"id: x\nid: y\n", b"{}", b"%!",
    b"a: &a [*a]\n", b"x" * 70000, b"\t\tid: x", b"id: x\n---\nid: y\n"],
    ids=["empty", "nul", "not utf-8", "list", "text", "broken", "twice", "no keys", "directive", "anchor",
         "too large", "tabs", "two documents"])
def test_whatever_a_file_holds_it_is_told_and_the_others_load(own, text):
    (own.languages_dir / "wrong.yaml").write_bytes(text)
    result = own.run("-l", "python", "-c", "print(6 * 7)")
    assert (result.out, result.code) == ("42\n", 0)
    assert "wrong.yaml" in own("languages").err


def test_a_wrong_file_is_told_when_its_language_is_asked_for(own):
    (own.languages_dir / "greet.yaml").write_text(greeting() + "\nfrobnicate: 1\n")
    result = own.run("-l", "greet", "-c", "")
    assert result.code == 125
    assert "greet.yaml" in result.err and "frobnicate" in result.err


def test_a_wrong_override_does_not_take_the_shipped_language_away(own):
    (own.languages_dir / "python.yaml").write_text("id: python\nname: [\n")
    result = own.run("-l", "python", "-c", "print(6 * 7)")
    assert result.out == "42\n"
    assert "python.yaml" in result.err


def test_a_file_that_may_not_be_read_is_told(own):
    (own.languages_dir / "greet.yaml").symlink_to("/nonexistent/file")
    result = own("languages")
    assert "greet.yaml" in result.err
    assert result.code == 0


# ---- the commands ----


def test_words_in_braces_are_replaced(own):
    (own.languages_dir / "show.yaml").write_text(r"""
id: show
name: Show
file: main.txt
find: [{ program: /usr/bin/printf }]
version: ["{program}", "1"]
run:
  ["{program}", '%s\n', "{program}", "{file}", "{workspace}", "{memory_mb}", "<{args}>", "{args}",
   "{other}", "a{file}b"]
""")
    result = own.run("-l", "show", "-c", "x", "--arg", "1", "--arg", "2 3", "--memory", "100M")
    assert result.out.splitlines()[:4] == ["/usr/bin/printf", "main.txt", "/workspace", "100"]
    assert result.out.splitlines()[-4:] == ["1", "2 3", "{other}", "amain.txtb"]


def test_a_language_has_its_own_environment_and_the_caller_wins(own):
    (own.languages_dir / "env.yaml").write_text("""
id: envy
name: Envy
file: main.txt
find: [{ program: /usr/bin/env }]
version: ["{program}"]
run: ["{program}"]
env: [COLOUR=red, SHAPE=round, HOME=/workspace]
""")
    lines = own.run("-l", "envy", "-c", "", "--env", "COLOUR=blue").out.splitlines()
    assert "COLOUR=blue" in lines and "SHAPE=round" in lines and "HOME=/workspace" in lines


def test_a_language_may_need_more_than_the_default_limits(own):
    (own.languages_dir / "greedy.yaml").write_text("""
id: greedy
name: Greedy
file: main.sh
find: [{ program: /bin/sh }]
version: ["{program}", -c, "echo 1"]
run: ["{program}", -c, "echo {memory_mb}; ulimit -p"]
memory_mb: 700
processes: 99
""")
    assert own.run("-l", "greedy", "-c", "").out == "700\n100\n"
    assert own.run("-l", "greedy", "-c", "", "--memory", "100M", "--pids", "9").out == "100\n10\n"


def test_a_program_that_cannot_be_started_is_named(own):
    program = own.home / "not-a-program"
    program.write_bytes(b"\x7fELF but not really")
    program.chmod(0o755)
    (own.languages_dir / "bad.yaml").write_text(f"""
id: bad
name: Bad
file: main.txt
find: [{{ program: {program}, needs: [{program}] }}]
version: ["{{program}}"]
run: ["{{program}}"]
""")
    result = own.run("-l", "bad", "-c", "")
    assert result.code == 125
    assert "not-a-program" in result.err or "not installed" in result.err


def test_the_first_program_that_works_is_taken(own):
    (own.languages_dir / "choice.yaml").write_text("""
id: choice
name: Choice
file: main.txt
find:
  - program: /nonexistent/program
    version: ["{program}"]
    run: [/bin/echo, first]
  - program: /bin/false
    version: ["{program}"]
    run: [/bin/echo, second]
  - program: /bin/sh
    also: [no-such-companion]
    version: ["{program}", -c, "echo 1"]
    run: [/bin/echo, third]
  - program: /bin/sh
    version: ["{program}", -c, "echo fourth works"]
    run: [/bin/echo, fourth]
  - program: /bin/sh
    version: ["{program}", -c, "echo fifth works"]
    run: [/bin/echo, fifth]
""")
    for _ in range(2):
        assert own.run("-l", "choice", "-c", "").out == "fourth\n"
    assert ids(own)["choice"]["version"] == "fourth works"


# ---- probing ----

# What is probed runs in a cell and can leave no trace out here but its answer. So the answer is a
# random one: the same again means that nobody asked again.
PROBED = """
id: probed
name: Probed
file: main.txt
find:
  - program: {program}
    needs: [{where}]
  - program: /bin/sh
version: ["{{program}}", --version]
run: [/bin/echo, ran]
"""


class Probed:
    """A language with two candidates, the first of which has a new version each time it is asked."""

    def __init__(self, hotcell, where):
        self.hotcell = hotcell
        self.where = where
        where.mkdir()
        self.program = where / "program"
        self.write("one")
        (where / "languages").mkdir()
        (where / "languages/probed.yaml").write_text(PROBED.format(program=self.program, where=where))

    def write(self, label):
        self.program.write_text(
            f"#!/bin/sh\nread -r id </proc/sys/kernel/random/uuid\necho {label} $id\n")
        self.program.chmod(0o755)

    def version(self):
        """"label uuid", from the cache if it is there."""
        return ids(self.hotcell, "--languages", self.where / "languages")["probed"]["version"]

    def label(self):
        return (self.version() or "none").split()[0]

    def run(self):
        result = self.hotcell.run("--languages", self.where / "languages", "-l", "probed", "-c", "")
        assert (result.out, result.err, result.code) == ("ran\n", "", 0)

    def cache(self):
        (found,) = [path for path in (self.hotcell.home / ".cache/hotcell").rglob("*")
                    if path.is_file()]
        return found


@pytest.fixture
def probed(own, public):
    return Probed(own, public / harness.token())


def test_probing_is_cached(probed):
    probed.run()
    first = probed.version()
    assert first.startswith("one ")
    assert probed.version() == first
    probed.run()
    assert probed.version() == first


def test_a_program_that_changed_is_probed_again(probed):
    first = probed.version()
    probed.write("two")
    probed.run()
    second = probed.version()
    assert second.startswith("two ") and second.split()[1] != first.split()[1]
    assert probed.version() == second


def test_a_program_that_was_replaced_by_one_of_equal_size_and_time_is_probed_again(probed):
    assert probed.label() == "one"
    status = probed.program.stat()
    probed.program.unlink()
    probed.write("six")
    os.utime(probed.program, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert probed.label() == "six"


def test_a_program_that_stopped_working_is_passed_over(probed):
    assert probed.label() == "one"
    probed.program.write_text("#!/bin/sh\nexit 1\n")
    assert probed.label() != "one"


def test_without_a_cache_directory_it_is_asked_each_time(probed):
    probed.hotcell.env["HOME"] = "/proc/nonexistent"
    probed.run()
    assert probed.version() != probed.version()


def test_xdg_cache_home_is_used(probed, tmp_path):
    probed.hotcell.env["XDG_CACHE_HOME"] = str(tmp_path / "cache")
    first = probed.version()
    assert (tmp_path / "cache/hotcell").is_dir()
    assert not (probed.hotcell.home / ".cache").exists()
    assert probed.version() == first


def test_the_cache_is_the_users_alone(probed):
    probed.run()
    for path in (probed.cache(), probed.cache().parent):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0


@pytest.mark.parametrize("damage", [b"", b"garbage", b"\0" * 1000, "cut", "other version"],
                         ids=["empty", "garbage", "zeros", "cut", "other version"])
def test_a_damaged_cache_is_made_anew(probed, damage):
    first = probed.version()
    text = probed.cache().read_bytes()
    if damage == "cut":
        damage = text[:len(text) // 2]
    elif damage == "other version":
        damage = text.replace(text.splitlines()[0], b"hotcell probes 999")
    probed.cache().write_bytes(damage)
    second = probed.version()
    assert second.startswith("one ") and second != first
    assert probed.version() == second


def test_two_at_once_do_not_spoil_the_cache(probed):
    both = [probed.hotcell.start("languages", "--languages", probed.where / "languages")
            for _ in range(4)]
    for one in both:
        out, err = one.communicate(timeout=harness.PATIENCE_S)
        assert (one.returncode, err) == (0, b"")
    assert probed.version() == probed.version()


def test_a_run_with_one_candidate_asks_nothing(probed):
    """With nothing to choose there is nothing to ask: the version program would hang here."""
    (probed.where / "languages/probed.yaml").write_text(
        PROBED.format(program=probed.program, where=probed.where).replace("  - program: /bin/sh\n", ""))
    probed.program.write_text("#!/bin/sh\nsleep 1000\n")
    probed.run()


def test_what_is_probed_runs_in_a_cell(own, public):
    where = public / harness.token()
    where.mkdir(mode=0o777)
    where.chmod(0o777)
    program = where / "program"
    program.write_text(f"#!/bin/sh\necho x >{where}/escaped 2>/dev/null\necho $(uname -n) $(id -u)\n")
    program.chmod(0o755)
    (own.languages_dir / "probe.yaml").write_text(f"""
id: probe
name: Probe
file: main.txt
find: [{{ program: {program}, needs: [{where}] }}]
version: ["{{program}}"]
run: ["{{program}}"]
""")
    assert ids(own)["probe"]["version"] == "cell 1000"
    assert not (where / "escaped").exists()


def test_a_version_command_that_hangs_or_floods_does_not_stop_the_others(own):
    (own.languages_dir / "flood.yaml").write_text("""
id: flood
name: Flood
file: main.txt
find: [{ program: /usr/bin/yes }]
version: ["{program}"]
run: ["{program}"]
""")
    rows = ids(own)
    assert rows["flood"]["installed"] is False
    assert rows["python"]["installed"] is True


# ---- a Python of one's own ----


@pytest.fixture(scope="session")
def venv(public):
    path = public / "venv"
    subprocess.run(["/usr/bin/python3", "-m", "venv", "--without-pip", path], check=True)
    (packages,) = path.glob("lib/python*/site-packages")
    (packages / "only_here.py").write_text("answer = 42\n")
    subprocess.run(["chmod", "-R", "a+rX", path], check=True)
    return path


VENV = """
id: data
name: Python with my packages
file: main.py
find:
  - program: {venv}/bin/python
    needs: [{venv}]
version: ["{{program}}", --version]
run: ["{{program}}", "{{file}}", "{{args}}"]
last_line: ["{{program}}", "{{drivers}}/python/last_line.py", "{{file}}", "{{args}}"]
vm: yes
"""


def test_a_virtual_environment_works_by_what_it_needs(anyone, isolation, venv, directory):
    (directory / "data.yaml").write_text(VENV.format(venv=venv))
    run = ("--languages", directory, "-q", "--isolation", isolation)
    result = anyone.run(*run, "-l", "data", "-c",
                        "import only_here, sys; print(only_here.answer, sys.prefix)")
    assert (result.out, result.err) == (f"42 {venv}\n", "")
    assert anyone.run(*run, "--last-line", "-l", "data", "-c", "6 * 7").out == "42\n"


def test_what_one_language_needs_is_not_shown_to_another(anyone, venv, directory):
    (directory / "data.yaml").write_text(VENV.format(venv=venv))
    result = anyone.run("--languages", directory, "-l", "sh", "-c", f"ls -A {venv}; ls -A {venv.parent}")
    assert "bin" not in result.out and "only" not in result.out


def test_what_is_needed_cannot_be_written(anyone, venv, directory):
    (directory / "data.yaml").write_text(VENV.format(venv=venv))
    result = anyone.run("--languages", directory, "-l", "data", "-c", f"open('{venv}/new', 'w')")
    assert "Read-only file system" in result.err or "Permission denied" in result.err
    assert not (venv / "new").exists()


def test_home_and_wildcards_in_needs(own, venv):
    (own.home / "venvs").mkdir()
    shutil.copytree(venv, own.home / "venvs/mine", symlinks=True)
    (own.languages_dir / "data.yaml").write_text(
        VENV.format(venv="~/venvs/mine").replace("[~/venvs/mine]", "['~/venvs/*', '~/no*such']"))
    result = own.run("-l", "data", "-c", "import only_here; print(only_here.answer)")
    assert (result.out, result.err) == ("42\n", "")
