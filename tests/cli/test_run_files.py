"""Files go into the workspace, and what is new or changed comes out."""
import hashlib
import os
import socket
import stat

import harness
import pytest


def listed(object):
    return {file["path"]: (file["kind"], file["size_bytes"]) for file in object["files"]}


@pytest.fixture
def place(public):
    """A new directory that everybody can read and write."""
    path = public / harness.token()
    path.mkdir()
    path.chmod(0o777)
    return path


@pytest.fixture
def tree(place):
    """deep/er/file.txt, .hidden/.config, an empty directory, links, a script, odd names."""
    top = place / "tree"
    (top / "deep/er").mkdir(parents=True)
    (top / "deep/er/file.txt").write_text("deep\n")
    (top / ".hidden").mkdir()
    (top / ".hidden/.config").write_text("hidden\n")
    (top / "empty").mkdir()
    (top / "link").symlink_to("deep/er/file.txt")
    (top / "deep/up").symlink_to("../.hidden/.config")
    (top / "script").write_text("#!/bin/sh\necho script\n")
    (top / "script").chmod(0o755)
    (top / "a b\n'\"$*ü").write_text("odd\n")
    return top


# ---- in ----


def test_a_file_appears_under_its_own_name_or_the_one_that_is_given(anyone, place):
    (place / "data.csv").write_text("1,2\n")
    result = anyone.run("-l", "sh", "-c", "find . -type f | sort; cat data.csv sub/dir/x",
                        "-f", place / "data.csv", "-f", f"{place}/data.csv:sub/dir/x")
    assert result.out == "./data.csv\n./main.sh\n./sub/dir/x\n1,2\n1,2\n"


def test_a_directory_keeps_relative_paths_hidden_files_links_and_modes(anyone, tree):
    result = anyone.run("-l", "sh", "-f", tree, "-c", """
cd tree
find . -print0 | LC_ALL=C sort -z | tr '\\0' '|'
echo; cat deep/er/file.txt .hidden/.config link deep/up; ./script; readlink link; stat -c %A script empty
""")
    assert result.err == ""
    assert result.out == (
        ".|./.hidden|./.hidden/.config|./a b\n'\"$*ü|./deep|./deep/er|./deep/er/file.txt|./deep/up|"
        "./empty|./link|./script|\n"
        "deep\nhidden\ndeep\nhidden\nscript\ndeep/er/file.txt\n-rwxr-xr-x\ndrwxr-xr-x\n")


@pytest.mark.parametrize("name", ["tree", "tree/", "./tree", "../{}/tree/", "tree:tree"])
def test_a_directory_may_be_named_in_many_ways(hotcell, tree, name):
    result = hotcell.run("-l", "sh", "-c", "cat tree/deep/er/file.txt", cwd=tree.parent, *[
        "-f", name.format(tree.parent.name)])
    assert result.out == "deep\n"


def test_the_current_directory_has_its_real_name(hotcell, tree):
    result = hotcell.run("-l", "sh", "-c", "cat tree/deep/er/file.txt", "-f", ".", cwd=tree)
    assert result.out == "deep\n"
    result = hotcell.run("-l", "sh", "-c", "cat tree/deep/er/file.txt", "-f", "..", cwd=tree / "deep")
    assert result.out == "deep\n"


def test_a_file_whose_name_has_a_colon_is_found(hotcell, place):
    (place / "a:b").write_text("colon\n")
    result = hotcell.run("-l", "sh", "-c", "cat a:b c", "-f", place / "a:b", "-f", f"{place}/a:b:c")
    assert result.out == "colon\ncolon\n"


def test_files_are_copies(anyone, place):
    (place / "data").write_text("original\n")
    (place / "data").chmod(0o666)
    result = anyone.run("-l", "sh", "-c", "echo changed >data; cat data", "-f", place / "data")
    assert result.out == "changed\n"
    assert (place / "data").read_text() == "original\n"


def test_files_belong_to_the_cells_user(anyone, place):
    (place / "secret").write_text("x")
    (place / "secret").chmod(0o644)
    result = anyone.run("-l", "sh", "-c", "stat -c '%U %G' secret", "-f", place / "secret")
    assert result.out == "cell cell\n"


