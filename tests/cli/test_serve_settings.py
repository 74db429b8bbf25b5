"""hotcell serve: settings on the command line. What they mean is tested with the service."""
import re

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


def test_a_full_disk_is_told(hotcell):
    with open("/dev/full", "w") as full:
        result = hotcell("serve", "--print-config", stdout=full)
    assert result.code == 125 and "No space left" in result.err
