"""Issue: every shipped language runs. What each program does stands in programs/."""
import json
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parent / "programs"

SHIPPED = ["awk", "bash", "bun", "c", "cpp", "go", "java", "javascript", "lua", "perl", "php", "python",
           "r", "ruby", "rust", "sh", "sqlite", "typescript"]
COMPILED = ["c", "cpp", "go", "java", "rust"]
WALLS = ["container", "vm"]
# Of these no program has been tried as a guest.
NO_GUESTS = ["typescript"]
# It runs the programs of two others: test_bun.py.
NO_PROGRAMS = ["bun"]
ARGS = ["one", "two 'words' \"and\" quotes", "ünïcode $HOME `x` *"]


def find(*names):
    return [path for path in (shutil.which(name, path="/usr/local/bin:/usr/bin:/bin") for name in names) if path]


def node_runs_typescript():
    return any(subprocess.run([node, "--experimental-strip-types", "--version"], capture_output=True).returncode == 0
               for node in find("node"))


def expected():
    """`make test` installs all of them but those for which Debian has nothing."""
    found = {"bun": find("bun"), "typescript": node_runs_typescript() or find("tsx", "bun", "deno")}
    return [one for one in SHIPPED if found.get(one, True)]


INSTALLED = expected()
BEHIND_WALLS = [(wall, one) for wall in WALLS for one in INSTALLED
                if one not in NO_PROGRAMS and (wall != "vm" or one not in NO_GUESTS)]
MISSING = [one for one in SHIPPED if one not in INSTALLED]


@pytest.fixture(scope="session")
def program(public):
    """program("fails", "python") is the path of a file that everybody can read."""
    copy = shutil.copytree(PROGRAMS, public / "programs")

    def find(kind, language):
        (found,) = (path for path in (copy / kind).iterdir() if path.stem == language)
        return found

    return find


@pytest.fixture(scope="session")
def data(public):
    directory = public / "data"
    directory.mkdir()
    (directory / "input.txt").write_text("forty-two\n")
    return directory


@pytest.mark.parametrize("isolation, language", BEHIND_WALLS)
def test_a_program_has_input_arguments_files_and_an_exit_code(anyone, data, program, isolation, language):
    result = anyone.run(
        program("everything", language), "-l", language, "--isolation", isolation, "--stdin", "-", "-f", f"{data}:data",
        *(f"--arg={arg}" for arg in ARGS), input=b"first line\nsecond line\n")
    if language == "sqlite":
        assert (result.out, result.err, result.code) == ("hello\nfile: forty-two\n", "", 0)
        return
    assert result.out.splitlines() == [
        "hello", "stdin: first line", *(f"arg: {arg}" for arg in ARGS), "file: forty-two"]
    assert result.err == "to stderr\n"
    assert result.code == 3


@pytest.mark.parametrize("isolation, language", BEHIND_WALLS)
def test_a_program_writes_files_and_its_language_is_guessed(
        hotcell, data, tmp_path, program, isolation, language):
    object = hotcell.json(
        program("everything", language), "--isolation", isolation, "--stdin", "-", "-f", f"{data}:data", "-o", tmp_path,
        input=b"first line\n")
    assert object["language"] == language
    assert object["files"] == [{"path": "result.txt", "size_bytes": 8, "kind": "file"}]
    assert (tmp_path / "result.txt").read_bytes() == b"written\n"


@pytest.mark.parametrize("isolation, language", BEHIND_WALLS)
def test_an_error_at_run_time_goes_to_stderr_after_what_was_printed(
        hotcell, program, isolation, language):
    object = hotcell.json(program("fails", language), "-l", language, "--isolation", isolation)
    assert object["stdout"] == "before\n"
    assert "went wrong" in object["stderr"]
    assert object["exit_code"] not in (0, None)
    assert object["reason"] == ("signaled" if language in ("c", "cpp") else "exited")


@pytest.mark.parametrize("language", COMPILED)
def test_a_compile_error_is_kept_apart_from_the_program(hotcell, program, language):
    object = hotcell.json(program("broken", language), "-l", language)
    assert "no_such_thing" in object["compile"]["stdout"] + object["compile"]["stderr"]
    assert object["compile"]["exit_code"] == object["exit_code"] != 0
    assert (object["stdout"], object["stderr"], object["reason"]) == ("", "", "exited")


@pytest.mark.parametrize("language", COMPILED)
def test_a_compile_error_is_shown_on_stderr(hotcell, program, language):
    result = hotcell.run(program("broken", language), "-l", language)
    assert "no_such_thing" in result.err
    assert result.out == ""
    assert result.code not in (0, 124, 125)


