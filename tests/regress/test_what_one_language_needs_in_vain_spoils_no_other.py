"""A `needs` that cannot be shown in a cell made every language unusable, with an odd message."""
import pytest


@pytest.mark.parametrize("place", ["/tmp", "/var/tmp", "/workspace", "/proc/self", "/dev/shm"])
def test_the_others_work_and_it_says_why(hotcell, tmp_path, place):
    (tmp_path / "x.yaml").write_text(f"""
id: x
name: X
file: main.txt
find: [{{ program: /bin/sh, needs: [{place}] }}]
version: ["{{program}}", -c, "echo 1"]
run: [/bin/echo, ran]
""")
    result = hotcell.run("--languages", tmp_path, "-l", "python", "-c", "print(6 * 7)")
    assert (result.out, result.code) == ("42\n", 0)
    result = hotcell.run("--languages", tmp_path, "-l", "x", "-c", "")
    if result.code == 125:
        assert place in result.err
        assert "levels of symbolic links" not in result.err
    else:
        assert result.out == "ran\n"
