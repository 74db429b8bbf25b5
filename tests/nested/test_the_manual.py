"""docs/CONTAINERS.md tells people what to type. It is typed here."""
import re
import shlex

import pytest

from engines import ROOT


def commands(program):
    """The commands in the manual's code blocks that begin with `program run`."""
    text = (ROOT / "docs" / "CONTAINERS.md").read_text()
    for block in re.findall(r"^```\n(.*?)^```", text, re.M | re.S):
        for line in block.replace("\\\n", " ").splitlines():
            if line.startswith(f"{program} run "):
                yield shlex.split(line)[2:]


def try_out(engine, words):
    assert "IMAGE" in words, words
    at = words.index("IMAGE")
    result = engine.run(words[:at], *words[at + 1:])
    assert (result.code, result.out, result.err) == (0, "42\n", ""), (words, result)


def test_the_manual_has_commands():
    assert len(list(commands("docker"))) == 2
    assert len(list(commands("podman"))) == 2


@pytest.mark.parametrize("number", [0, 1])
def test_what_it_says_of_docker_works(docker, number):
    try_out(docker, list(commands("docker"))[number])


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("which", ["podman", "rootless"])
def test_what_it_says_of_podman_works(request, which, number):
    try_out(request.getfixturevalue(which), list(commands("podman"))[number])
