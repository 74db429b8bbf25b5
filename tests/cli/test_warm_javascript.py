"""A JavaScript program that starts in a warm machine ends, fails and prints as one that started cold."""
import re

import pytest

pytestmark = pytest.mark.needs_root("an ordinary user may not be in the group kvm")

PROGRAMS = {
    "prints": "console.log(2 + 2, 'x', [1, { a: new Map([[1, 2]]) }]); console.error('e'); process.stdout.write('no end')",
    "prints much": "for (let i = 0; i < 20000; i++) console.log('line', i); console.error('e'.repeat(100000))",
    "prints by turns": "for (let i = 0; i < 50; i++) { console.log('o', i); console.error('e', i); }",
    "looks at itself": "console.log(process.argv, process.argv0, process.execArgv, __filename, __dirname, process.cwd(),"
                       " require.main === module, module.id, module.parent, module.paths, module.children,"
                       " process.mainModule === module, Object.keys(require.cache), module.loaded, this === exports)",
    "looks at globals": "console.log(Object.getOwnPropertyNames(globalThis), Object.keys(globalThis), typeof WebAssembly)",
    "looks at its environment": "console.log(process.env)",
    "looks at its names": "console.log(typeof require, require.resolve('fs'), arguments.length, new.target === undefined)",
    "looks at listeners": "console.log(process.listenerCount('beforeExit'), process.hasOwnProperty('emit'), process.exitCode)",
    "looks at matches": "console.log([RegExp.$1, RegExp.input, RegExp.lastMatch])",
    "traces": "console.log(new Error('here').stack); function f() { return new Error('deep').stack } console.log(f())",
    "traces deeply": "function f(n) { return n ? f(n - 1) : new Error('deep').stack } console.log(f(3)); console.log(f(20))",
    "traces all": "Error.stackTraceLimit = 50; console.log(new Error('all').stack)",
    "traces later": "setTimeout(() => console.log(new Error('late').stack)); Promise.resolve().then(() =>"
                    " console.log(new Error('soon').stack)); process.nextTick(() => console.log(new Error('tick').stack))",
    "looks at call sites": "Error.prepareStackTrace = (e, s) => s.map((x) => x.getFileName() + ':' + x.getLineNumber());"
                           "console.log(new Error().stack)",
    "exits": "process.exit(3)",
    "exits with a number beyond": "process.exit(300)",
    "exits later": "setTimeout(() => process.exit(4), 10); setInterval(() => {}, 1000)",
    "sets a status": "process.exitCode = 5; console.log('on')",
    "sets a status at the end": "process.on('exit', (c) => { console.log('exit', c); process.exitCode = 6 })",
    "exits while it exits": "process.on('exit', (c) => { console.log('exit', c); process.exit(7) })",
    "says good-bye": "process.on('exit', (c) => console.log('bye', c)); process.once('exit', () => console.log('once'));"
                     "process.prependListener('exit', () => console.log('first')); console.log('hi')",
    "fails while it exits": "process.on('exit', () => { throw 'late' })",
    "goes on before its end": "let n = 0; process.on('beforeExit', (c) => { console.log('before', c);"
                              " if (n++ < 2) setTimeout(() => console.log('more'), 1) }); process.on('exit', () => console.log('exit'))",
    "goes on later": "Promise.resolve().then(() => process.once('beforeExit', () => console.log('before')))",
    "throws": "console.log('a');\nfunction f() {\n  throw new TypeError('bad');\n}\nf();",
    "throws text": "throw 'text'",
    "throws nothing": "throw undefined",
    "throws an object": "throw { a: 1, toString() { return 'o' } }",
    "throws for a reason": "throw new Error('outer', { cause: new Error('inner') })",
    "throws more": "const e = new Error('x'); e.code = 'E1'; e.more = { a: [1] }; throw e",
    "throws later": "setTimeout(() => { throw new Error('later') }, 5); process.on('exit', (c) => console.log('exit', c))",
    "throws in a tick": "process.nextTick(() => { throw new Error('tick') }); console.log('a')",
    "throws and says good-bye": "process.on('exit', (c) => console.log('exit', c, process.exitCode)); throw new Error('x')",
    "calls what is not": "const o = {};\no.f()",
    "names what is not": "console.log(1);\nundefinedName",
    "recurses": "function f() { return f() + 1 }\ntry { f() } catch (e) { console.log(e.name, e.message) }",
    "has no syntax": "console.log(1)\nif x\n",
    "has no end": "function f() {",
    "rejects": "Promise.reject(new Error('no'))",
    "rejects a number": "Promise.reject(5)",
    "rejects in a function": "async function main() { await null; throw new RangeError('in async') }\nmain()",
    "rejects and handles": "process.on('unhandledRejection', (e) => console.log('handled', e.message)); Promise.reject(new Error('r'))",
    "catches all": "process.on('uncaughtException', (e, o) => console.log('caught', e.message, o));"
                   "setTimeout(() => console.log('on'), 5); throw new Error('x')",
    "catches all and exits": "process.on('uncaughtException', (e) => { console.log(e.message); process.exit(9) }); throw new Error('x')",
    "monitors": "process.on('uncaughtExceptionMonitor', (e, o) => console.log('seen', o)); throw new Error('x')",
    "warns": "process.emitWarning('careful'); process.on('warning', (w) => console.log(w.name))",
    "is deprecated": "new Buffer(1)",
    # On a busy machine a timer may be due before the first look at what is immediate.
    "has timers": "setImmediate(() => { console.log('i'); setTimeout(() => console.log('t2'), 20);"
                  " setTimeout(() => console.log('t1'), 2) }); process.nextTick(() => console.log('n')); Promise.resolve().then(() => console.log('p'));"
                  "queueMicrotask(() => console.log('m')); console.log('s')",
    "has an interval": "let n = 0; const i = setInterval(() => { console.log(n); if (++n === 3) clearInterval(i) }, 2)",
    "sleeps": "const a = Date.now(); setTimeout(() => { const t = Date.now() - a; console.log(t >= 99 && t < 5000) }, 100)",
    "measures": "const a = performance.now(); setTimeout(() => { const t = performance.now() - a; console.log(t >= 19 && t < 5000) }, 20)",
    "knows the time": "console.log(Math.abs(performance.timeOrigin + performance.now() - Date.now()) < 5000)",
    "leaves an unreferenced timer": "setTimeout(() => console.log('never'), 10000).unref(); console.log('a')",
    "awaits in a function": "(async () => { console.log(1); await new Promise((r) => setTimeout(r, 5)); console.log(2) })()",
    "never settles": "new Promise(() => {}); console.log('a')",
    "iterates": "(async () => { for await (const x of (async function* () { yield 1; yield 2 })()) console.log(x) })()",
    "imports syntax": "import fs from 'node:fs';\nimport { join } from 'path';\nconsole.log(typeof fs.readFileSync, join('a', 'b'),"
                      " import.meta.url, typeof require, this);",
    "exports": "export const x = 1;\nconsole.log(await Promise.resolve(x), import.meta.filename);",
    "awaits at the top": "const x = await new Promise((r) => setTimeout(() => r(3), 5));\nconsole.log(x);\nexport {};",
    "never settles at the top": "console.log(1);\nawait new Promise(() => {});\nexport {};",
    "throws in a module": "import 'node:fs';\nconsole.log('a');\nthrow new Error('in a module');",
    "has no syntax in a module": "import fs from 'fs';\nif x\n",
    "imports what is not": "import { nothing } from 'node:fs';\nconsole.log(nothing)",
    "imports later": "import('node:path').then((p) => console.log(p.sep, p.default === require('path')))",
    "imports data": "import('data:text/javascript,export default 5').then((m) => console.log(m.default))",
    "requires what is not": "try { require('./none') } catch (e) { console.log(e.code, e.message) }\nrequire('nothing')",
    "writes and reads": "const fs = require('fs'); fs.writeFileSync('a.txt', 'text'); console.log(fs.readFileSync('a.txt', 'utf8'));"
                        "fs.readFile('a.txt', (e, d) => console.log(e, d.length)); fs.promises.readdir('.').then(console.log)",
    "requires what it wrote": "const fs = require('fs'); fs.mkdirSync('d'); fs.writeFileSync('d/m.js', 'module.exports = [__filename,"
                              " require.main === module, module.parent.id]'); fs.writeFileSync('x.mjs', 'export default import.meta.url');"
                              " fs.writeFileSync('j.json', '{\"a\": 1}'); console.log(require('./d/m'), require('./j'));"
                              " import('./x.mjs').then((m) => console.log(m.default))",
    "reads itself": "console.log(require('fs').readFileSync(__filename, 'utf8').length, require('./main') === exports)",
    "computes elsewhere": "const c = require('crypto'), z = require('zlib'); c.pbkdf2('a', 'b', 10, 8, 'sha256', (e, k) =>"
                          " console.log(k.toString('hex'))); z.gzip('text', (e, b) => z.gunzip(b, (e, t) => console.log(t + '')));"
                          "console.log(c.createHash('sha256').update('a').digest('hex'))",
    "has threads": "const { Worker, isMainThread, parentPort } = require('worker_threads'); if (isMainThread) { const w = new"
                   " Worker(__filename); w.on('message', (m) => console.log('got', m)); w.on('exit', (c) => console.log('end', c)) }"
                   " else { parentPort.postMessage([Math.random() < 1, 'hello']) }",
    "limits a thread": "const { Worker } = require('worker_threads'); const w = new Worker('const a = []; for (;;) a.push([1, 2, 3])',"
                       " { eval: true, resourceLimits: { maxOldGenerationSizeMb: 16 } }); w.on('error', (e) => console.log(e.code))",
    "waits for memory": "const a = new Int32Array(new SharedArrayBuffer(4)); console.log(Atomics.wait(a, 0, 0, 10))",
    "compiles WebAssembly": "const b = new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0]); WebAssembly.compile(b).then((m) =>"
                            " console.log('compiled', m instanceof WebAssembly.Module)); console.log(WebAssembly.validate(b))",
    "traps in WebAssembly": "const b = new Uint8Array([0,97,115,109,1,0,0,0,1,4,1,96,0,0,3,2,1,0,7,5,1,1,102,0,0,10,5,1,3,0,0,11]);"
                            "new WebAssembly.Instance(new WebAssembly.Module(b)).exports.f()",
    "starts a program": "const { execFileSync, spawn } = require('child_process'); console.log(execFileSync('echo', ['a']) + '');"
                        " spawn('sh', ['-c', 'echo b; exit 3'], { stdio: 'inherit' }).on('exit', (c) => console.log('c', c))",
    "starts itself": "const { fork } = require('child_process'); if (process.argv[2]) process.send([process.argv[2], process.execArgv])"
                     "; else fork(__filename, ['child']).on('message', (m) => console.log(m)).on('exit', (c) => console.log(c))",
    "is killed": "console.log('a'); process.kill(process.pid, 'SIGKILL'); setTimeout(() => {}, 1000)",
    "is terminated": "process.on('SIGTERM', () => { console.log('term'); process.exit(2) }); process.kill(process.pid, 'SIGTERM');"
                     "setTimeout(() => console.log('late'), 2000)",
    "aborts": "console.log('a'); process.kill(process.pid, 'SIGABRT'); setTimeout(() => {}, 9000)",
    "reads nothing": "process.stdin.on('data', (d) => console.log('d', d + '')).on('end', () => console.log('end'))",
    "is not UTF-8": b"console.log('\xff\xfe'.length, '\xc3\xa9')",
    "begins with a mark": b"\xef\xbb\xbfconsole.log('bom')",
    "begins with a line for the shell": "#!/usr/bin/env node\nconsole.log('shebang'); throw new Error('line 2')",
    "returns": "console.log('a'); return; console.log('b')",
    "is strict": "'use strict'; try { undeclared = 1 } catch (e) { console.log(e.message) } console.log(this === module.exports)",
    "is sloppy": "undeclared = 1; console.log(globalThis.undeclared, delete globalThis.undeclared)",
    "changes prototypes": "Array.prototype.push = function () { return 0 }; Object.prototype.x = 1; String.prototype.indexOf = null;"
                          " console.log('a'); process.exitCode = 2",
    "breaks its process": "process.emit = () => {}; process.rawListeners = null; process.exitCode = 3; console.log('a')",
    "removes listeners": "process.removeAllListeners(); console.log('a'); process.exitCode = 4",
    "closes its output": "require('fs').closeSync(1); console.error('e')",
    "replaces its output": "process.stdout.write = (s) => process.stderr.write('>' + s); console.log('a')",
    "has a table": "console.table([{ a: 1 }, { a: 2 }]); console.group('g'); console.log('in'); console.groupEnd(); console.trace('t')",
    "counts": "console.count(); console.count(); console.time.name; console.assert(false, 'no'); console.dir({ a: { b: { c: {} } } })",
    "formats": "console.log('%s %d %j %o', 'a', 1, {}, []); console.log(new Intl.NumberFormat('de').format(1234.5), new Date(0))",
    "has a context": "const vm = require('vm'); console.log(vm.runInNewContext('a + 1', { a: 1 }), vm.runInThisContext('typeof require'));"
                     "vm.runInThisContext('throw new Error(1)', 'there.js')",
    "evaluates": "console.log(eval('1 + 1'), new Function('return this === globalThis')()); eval('throw new Error(2)')",
    "collects": "new FinalizationRegistry(() => {}).register({}, 1); let a = []; for (let i = 0; i < 300; i++) a.push(new Array(10000).fill(i));"
                "console.log(a.length)",
    "is hot": "let s = 0; for (let i = 0; i < 2e7; i++) s = (s + i * i) % 1000003; console.log(s)",
}