def test_a_file_replaces_one_of_an_earlier_directory(hotcell, place):
    (place / "all").mkdir()
    (place / "all/x").write_text("one\n")
    (place / "two").write_text("two\n")
    result = hotcell.run("-l", "sh", "-c", "cat d/x", "-f", f"{place}/all:d", "-f", f"{place}/two:d/x")
    assert result.out == "two\n"


def test_a_file_and_a_directory_of_one_name_are_told(hotcell, place):
    (place / "one").write_text("one\n")
    result = hotcell.run("-l", "sh", "-c", "echo ran", "-f", f"{place}/one:x", "-f", f"{place}/one:x/y")
    assert (result.code, result.out) == (125, "")
    assert "x" in result.err


def test_names_of_255_bytes_are_fine(anyone, place):
    name = "ü" * 127 + "x"
    (place / name).write_text("long\n")
    result = anyone.run("-l", "sh", "-c", "cat " + name, "-f", place / name)
    assert result.out == "long\n"


@pytest.mark.parametrize("target", [
    "/etc/passwd", "../../etc/passwd", "..", "../other", "sub/../../x", "/", "deep/../../../tmp"])
def test_a_symlink_that_leads_out_is_refused(hotcell, tree, target):
    (tree / "deep" / "evil").symlink_to("../" + target if not target.startswith("/") else target)
    result = hotcell.run("-l", "sh", "-c", "echo ran", "-f", tree)
    assert (result.code, result.out) == (125, "")
    assert "evil" in result.err and "leads out" in result.err


def test_a_symlink_that_stays_inside_is_kept_even_if_it_dangles(hotcell, tree):
    (tree / "deep" / "dangling").symlink_to("../nothing/here")
    result = hotcell.run("-l", "sh", "-c", "readlink tree/deep/dangling", "-f", tree)
    assert result.out == "../nothing/here\n"


@pytest.mark.parametrize("kind", ["fifo", "socket"])
def test_what_is_neither_file_nor_directory_is_refused_and_never_waited_for(hotcell, tree, kind):
    if kind == "fifo":
        os.mkfifo(tree / "special")
    else:
        with socket.socket(socket.AF_UNIX) as s:
            os.chdir(tree)
            s.bind("special")
            os.chdir("/")
    for path in (tree, tree / "special"):
        result = hotcell.run("-l", "sh", "-c", "echo ran", "-f", path)
        assert (result.code, result.out) == (125, "")
        assert "special" in result.err


def test_two_thousand_files_go_in(anyone, place):
    for i in range(2000):
        (place / f"file-{i}").write_text(str(i))
    code = "import os; print(sum(int(open('many/' + n).read()) for n in os.listdir('many')))"
    object = anyone.json("-l", "python", "-c", code, "-f", f"{place}:many")
    assert (object["stdout"], object["files"]) == (f"{sum(range(2000))}\n", [])


def test_a_hundred_megabytes_go_in_and_out_byte_for_byte(hotcell, place):
    piece = hashlib.sha256(b"x").digest() * 32768
    whole = hashlib.sha256()
    with open(place / "big", "wb") as file:
        for i in range(100):
            part = piece[i:] + piece[:i]
            file.write(part)
            whole.update(part)
    object = hotcell.json("-l", "sh", "-c", "sha256sum <big; mv big moved", "-f", place / "big",
                          "-o", place / "out")
    assert object["stdout"] == whole.hexdigest() + "  -\n"
    assert listed(object) == {"moved": ("file", 100 << 20)}
    back = hashlib.sha256()
    with open(place / "out/moved", "rb") as file:
        while part := file.read(1 << 20):
            back.update(part)
    assert back.hexdigest() == whole.hexdigest()


# ---- out ----