def test_a_warning_of_the_compiler_does_not_stop_the_run(hotcell):
    object = hotcell.json("-l", "c", "-c", "int main(void) { int unused; return 7; }")
    assert "unused" in object["compile"]["stderr"]
    assert object["compile"]["exit_code"] == 0
    assert object["exit_code"] == 7


def test_an_interpreted_language_has_no_compile_step(hotcell):
    assert hotcell.json("-l", "python", "-c", "")["compile"] is None


def test_a_language_that_is_not_installed_says_how_to_get_it(hotcell, tmp_path):
    (tmp_path / "klingon.yaml").write_text("""
id: klingon
name: Klingon
file: main.kl
install: apt install klingon
find: [{ program: no-such-klingon }]
version: ["{program}", --version]
run: ["{program}", "{file}"]
""")
    more = ("--languages", tmp_path)
    rows = {row["id"]: row for row in json.loads(hotcell("languages", "--json", *more).out)}
    for language in [*MISSING, "klingon"]:
        result = hotcell.run("-l", language, "-c", "1", *more)
        assert (result.out, result.code) == ("", 125)
        assert f"is not installed: {rows[language]['install']}" in result.err
        assert rows[language]["installed"] is False and rows[language]["version"] is None


def test_all_shipped_languages_are_listed(hotcell):
    rows = hotcell.languages()
    assert [one for one in SHIPPED if one not in rows] == []
    assert [one for one in INSTALLED if not rows[one]["installed"]] == []


def test_the_list_shows_id_and_version_or_what_to_install(hotcell):
    lines = hotcell("languages").out.splitlines()
    rows = hotcell.languages()
    assert len(lines) == len(rows)
    for line, row in zip(lines, rows.values()):
        language, rest = line.split(None, 1)
        assert language == row["id"]
        assert rest == (row["version"] or f"not installed: {row['install']}")


def test_versions_are_what_the_programs_say(hotcell):
    rows = hotcell.languages()
    python = subprocess.run(["/usr/bin/python3", "--version"], capture_output=True, text=True)
    assert rows["python"]["version"] == python.stdout.strip()
    gcc = subprocess.run(["gcc", "--version"], capture_output=True, text=True)
    assert rows["c"]["version"] == gcc.stdout.splitlines()[0]


def test_a_language_is_known_by_its_aliases_in_any_case(hotcell):
    for alias in ("py", "Python3", "PYTHON"):
        assert hotcell.run("-l", alias, "-c", "print(1)").out == "1\n"
    for alias in ("node", "js", "NodeJS"):
        assert hotcell.run("-l", alias, "-c", "console.log(1)").out == "1\n"


def test_a_misspelt_language_gets_a_suggestion(hotcell):
    result = hotcell.run("-l", "pyhton", "-c", "print(1)")
    assert result.code == 125
    assert "unknown language 'pyhton'; did you mean python?" in result.err


def png_size(path):
    header = path.read_bytes()[:24]
    assert header[:8] == b"\x89PNG\r\n\x1a\n"
    return struct.unpack(">II", header[16:24])


@pytest.mark.parametrize("isolation", WALLS)
def test_python_has_numpy_pandas_and_matplotlib(anyone, isolation, public):
    out = public / f"png-{anyone.user}-{isolation}"
    out.mkdir()
    out.chmod(0o777)
    result = anyone.run("-l", "python", "--isolation", isolation, "-o", out, "-c", """
import numpy, pandas
import matplotlib.pyplot as plt
frame = pandas.DataFrame({"group": ["a", "b", "a"], "value": numpy.arange(3.0)})
print(frame.groupby("group").value.sum().to_dict())
print(numpy.linalg.inv(numpy.diag([2.0, 4.0])).tolist())
figure = plt.figure(figsize=(4, 3), dpi=100)
plt.plot(frame.value)
plt.title("ünïcode")
figure.savefig("plot.png")
""")
    assert result.out == "{'a': 2.0, 'b': 1.0}\n[[0.5, 0.0], [0.0, 0.25]]\n", result
    assert result.err == ""
    assert result.code == 0
    assert png_size(out / "plot.png") == (400, 300)