# What a program has beside itself decides what kind of module it is.
MODULES = {
    "main.mjs": "import { x } from './m.js'; console.log(x, import.meta.url, typeof require); throw new Error('e')",
    "main.cjs": "console.log(require('./m.cjs'), typeof require, __filename); import('./m.js').then((m) => console.log(m.x))",
    "main.js": "import { x } from './m.js'; console.log(x, await 1, typeof require)",
}


def outcome(hotcell, isolation, *args):
    object = hotcell.json("-l", "javascript", "--isolation", isolation, *args)
    # Numbers of processes, and addresses in a stack of C++.
    stderr = re.sub(r"0x[0-9a-f]+|\(node:\d+\)", "N", object["stderr"])
    return object["stdout"], stderr, object["exit_code"], object["reason"], object["files"]


def test_programs_do_start_in_a_warm_machine(hotcell):
    """Else all of these would compare a cold node with itself."""
    code = "console.log(process.listenerCount('worker'))"
    assert outcome(hotcell, "vm", "-c", code) != outcome(hotcell, "container", "-c", code)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_warm_program_does_as_a_cold_one(hotcell, tmp_path, name):
    code = PROGRAMS[name]
    path = tmp_path / "main.js"
    path.write_bytes(code if isinstance(code, bytes) else code.encode())
    expected = outcome(hotcell, "container", path)
    assert outcome(hotcell, "vm", path) == expected
    if isinstance(code, str):
        assert outcome(hotcell, "vm", "-c", code) == expected


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.parametrize("package", ["module", "commonjs", "none"])
def test_what_lies_beside_a_program_is_heeded(hotcell, tmp_path, name, package):
    (tmp_path / "package.json").write_text("{}" if package == "none" else f'{{"type": "{package}"}}')
    (tmp_path / "m.js").write_text("export const x = 5;" if package == "module" else "exports.x = 6;")
    (tmp_path / "m.cjs").write_text("module.exports = [__filename, require.main === module, module.parent.id]")
    (tmp_path / name).write_text(MODULES[name])
    args = [arg for file in ("package.json", "m.js", "m.cjs") for arg in ("-f", tmp_path / file)]
    assert outcome(hotcell, "vm", *args, tmp_path / name) == outcome(hotcell, "container", *args, tmp_path / name)


