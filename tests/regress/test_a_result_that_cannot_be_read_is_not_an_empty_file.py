"""A generated file that its program had made unreadable came out with no bytes, and nobody said so."""
import harness


def test_its_bytes_come_or_it_is_told(anyone, public, isolation):
    out = public / harness.token()
    out.mkdir()
    out.chmod(0o777)
    result = anyone.run("-q", "-l", "sh", "--isolation", isolation, "-o", out / "sub", "-c",
                        "echo secret >closed; echo open >open; chmod 0 closed; "
                        "mkdir d; echo x >d/f; chmod 0 d")
    assert (out / "sub/open").read_text() == "open\n"
    if (out / "sub/closed").exists():
        assert (out / "sub/closed").read_text() == "secret\n"
    else:
        assert "closed" in result.err