# What a language's runtime does under its hood must get through the filter of system calls.
HARDER = {
    "python": ("""
import subprocess, threading, multiprocessing, concurrent.futures, tempfile, sqlite3, ssl, hashlib
def square(x): return x * x
if __name__ == "__main__":
    with multiprocessing.Pool(2) as pool: print(pool.map(square, [1, 2, 3]))
    with concurrent.futures.ThreadPoolExecutor(4) as pool: print(list(pool.map(square, [4, 5])))
    print(subprocess.run(["/bin/echo", "child"], capture_output=True, text=True).stdout.strip())
    with tempfile.NamedTemporaryFile() as f: f.write(b"x"); f.flush()
    print(sqlite3.connect(":memory:").execute("select 6 * 7").fetchone()[0])
""", "[1, 4, 9]\n[16, 25]\nchild\n42\n"),
    "javascript": ("""
const { Worker, isMainThread, parentPort } = require('worker_threads');
if (isMainThread) {
	const { execFileSync } = require('child_process');
	const zlib = require('zlib'), crypto = require('crypto');
	console.log(execFileSync('/bin/echo', ['child']).toString().trim());
	console.log(zlib.gunzipSync(zlib.gzipSync('packed')).toString());
	console.log(crypto.createHash('sha256').update('').digest('hex').slice(0, 8));
	new Worker(__filename).on('message', (m) => console.log(m));
} else {
	setTimeout(() => parentPort.postMessage('worker'), 1);
}
""", "child\npacked\ne3b0c442\nworker\n"),
    "go": ("""
package main
import ("fmt"; "os/exec"; "sync")
func main() {
	var all sync.WaitGroup
	sums := make([]int, 8)
	for i := range sums {
		all.Add(1)
		go func(i int) { defer all.Done(); for k := 0; k <= i*1000; k++ { sums[i] += k } }(i)
	}
	all.Wait()
	out, err := exec.Command("/bin/echo", "child").Output()
	fmt.Print(sums[7], " ", string(out), err, "\\n")
}
""", "24503500 child\n<nil>\n"),
    "java": ("""
import java.util.concurrent.*;
import java.util.stream.*;
public class Main {
	public static void main(String[] args) throws Exception {
		System.out.println(IntStream.rangeClosed(1, 1000).parallel().sum());
		var pool = Executors.newFixedThreadPool(4);
		System.out.println(pool.submit(() -> "thread").get());
		pool.shutdown();
		var child = new ProcessBuilder("/bin/echo", "child").start();
		System.out.print(new String(child.getInputStream().readAllBytes()));
	}
}
""", "500500\nthread\nchild\n"),
    "rust": ("""
use std::{process::Command, thread};
fn main() {
    let all: Vec<_> = (0..4).map(|i| thread::spawn(move || i * i)).collect();
    println!("{}", all.into_iter().map(|t| t.join().unwrap()).sum::<i32>());
    print!("{}", String::from_utf8(Command::new("/bin/echo").arg("child").output().unwrap().stdout).unwrap());
}
""", "14\nchild\n"),
    "cpp": ("""
#include <atomic>
#include <cstdlib>
#include <future>
#include <iostream>
int main()
{
	auto later = std::async(std::launch::async, [] { return 6 * 7; });
	try { throw 1; } catch (int caught) { std::cout << caught << std::endl; }
	std::cout << later.get() << std::endl;
	return std::system("/bin/echo child");
}
""", "1\n42\nchild\n"),
    "ruby": ("""
require "json"; require "digest"; require "open3"
puts [1, 2].map { |x| Thread.new { x * x }.value }.to_json
puts Open3.capture2("/bin/echo", "child").first
puts Process.wait2(fork { exit! 4 }).last.exitstatus
""", "[1,4]\nchild\n4\n"),
    "perl": ("""
use POSIX; use List::Util qw(sum);
$| = 1;
my $pid = fork(); exit 4 unless $pid; waitpid($pid, 0); print $? >> 8, "\\n";
print `/bin/echo child`, sum(1 .. 10), "\\n";
""", "4\nchild\n55\n"),
    "php": ("""<?php
echo shell_exec('/bin/echo child'), json_encode(['a' => 1]), "\\n", md5(''), "\\n";
""", "child\n{\"a\":1}\nd41d8cd98f00b204e9800998ecf8427e\n"),
    "r": ("""
print(coef(lm(y ~ x, data.frame(x = 1:3, y = c(2, 4, 6))))[["x"]])
cat(system("/bin/echo child", intern = TRUE), "\\n")
png("plot.png"); plot(1:3, main = "text"); invisible(dev.off()); cat(file.size("plot.png") > 1000, "\\n")
""", "[1] 2\nchild \nTRUE \n"),
    "bash": ("""
printf '%s\\n' c a b | sort | tr '\\n' ' '
wait; sleep 0.01 & wait $!; echo "$? ${BASH_VERSION:+bash}"
cat <(echo substituted) <<<"" 
""", "a b c 0 bash\nsubstituted\n"),
}


@pytest.mark.parametrize("isolation", WALLS)
@pytest.mark.parametrize("language", HARDER)
def test_threads_and_child_processes_work(anyone, isolation, language):
    code, expected_out = HARDER[language]
    result = anyone.run("-l", language, "--isolation", isolation, "-c", code)
    assert (result.out, result.err, result.code) == (expected_out, "", 0)