@pytest.mark.parametrize("code", ["6 * 7", "const x = 1", "null.x", "[1, { a: 'b' }]", "async function f() { return 5 }\nf()",
                                  "await Promise.resolve(6)", "'a'; undefined", "import 'fs'; 5", "const f = () => 1\nf",
                                  "setTimeout(() => console.log('later'), 5); 'first'", "if x", "new Promise(() => {})",
                                  "Promise.reject(new Error('no'))", "throw new Error('last')", "require('./none')"])
def test_a_last_line_is_shown_alike(hotcell, code):
    args = ("--last-line", "-c", code)
    warm, cold = (re.sub(r"^    at .*\n", "", text, flags=re.M) for text in
                  (str(outcome(hotcell, isolation, *args)).replace("\\n", "\n") for isolation in ("vm", "container")))
    assert warm == cold


@pytest.mark.parametrize("setting", ["TZ=Asia/Tokyo", "NODE_OPTIONS=--max-old-space-size=64", "X=1", "PATH=/bin", "EMPTY=",
                                     "HOME=/workspace", "LANG=de_DE.UTF-8", "NODE_ENV=test", "X=a=b", "FORCE_COLOR=1", "NO_COLOR=1"])
def test_settings_are_heeded(hotcell, setting):
    args = ("--env", setting, "--arg", "one", "--arg", "", "-c", "console.log(process.env, new Date(0).getHours(),"
            " Intl.DateTimeFormat().resolvedOptions(), require('v8').getHeapStatistics().heap_size_limit < 2 ** 27,"
            " process.argv, { colors: [1] })")
    assert outcome(hotcell, "vm", *args) == outcome(hotcell, "container", *args)


