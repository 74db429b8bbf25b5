"""Containers as engines start them when they are told nothing: their walls keep hotcell from building
its own. Then it has to say so, and to say what would help."""
import json
import shlex

from engines import USER


def container_cell(doctor):
    """doctor's last word on container isolation."""
    return next(row for row in json.loads(doctor.out)["checks"] if row["name"] == "container cell")


def flags_in(fix):
    """`start the container with: --a b --c (more)` -> the flags."""
    _, found, flags = fix.partition("start the container with: ")
    assert found, f"doctor names no flags: {fix!r}"
    return shlex.split(flags.partition(" (")[0])


def test_a_run_fails_in_words_and_points_to_doctor(engine, who):
    result = engine.run(USER[who], "hotcell", "run", "-l", "python", "-c", "print(1)")
    assert result.code == 125
    assert result.out == ""
    assert len(result.err.strip().splitlines()) == 1, result
    assert "hotcell doctor" in result.err, result


def test_no_language_is_called_missing_that_is_there(rootful, who):
    """It could not be tried: that is not the same."""
    for command in ("hotcell run -l sh -c true", "hotcell languages"):
        result = rootful.run(USER[who], *command.split())
        assert result.code == 125 and "hotcell doctor" in result.err, result
        assert "not installed" not in result.out + result.err, result


def test_doctor_names_flags_that_are_enough(engine, who):
    ordinary = engine.run(USER[who], "hotcell", "doctor", "--json")
    assert ordinary.code == 1, ordinary
    cell = container_cell(ordinary)
    assert cell["state"] == "missing", cell
    flags = flags_in(cell["fix"])
    helped = engine.run([*USER[who], *flags], "hotcell", "doctor", "--json")
    assert container_cell(helped)["state"] == "fine", helped


def test_doctor_does_not_praise_what_the_container_forbids(docker, who):
    result = docker.run(USER[who], "hotcell", "doctor", "--json")
    rows = {row["name"]: row for row in json.loads(result.out)["checks"]}
    assert rows["user namespaces"]["state"] == "missing", rows["user namespaces"]


def test_a_process_cell_runs(engine, who):
    result = engine.run(USER[who], "hotcell", "run", "--isolation", "process", "-l", "python",
                        "-c", "import os; print(os.getuid() != 0)")
    assert (result.code, result.out) == (0, "True\n"), result


def test_auto_never_means_no_isolation(rootful):
    """Where container isolation cannot be had, `auto` fails: it does not take a thinner wall."""
    result = rootful.run([], "hotcell", "run", "--isolation", "auto", "-l", "python",
                         "-c", "print(1)")
    assert (result.code, result.out) == (125, ""), result