def test_new_and_changed_files_are_listed_and_others_are_not(anyone, tree):
    for name in ("same", "touched", "rewritten", "changed", "grown", "removed", "program"):
        (tree / name).write_text("0123456789\n")
    object = anyone.json("-l", "sh", "-f", tree, "-c", """
cd tree
touch touched
cat rewritten >/tmp/x; cat /tmp/x >rewritten
echo 9876543210 >changed
echo more >>grown
rm removed
chmod 600 same
chmod +x program
echo new >new; mkdir -p dir/sub; echo new >dir/sub/.new; : >empty-file
ln -s new new-link
""")
    assert listed(object) == {
        "tree/changed": ("file", 11), "tree/grown": ("file", 16), "tree/new": ("file", 4),
        "tree/program": ("file", 11), "tree/dir": ("directory", 0), "tree/dir/sub": ("directory", 0),
        "tree/dir/sub/.new": ("file", 4), "tree/empty-file": ("file", 0),
        "tree/new-link": ("symlink", 0)}


def test_a_change_at_once_that_keeps_the_size_is_seen(hotcell, place):
    """File systems have coarse clocks: the time alone would not tell."""
    (place / "data").write_text("aaaa")
    for _ in range(10):
        object = hotcell.json("-l", "sh", "-c", "printf bbbb >data", "-f", place / "data")
        assert listed(object) == {"data": ("file", 4)}


def test_a_change_that_hides_its_time_is_seen(hotcell, place):
    (place / "data").write_text("aaaa")
    object = hotcell.json("-l", "sh", "-f", place / "data", "-c",
                          "touch -r data /tmp/t; printf bbbb >data; touch -r /tmp/t data")
    assert listed(object) == {"data": ("file", 4)}


def test_a_link_that_was_changed_is_listed(hotcell, tree):
    object = hotcell.json("-l", "sh", "-c", "cd tree; ln -sf .hidden/.config link; ln -sf "
                          "../.hidden/.config deep/up", "-f", tree)
    assert listed(object) == {"tree/link": ("symlink", 0)}


def test_a_file_that_became_a_directory_is_listed(hotcell, place):
    (place / "data").write_text("aaaa")
    object = hotcell.json("-l", "sh", "-c", "rm data; mkdir data", "-f", place / "data")
    assert listed(object) == {"data": ("directory", 0)}


def test_the_code_itself_is_not_a_result_unless_it_changes(hotcell):
    assert hotcell.json("-l", "sh", "-c", "true")["files"] == []
    assert listed(hotcell.json("-l", "sh", "-c", "echo '#' >>main.sh")) == {"main.sh": ("file", 20)}


def test_what_a_compiler_leaves_is_not_a_result(hotcell):
    for language, code in (("c", "int main(void) { return 0; }"),
                           ("java", "class Main { public static void main(String[] a) {} }")):
        assert hotcell.json("-l", language, "-c", code)["files"] == []


def test_files_in_tmp_are_not_results(anyone):
    assert anyone.json("-l", "sh", "-c", "echo x >/tmp/x")["files"] == []


def test_results_are_copied_to_the_output_directory(anyone, place, tree):
    out = place / "out"
    object = anyone.json("-l", "sh", "-f", tree, "-o", out, "-c", r"""
mkdir -p a/.b; printf 'x\0y\377' >a/.b/bin; echo t >tree/.hidden/.config; echo n >"$(printf 'o\nd ü')"
""")
    found = {str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()}
    assert found == {"a/.b/bin", "tree/.hidden/.config", "o\nd ü"}
    assert (out / "a/.b/bin").read_bytes() == b"x\0y\xff"
    assert (out / "tree/.hidden/.config").read_text() == "t\n"
    assert {path for path, (kind, _) in listed(object).items() if kind == "file"} == found


def test_all_byte_values_come_back_unchanged(anyone, place):
    anyone.run("-l", "python", "-o", place / "out", "-c",
               "open('bytes', 'wb').write(bytes(range(256)) * 1000)")
    assert (place / "out/bytes").read_bytes() == bytes(range(256)) * 1000


def test_an_output_directory_that_is_there_is_used_and_files_in_it_are_replaced(hotcell, place):
    (place / "out").mkdir()
    (place / "out/keep").write_text("kept")
    (place / "out/result").write_text("a long old text")
    hotcell.run("-l", "sh", "-c", "echo new >result", "-o", place / "out")
    assert (place / "out/result").read_text() == "new\n"
    assert (place / "out/keep").read_text() == "kept"