@pytest.mark.parametrize("code", ["process.stdin.on('data', (d) => console.log(d.length)).on('end', () => console.log('end'))",
                                  "console.log(require('fs').readFileSync(0, 'utf8').length)",
                                  "(async () => { for await (const l of require('readline').createInterface(process.stdin))"
                                  " console.log(l.length) })()",
                                  "require('readline').createInterface({ input: process.stdin }).question('?', (a) =>"
                                  " { console.log(a.length); process.exit(2) })",
                                  "console.log('reads nothing')"])
def test_input_comes_alike(hotcell, code):
    results = [hotcell.run("-l", "javascript", "--isolation", isolation, "--stdin", "-", "-c", code, input=b"one\ntwo\n" * 10)
               for isolation in ("vm", "container")]
    assert [(r.code, r.out, r.err) for r in results] == [(results[1].code, results[1].out, results[1].err)] * 2


@pytest.mark.parametrize("memory", ["128M", "2G"])
def test_the_heap_is_as_large_as_where_there_is_plenty(hotcell, memory):
    """Node takes its size from the memory that it finds, and that was the snapshot's."""
    code = "console.log(require('v8').getHeapStatistics().heap_size_limit / 2 ** 20)"
    assert outcome(hotcell, "vm", "--memory", memory, "-c", code)[0] == "4144\n"


