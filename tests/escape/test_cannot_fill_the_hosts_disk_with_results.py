"""What comes out of a cell is no more than its disk holds, however large it looks."""
import subprocess

WAYS = {
    "holes": r"""
for i in range(10):
    with open(f"f{i}", "wb") as f:
        f.truncate(10 << 20)
        f.seek(5 << 20)
        f.write(b"here")""",
    "one file by many names": r"""
with open("f", "wb") as f:
    f.write(os.urandom(6 << 20))
for i in range(10):
    os.link("f", f"link{i}")""",
}


def test_cannot_fill_the_hosts_disk_with_results(attack):
    for name, code in WAYS.items():
        out = attack.new_directory() / "out"
        result = attack(code, disk="8M", o=out)
        used = int(subprocess.run(["du", "-s", "--block-size=1K", out], capture_output=True,
                                  text=True, check=True).stdout.split()[0])
        # A file system rounds up.
        assert used <= 12 << 10, f"{name}: {used} KiB on the host, {result.status}: {result.remarks}"


def test_what_fits_comes_out_whole(attack):
    out = attack.new_directory() / "out"
    result = attack(r"""
with open("holes", "wb") as f:
    f.truncate(5 << 20)
    f.seek(3 << 20)
    f.write(b"here")
open("full", "wb").write(b"x" * (2 << 20))""", disk="8M", o=out)
    assert result.status == 0
    assert (out / "holes").read_bytes() == bytes(3 << 20) + b"here" + bytes((2 << 20) - 4)
    assert (out / "full").read_bytes() == b"x" * (2 << 20)