def test_results_do_not_follow_links_in_the_output_directory(hotcell, place):
    """Somebody may have planted them, or an earlier run."""
    (place / "victim").write_text("safe")
    (place / "victims").mkdir()
    (place / "out").mkdir()
    (place / "out/result").symlink_to("../victim")
    (place / "out/dir").symlink_to("../victims")
    hotcell.run("-l", "sh", "-c", "echo new >result; mkdir dir; echo new >dir/file", "-o", place / "out")
    assert (place / "victim").read_text() == "safe"
    assert os.listdir(place / "victims") == []


def test_links_in_the_workspace_are_not_followed_out(anyone, place):
    object = anyone.json("-l", "sh", "-o", place / "out", "-c",
                         "ln -s /etc/passwd link; ln -s /etc dir; ln -s self self; echo x >file")
    assert listed(object) == {"link": ("symlink", 0), "dir": ("symlink", 0), "self": ("symlink", 0),
                              "file": ("file", 2)}
    assert [path.name for path in (place / "out").iterdir() if path.is_file()] == ["file"]


def test_fifos_and_sockets_left_behind_block_nothing(anyone, place):
    object = anyone.json("-l", "python", "-o", place / "out", "-c", """
import os, socket
os.mkfifo("fifo")
socket.socket(socket.AF_UNIX).bind("socket")
open("file", "w").write("x")
""")
    assert listed(object) == {"fifo": ("other", 0), "socket": ("other", 0), "file": ("file", 1)}
    assert os.listdir(place / "out") == ["file"]


def test_names_that_are_not_utf8_come_back(anyone, place):
    object = anyone.json("-l", "python", "-o", place / "out", "-c",
                         r"open(b'\xff\xfe.txt', 'w').write('x')")
    assert listed(object) == {"\ufffd\ufffd.txt": ("file", 1)}
    assert os.listdir(bytes(place / "out")) == [b"\xff\xfe.txt"]


def test_two_thousand_files_come_out(hotcell, place):
    object = hotcell.json("-l", "python", "-o", place / "out", "-c", """
import os
for i in range(2000):
    os.makedirs(f"d{i % 50}", exist_ok=True)
    open(f"d{i % 50}/{i}", "w").write(str(i))
""")
    files = [path for path in (place / "out").rglob("*") if path.is_file()]
    assert len(files) == 2000
    assert all(path.read_text() == path.name for path in files)
    assert len(object["files"]) == 2050
    assert object["files_incomplete"] is False


def test_too_many_files_are_listed_as_far_as_it_goes_and_that_is_said(hotcell):
    code = "import os\nfor i in range(25000): os.mknod(f'{i}')"
    object = hotcell.json("-l", "python", "-c", code, "--disk", "1G")
    assert object["files_incomplete"] is True
    assert len(object["files"]) >= 10000
    result = hotcell.run("-l", "python", "-c", code, "--disk", "1G")
    assert "too many files" in result.err


def test_results_of_a_failed_run_come_back_too(anyone, place):
    object = anyone.json("-l", "sh", "-c", "echo x >partial; sleep 1000", "--timeout", "1s",
                         "-o", place / "out")
    assert (object["reason"], listed(object)) == ("timeout", {"partial": ("file", 2)})
    assert (place / "out/partial").read_text() == "x\n"


def test_files_copied_out_are_plain_files_of_ours(anyone, place):
    anyone.run("-l", "sh", "-c", "echo x >plain; cp /bin/true run; chmod 6755 run", "-o", place / "out")
    user = os.geteuid() if anyone.user is None else anyone.user
    for path in (place / "out").iterdir():
        status = path.stat()
        assert status.st_uid == user
        assert stat.S_IMODE(status.st_mode) & 0o7022 == 0


def test_no_output_directory_means_none_is_made(hotcell, place):
    hotcell.run("-l", "sh", "-c", "echo x >file", cwd=place)
    assert os.listdir(place) == []
