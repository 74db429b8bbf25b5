"""--help, man pages, shell completions and README say what hotcell does: the options are compared,
and what README shows is run."""
import json
import re
import shlex
import subprocess

import harness
import pytest

MAN = harness.ROOT / "man"
COMPLETIONS = harness.ROOT / "packaging" / "completions"
COMMANDS = ["run", "languages", "serve", "keys", "session", "files", "top", "doctor"]


def help_options(hotcell, command):
    """{"--timeout": "TIME", "--json": None, "-q": None, ...} as --help has them."""
    found = {}
    for line in hotcell(command, "--help").out.splitlines():
        match = re.match(r"^ {2,6}(?:(-[\w?]), )?(--[a-z-]+)(?:=(\S+))?", line)
        if match:
            short, long, value = match.groups()
            found[long] = value
            if short:
                found[short] = value
    assert "--help" in found and len(found) >= 4
    return found


def man_options(command):
    """The same from the man page: lines such as `*-l*, *--language*=_LANG_`."""
    found = {}
    for line in (MAN / f"hotcell-{command}.1.scd").read_text().splitlines():
        if not line.startswith("*-"):
            continue
        value = line.split("=", 1)[1].replace("_", "").replace("*", "") if "=" in line else None
        for option in re.findall(r"\*(--?[\w?-]+)\*", line.split("=")[0]):
            found[option] = value
    return found


@pytest.mark.parametrize("command", COMMANDS)
def test_the_man_page_has_the_options_of_help(hotcell, command):
    assert man_options(command) == help_options(hotcell, command)


@pytest.mark.parametrize("command", COMMANDS)
def test_h_is_help(hotcell, command):
    asked = hotcell(command, "-h")
    assert (asked.code, asked.out) == (0, hotcell(command, "--help").out)


@pytest.mark.parametrize("command", COMMANDS)
def test_each_option_of_help_is_one(hotcell, command):
    """argp makes --help from its table, so it cannot name one that is not there; but a value must be
    wanted where one is shown, and only there."""
    for option, value in help_options(hotcell, command).items():
        if option in ("-?", "--help", "--usage"):
            continue
        # Or it would serve.
        result = hotcell(command, option, *["--print-config"] * (command == "serve" and value is None))
        assert ("requires an argument" in result.err) == (value is not None), option


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.parametrize("command", COMMANDS)
def test_completions_offer_the_options_of_help(hotcell, shell, command):
    wanted = {one for one in help_options(hotcell, command) if one.startswith("--")}
    assert offered(shell, command) - {"--version"} == wanted


def offered(shell, command):
    text = (COMPLETIONS / shell).read_text()
    if shell == "bash":
        block = re.search(rf"^\t{command}\)\n\t\toptions='([^']*)'", text, re.M)
        return {word for word in block[1].split() if word.startswith("--")}
    if shell == "zsh":
        block = (re.search(r"^_hotcell_run\(\) {\n(.*?)^}", text, re.M | re.S) if command == "run" else
                 re.search(rf"^\t{command}\)\n(.*?)^\t\t;;", text, re.M | re.S))
        return set(re.findall(r"--[a-z-]+", block[1]))
    lines = [line for line in text.splitlines() if "complete -c hotcell" in line
             and ("$run" in line and command == "run"
                  or re.search(rf"seen_subcommand_from[\w ]*\b{command}\b", line))]
    return {"--" + name for line in lines for name in re.findall(r" -l ([a-z-]+)", line)}


def test_bash_completes(hotcell):
    """The bash completion, run as bash runs it."""
    script = f"""
. {shlex.quote(str(COMPLETIONS / "bash"))}
complete_words() {{
	COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
	_hotcell 2>/dev/null
	printf '%s ' "${{COMPREPLY[@]}}"
	echo
}}
compopt() {{ :; }}
complete_words hotcell r
complete_words hotcell run --time
complete_words hotcell run --isolation c
complete_words hotcell run --isolation = p
complete_words hotcell run -l {"pyth"}
complete_words hotcell doctor --ex
complete_words hotcell serve --log-f
complete_words hotcell serve --log-format j
complete_words hotcell keys rev
complete_words hotcell session int
complete_words hotcell session new --strategy per_s
complete_words hotcell files ad
"""
    out = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, check=True,
        env={"PATH": f"{harness.HOTCELL.parent}:/usr/bin:/bin", "HOME": str(hotcell.home)}).stdout
    assert out.splitlines() == [
        "run ", "--timeout ", "container ", "process ", "python ", "--explain ", "--log-format ", "json ",
        "revoke ", "interrupt ", "per_session ", "add "]


