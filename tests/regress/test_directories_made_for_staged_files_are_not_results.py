"""A file put in as deep/er/in made deep and deep/er look like results."""


def test_they_are_not_listed(hotcell, tmp_path):
    (tmp_path / "file").write_text("x")
    (tmp_path / "dir").mkdir()
    for what, entry in ((["-f", f"{tmp_path}/file:deep/er/in", "-c", "true"], []),
                        (["-f", f"{tmp_path}/dir:a/b/c", "-c", "true"], []),
                        (["--entry", "pkg/main.sh", "-c", "true"], [])):
        assert hotcell.json("-l", "sh", *what)["files"] == entry


def test_but_what_is_new_in_them_is(hotcell, tmp_path):
    (tmp_path / "file").write_text("x")
    files = hotcell.json("-l", "sh", "-f", f"{tmp_path}/file:deep/in", "-c", "mkdir deep/new")["files"]
    assert [file["path"] for file in files] == ["deep/new"]