def test_all_of_the_memory_can_be_used(hotcell):
    code = "const a = []; for (let i = 0; i < 60; i++) a.push(new Array(1e6).fill(1.5)); console.log('ok')"
    assert outcome(hotcell, "vm", "--memory", "2G", "-c", code) == ("ok\n", "", 0, "exited", [])


@pytest.mark.parametrize("memory", ["64M", "512M"])
def test_a_leak_ends_at_the_limit(hotcell, memory):
    code = "const a = []; for (let i = 0;; i++) a.push({ i, s: 'x' + i })"
    assert outcome(hotcell, "vm", "--memory", memory, "-c", code)[2:4] == (137, "memory_limit")


@pytest.mark.parametrize("code", ["for (let i = 0; i < 3e6; i++) { let o = { a: i, b: [i] } }",
                                  "for (let i = 0; i < 300; i++) Buffer.from('x'.repeat(1 << 20) + i)",
                                  "for (let i = 0; i < 200; i++) new Array(250000).fill(1.5)"])
def test_garbage_is_collected_before_the_limit(hotcell, code):
    assert outcome(hotcell, "vm", "--memory", "128M", "-c", code) == ("", "", 0, "exited", [])


def test_a_package_further_up_is_heeded(hotcell, tmp_path):
    (tmp_path / "package.json").write_text('{"type": "module"}')
    args = ("-f", tmp_path / "package.json", "--entry", "src/deep/x.js", "-c", "console.log(typeof require, import.meta.url)")
    assert outcome(hotcell, "vm", *args) == outcome(hotcell, "container", *args)
    assert outcome(hotcell, "vm", *args)[0] == "undefined file:///workspace/src/deep/x.js\n"
