"""Output for a full disk was lost, and the exit code was 0."""
import pytest


@pytest.mark.parametrize("args", [
    ["run", "-l", "sh", "-c", "echo out"], ["run", "--json", "-l", "sh", "-c", "echo out"],
    ["languages"], ["languages", "--json"], ["doctor"], ["doctor", "--json"], ["doctor", "--explain"],
    ["--help"], ["--version"]], ids=" ".join)
def test_a_full_standard_output_is_told(hotcell, args):
    with open("/dev/full", "w") as full:
        result = hotcell(*args, stdout=full)
    assert result.code == 125
    assert "output" in result.err


def test_without_output_a_full_standard_output_does_not_matter(hotcell):
    with open("/dev/full", "w") as full:
        assert hotcell("run", "-l", "sh", "-c", "exit 3", stdout=full).code == 3


def test_a_full_standard_error_does_not_matter_to_the_exit_code(hotcell):
    with open("/dev/full", "w") as full:
        result = hotcell("run", "-l", "sh", "-c", "echo out; kill -9 $$", stderr=full)
    assert (result.out, result.code) == ("out\n", 137)
