"""bun stands in for node where there is none, and `-l bun` asks for it.

Which program is chosen is tried with a script in bun's place. What bun itself does needs a bun: one that a
cell would find, or else what `make test` gets by npm. Where there is neither, those tests are skipped.
"""
import json
import os
import re
import shutil
from pathlib import Path

import harness
import pytest

PROGRAMS = Path(__file__).parent / "programs"
LANGUAGES = ["bun", "javascript", "typescript"]
OTHERS = "node|nodejs|tsx|deno"


def files_with(directory, bun, without_others=True):
    """The shipped language files, for a machine on which this is bun, and nothing else is there."""
    directory.mkdir()
    for language in LANGUAGES:
        text = (harness.ROOT / f"languages/{language}.yaml").read_text()
        text, count = re.subn(r"program: bun$", f"program: {bun}\n    needs: [{bun.parent}]", text, flags=re.M)
        assert count == 1
        if without_others:
            text = re.sub(rf"program: ({OTHERS})$", r"program: no-such-\1", text, flags=re.M)
        (directory / f"{language}.yaml").write_text(text)
    return directory


def said(hotcell, *args):
    result = hotcell.run(*args)
    assert (result.err, result.code) == ("", 0), result
    return result.out


# ---- which program is chosen ----


@pytest.fixture(scope="module")
def echo(public):
    """In bun's place: a program that tells what it was called with."""
    path = public / f"echo-{harness.token()}" / "bun"
    path.parent.mkdir()
    path.write_text('#!/bin/sh\nprintf "bun"\nprintf " %s" "$@"\necho\n')
    path.chmod(0o755)
    return path


@pytest.fixture(scope="module")
def alone(public, echo):
    return files_with(public / f"alone-{harness.token()}", echo)


@pytest.fixture(scope="module")
def beside(public, echo):
    return files_with(public / f"beside-{harness.token()}", echo, without_others=False)


@pytest.mark.parametrize("isolation", ["container", "vm"])
def test_without_node_javascript_runs_with_bun(anyone, isolation, alone):
    object = anyone.json("--languages", alone, "--isolation", isolation, "-l", "js", "-c", "", "--arg", "a b")
    assert object["stdout"] == "bun run --no-install ./main.js a b\n"
    assert object["language"] == "javascript"


def test_without_node_typescript_runs_with_bun(hotcell, alone):
    assert said(hotcell, "--languages", alone, "-l", "ts", "-c", "") == "bun run --no-install ./main.ts\n"


def test_where_both_are_there_javascript_runs_with_node(hotcell, beside):
    code = "console.log(process.release.name)"
    assert said(hotcell, "--languages", beside, "-l", "javascript", "-c", code) == "node\n"
    assert said(hotcell, "--languages", beside, "-l", "javascript", "--last-line", "-c", "6 * 7") == "42\n"


def test_where_both_are_there_bun_can_be_asked_for(hotcell, beside, tmp_path):
    def ran(*args):
        object = hotcell.json("--languages", beside, *args)
        return object["language"], object["stdout"].split()[-1]

    (tmp_path / "x.js").write_text("")
    (tmp_path / "script").write_text("#!/usr/bin/env bun\n")
    assert ran("-l", "bun", "-c", "") == ("bun", "./main.ts")
    assert ran("-l", "bun", tmp_path / "x.js") == ("bun", "./x.js")
    assert ran(tmp_path / "script") == ("bun", "./script")
    assert hotcell.json("--languages", beside, tmp_path / "x.js")["language"] == "javascript"


@pytest.mark.parametrize("language, message", [
    ("javascript", "JavaScript cannot echo the value of a last line with {bun}"),
    ("bun", "Bun cannot echo the value of a last line"),
])
def test_a_last_line_is_refused_with_bun(hotcell, echo, alone, language, message):
    result = hotcell.run("--languages", alone, "-l", language, "--last-line", "-c", "6 * 7")
    assert (result.out, result.code) == ("", 125)
    assert result.err == f"hotcell: {message.format(bun=echo)}\n"


