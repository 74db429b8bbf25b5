"""hotcell serve: settings on the command line. What they mean is tested with the service."""
import re
import shutil

import harness
import pytest


def settings(text):
    return dict(re.findall(r"^(\w+): (.*)$", text, re.M))


def test_what_print_config_prints_can_be_loaded(hotcell, tmp_path):
    first = hotcell("serve", "--print-config", "--port", "9", "--warm", "", "--no-auth", "--check=/a b")
    assert (first.code, first.err) == (0, "")
    file = tmp_path / "c.yaml"
    file.write_text(first.out)
    assert hotcell("serve", "--print-config", "--config", file).out == first.out
    assert settings(first.out)["port"] == "9"
    assert settings(first.out)["no_auth"] == "yes"
    assert settings(first.out)["check"] == '"/a b"'


def test_sources_in_their_order(hotcell, tmp_path):
    file = tmp_path / "c.yaml"
    file.write_text("port: 1\n")
    env = dict(hotcell.env, HOTCELL_CONFIG=str(file))

    def port(*flags, **variables):
        return settings(hotcell("serve", "--print-config", *flags, env={**env, **variables}).out)["port"]

    assert port() == "1"
    assert port(PORT="2") == "2"
    assert port(PORT="2", HOTCELL_PORT="3") == "3"
    assert port("--port=4", PORT="2", HOTCELL_PORT="3") == "4"


@pytest.mark.parametrize("args, said", [
    (["--port", "0"], "--port: port = '0': want a number from 1 to 65535 (TCP port of the HTTP API)"),
    (["--prot", "1"], "unknown option '--prot'; did you mean --port?"),
    (["--frob"], "unknown option '--frob'; 'hotcell serve --help' lists them"),
    (["--port"], "option '--port' requires an argument (TCP port of the HTTP API)"),
    (["what"], "unexpected 'what': settings are given as --name value"),
    (["--config", "/nowhere"], "open '/nowhere': No such file or directory"),
    (["--print-conf"], "unknown option '--print-conf'; did you mean --print-config?"),
])
def test_what_is_wrong_is_told(hotcell, args, said):
    result = hotcell("serve", *args)
    assert (result.code, result.out, result.err) == (125, "", f"hotcell: {said}\n")


def test_a_value_that_looks_like_an_option_is_a_value(hotcell):
    out = hotcell("serve", "--print-config", "--user", "--help").out
    assert settings(out)["user"] == '"--help"'


@pytest.mark.needs_root("becomes another user")
@pytest.mark.parametrize("user", ["root", "no-such-user"])
def test_a_user_that_only_root_could_become_is_told(nobody, public, user):
    daemon = nobody.program.with_name("hotcell-daemon")
    if not daemon.exists():
        shutil.copy(harness.HOTCELL.with_name("hotcell-daemon"), daemon)
        daemon.chmod(0o755)
    (public / "nobody-state").mkdir(exist_ok=True)
    shutil.chown(public / "nobody-state", "nobody")
    result = nobody("serve", "--user", user, "--host=", "--socket=none", "--state-dir", public / "nobody-state")
    assert f"serve.user_in_vain user={user} " in result.err and "only root" in result.err
    own = nobody("serve", "--user", "65534", "--host=", "--socket=none", "--state-dir", public / "nobody-state")
    assert "user_in_vain" not in own.err and "serve.failed" in own.err


def test_a_full_disk_is_told(hotcell):
    with open("/dev/full", "w") as full:
        result = hotcell("serve", "--print-config", stdout=full)
    assert result.code == 125 and "No space left" in result.err