def test_every_command_has_a_man_page_and_they_are_listed(hotcell):
    main = (MAN / "hotcell.1.scd").read_text()
    for command in COMMANDS:
        assert (MAN / f"hotcell-{command}.1.scd").exists()
        assert re.search(rf"hotcell-{command}\*?\(1\)", main), command
    listed = re.findall(r"^  (\w+) ", hotcell("--help").out, re.M)
    assert listed == COMMANDS


@pytest.mark.parametrize("page", sorted(path.name for path in MAN.glob("*.scd")))
def test_man_pages_are_well_formed(page):
    result = subprocess.run(["scdoc"], stdin=open(MAN / page), capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.count(".SH NAME") == 1


def test_the_man_page_names_every_key_of_the_json_object(hotcell):
    text = (MAN / "hotcell-run.1.scd").read_text()
    object = hotcell.json("-l", "c", "-c", "int main(void) { return 0; }")

    def keys(value):
        for key, inner in value.items():
            yield key
            if isinstance(inner, dict):
                yield from keys(inner)

    for key in [*keys(object), "path", "size_bytes", "kind"]:
        assert re.search(rf"\*{re.escape(key)}\*", text), key


def test_the_man_page_names_every_reason():
    text = (MAN / "hotcell-run.1.scd").read_text()
    for reason in ("exited", "signaled", "timeout", "cpu_limit", "memory_limit", "output_limit",
                   "disk_limit", "cancelled", "cell_failed"):
        assert f"*{reason}*" in text, reason


def test_the_man_page_names_every_exit_status():
    text = (MAN / "hotcell-run.1.scd").read_text().split("# EXIT STATUS")[1].split("\n# ")[0]
    for status in ("124", "125", "130"):
        assert f"*{status}*" in text


def test_the_man_page_has_the_defaults_of_help(hotcell):
    help = " ".join(hotcell.run("--help").out.split())
    text = " ".join((MAN / "hotcell-run.1.scd").read_text().split())
    for option in ("timeout", "cpu-time", "memory", "pids", "disk", "file-size", "open-files",
                   "output-end"):
        default = re.search(rf"--{option}=[A-Z]+ [^-]*?Default: (\w+)", help)[1]
        assert re.search(rf"\*--{option}\*=_[A-Z]+_ [^*]*?Default: {default}\b", text), option


def test_the_bounds_in_the_man_page_are_the_real_ones(hotcell):
    text = (MAN / "hotcell-run.1.scd").read_text()
    rows = re.findall(r"\*--([a-z-]+)\*=_[A-Z]+_\n\t(?:[^*]*?)From (\S+) to (\S+)\. Default", text)
    assert len(rows) >= 8
    for option, least, most in rows:
        for value in (least, most):
            result = hotcell.run("-l", "nonsense", "-c", "", f"--{option}", value)
            assert "unknown language" in result.err, (option, value, result)


def test_the_table_of_settings_is_written_down_as_it_is():
    result = subprocess.run([harness.ROOT / "tools/config-docs", "--check", harness.HOTCELL], capture_output=True, text=True)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


# ---- README ----


def examples():
    """(command, expected lines) of the console blocks in README."""
    text = (harness.ROOT / "README.md").read_text()
    for block in re.findall(r"^```console\n(.*?)^```", text, re.M | re.S):
        for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
            command, *lines = part.splitlines()
            yield command.split("  #")[0].strip(), lines


def test_readme_has_examples():
    assert len(list(examples())) >= 5


@pytest.mark.parametrize("command, lines", list(examples()), ids=[one for one, _ in examples()])
def test_what_readme_shows_is_so(hotcell, tmp_path, command, lines):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/hotcell").symlink_to(hotcell.program)
    (tmp_path / "report.py").write_text(
        "rows = open('data.csv').read().split()\nprint('total', sum(map(int, rows)))\n"
        "open('chart.txt', 'w').write('x')\n")
    (tmp_path / "data.csv").write_text("1\n2\n3\n")
    env = dict(hotcell.env, PATH=f"{tmp_path}/bin:/usr/bin:/bin")
    result = subprocess.run(["sh", "-c", command], cwd=tmp_path, env=env, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if "--json" in command:
        shown = json.loads("".join(lines))
        assert {key: type(value) for key, value in json.loads(result.stdout).items()} == {
            key: type(value) for key, value in shown.items()}
    else:
        assert result.stdout.splitlines() == lines


def test_readme_has_exactly_two_commands_for_a_new_machine():
    text = (harness.ROOT / "README.md").read_text()
    block = re.search(r"^```sh\n(.*?)^```", text, re.M | re.S)[1]
    assert [line.split("#")[0].strip() for line in block.splitlines()] == ["make run", "make test"]


def test_readme_leads_only_to_files_that_are_there():
    text = (harness.ROOT / "README.md").read_text()
    for target in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (harness.ROOT / target).exists(), target