# ---- what bun does ----


@pytest.fixture(scope="session")
def bun(public):
    """A bun that everybody can reach."""
    places = "/usr/local/bin:/usr/bin:/bin"
    found = shutil.which("bun", path=f"{places}:{harness.ROOT / 'build/bun'}")
    if found is None:
        pytest.skip("bun is not installed, and npm could not get it")
    (public / "bun").mkdir()
    return Path(shutil.copy(os.path.realpath(found), public / "bun/bun"))


@pytest.fixture(scope="session")
def with_bun(public, bun):
    """The options for a machine that has bun and no node."""
    return ["--languages", files_with(public / "with-bun", bun)]


def program(kind, language):
    """A path of one of programs/, for what the language calls a file."""
    return PROGRAMS / kind / {"typescript": "typescript.ts"}.get(language, "javascript.js")


@pytest.mark.parametrize("language", LANGUAGES)
def test_bun_has_a_version(hotcell, with_bun, language):
    rows = {row["id"]: row for row in json.loads(hotcell("languages", "--json", *with_bun).out)}
    assert re.match(r"\d+\." if language == "bun" else r"bun \d+\.", rows[language]["version"])


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_program_in_bun_has_input_arguments_files_and_an_exit_code(
        hotcell, with_bun, isolation, language, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data/input.txt").write_text("forty-two\n")
    (tmp_path / "out").mkdir()
    object = hotcell.json(
        program("everything", language), "-l", language, *with_bun, "--isolation", isolation, "--stdin", "-",
        "-f", f"{tmp_path}/data:data", "--arg", "two 'words'", "-o", tmp_path / "out", input=b"first\nsecond\n")
    assert object["stdout"] == "hello\nstdin: first\narg: two 'words'\nfile: forty-two\n"
    assert (object["stderr"], object["exit_code"]) == ("to stderr\n", 3)
    assert object["files"] == [{"path": "result.txt", "size_bytes": 8, "kind": "file"}]
    assert (tmp_path / "out/result.txt").read_bytes() == b"written\n"
    assert isolation != "vm" or object["vm"]["warm"] is False


@pytest.mark.parametrize("code, err", [
    ("console.log('before'); throw new TypeError('went wrong')", "TypeError: went wrong"),
    ("console.log('before'); Promise.reject(new Error('went wrong'))", "error: went wrong"),
    ("console.log('before'); setTimeout(() => { throw new Error('went wrong') }, 1)", "error: went wrong"),
    ("console.log('before'); await import('left-pad')", "Cannot find package 'left-pad'"),
])
def test_a_program_that_fails_in_bun_says_why(hotcell, with_bun, isolation, code, err):
    object = hotcell.json("-l", "javascript", *with_bun, "--isolation", isolation, "-c", code)
    assert (object["stdout"], object["exit_code"], object["reason"]) == ("before\n", 1, "exited")
    assert err in object["stderr"] and "main.js" in object["stderr"]


# What is written for node uses these. Each with what it prints.
WASM = "0,97,115,109,1,0,0,0,1,7,1,96,2,127,127,1,127,3,2,1,0,7,7,1,3,97,100,100,0,0,10,9,1,7,0,32,0,32,1,106,11"
USES = {
    "promises": ("Promise.all([1, Promise.resolve(2)]).then((all) => console.log(all.join()))", "1,2"),
    "await": ("console.log(await new Promise((done) => setTimeout(done, 1, 'later')))", "later"),
    "timers": ("""
let n = 0;
const timer = setInterval(() => { if (++n === 3) { clearInterval(timer); setImmediate(() => console.log(n)); } }, 1);
""", "3"),
    "fs": ("""
const fs = require('fs');
fs.mkdirSync('d');
fs.writeFileSync('d/a', 'text');
fs.renameSync('d/a', 'd/b');
fs.promises.readFile('d/b', 'utf8').then((text) => console.log(text, fs.readdirSync('d').join()));
""", "text b"),
    "streams": ("""
const fs = require('fs');
fs.createWriteStream('f').end('x'.repeat(300000), () => {
	let n = 0;
	fs.createReadStream('f').on('data', (data) => n += data.length).on('end', () => console.log(n));
});
""", "300000"),
    "crypto": ("""
const crypto = require('crypto');
const { publicKey, privateKey } = crypto.generateKeyPairSync('rsa', { modulusLength: 1024 });
const signed = crypto.sign('sha256', Buffer.from('x'), privateKey);
console.log(crypto.createHash('sha256').update('').digest('hex').slice(0, 8), crypto.randomBytes(8).length,
	crypto.verify('sha256', Buffer.from('x'), publicKey, signed));
""", "e3b0c442 8 true"),
    "crypto in a thread": ("""
require('crypto').pbkdf2('a', 'b', 1000, 4, 'sha256', (failed, key) => console.log(key.toString('hex')));
""", "a9ad8392"),
    "zlib": ("""
const zlib = require('zlib');
zlib.gzip('packed', (failed, data) => console.log(zlib.gunzipSync(data).toString(),
	zlib.brotliDecompressSync(zlib.brotliCompressSync('more')).toString()));
""", "packed more"),
    "WebAssembly": (f"""
WebAssembly.instantiate(Uint8Array.from([{WASM}])).then(({{ instance }}) => console.log(instance.exports.add(2, 3)));
""", "5"),
    "worker_threads": ("""
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');
if (isMainThread)
	new Worker(__filename, { workerData: 6 }).on('message', (n) => console.log(n)).on('exit', (code) => console.log(code));
else
	parentPort.postMessage(workerData * 7);
""", "42\n0"),
    "child processes": ("""
const { execFileSync, spawn } = require('child_process');
console.log(execFileSync('/bin/echo', ['child']).toString().trim());
const child = spawn('sh', ['-c', 'cat; exit 3'], { stdio: ['pipe', 'inherit', 'inherit'] });
child.on('close', (code) => console.log(code));
child.stdin.end('piped\\n');
""", "child\npiped\n3"),
    "signals": ("""
const waiting = setInterval(() => {}, 1000);
process.once('SIGUSR2', (name) => { clearInterval(waiting); console.log(name); });
process.kill(process.pid, 'SIGUSR2');
""", "SIGUSR2"),
    "require": ("""
require('fs').writeFileSync('own.js', 'exports.value = require("path").basename(__filename)');
console.log(require('./own').value, require.main === module);
""", "own.js true"),
    "import": ("""
import fs, { writeFileSync } from 'node:fs';
writeFileSync('own.mjs', 'export default import.meta.url');
console.log((await import('./own.mjs')).default.endsWith('/own.mjs'), fs.existsSync('own.mjs'));
""", "true true"),
    "JIT": ("let sum = 0; for (let i = 0; i < 1e7; i++) sum = (sum + i * i) | 0; console.log(sum)", "-1039031360"),
}


@pytest.mark.parametrize("use", USES)
def test_bun_runs_what_is_written_for_node(anyone, with_bun, isolation, use):
    code, out = USES[use]
    result = anyone.run("-l", "javascript", *with_bun, "--isolation", isolation, "-c", code)
    note = "hotcell: not isolated (--isolation process)\n" if isolation == "process" else ""
    assert (result.out, result.err, result.code) == (out + "\n", note, 0)


def test_bun_takes_code_with_and_without_types(hotcell, with_bun, isolation):
    for code in ("const n: number = 42; console.log(n, Bun.main)", "var n = 42; console.log(n, Bun.main)"):
        object = hotcell.json("-l", "bun", *with_bun, "--isolation", isolation, "-c", code)
        assert object["stdout"].startswith("42 /") and object["stdout"].endswith("/workspace/main.ts\n")
