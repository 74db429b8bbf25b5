// warm: `node warm.js [MODULE…]` loads the modules, warms itself, and waits for a program to run.
//
// It is what a warm cell's snapshot is made of: the machine is stopped while this waits in its first
// read, and every run starts from there, once. What a request is made of, ../python/warm.py tells.
//
//     node        calls process.emit('beforeExit') whenever it has nothing left to do. As long as we
//                 warm up, that is us: each time we run a sample program, as the real one will be run.
//     the last    of these times we read the request, and run that. From then on node is left alone:
//                 it runs timers and whatever else the program has started, until nothing is left.
//     'exit'      comes at the very end. Behind the program's own listeners we tell the status; the
//                 machine goes back to its snapshot, and nothing after that ever happens.
//
// A program that fails ends in another way: node prints why and exits, and the machine takes that for
// the end of the run as well. It takes longer, since node cleans up before.
//
// Stack traces. Node itself is always at the bottom of them, and a program should find the same there
// as ever: so each of our functions that calls the program looks like the function of node's in whose
// place it stands, by name and by position (makeFrame).
'use strict';

const fs = require('node:fs');
const Module = require('node:module');
const path = require('node:path');
const v8 = require('node:v8');
const vm = require('node:vm');
const { showLastLine } = require('./last_line.js');

const REQUESTS = 999;
const SEED_SIZE = 32;
const REQUEST_SIZE = (128 << 10) + SEED_SIZE + 1;
const WORKSPACE = '/workspace';
const ROUNDS = 60;

// ---- frames ----

// What stands below the first line of a program: the same as below this one of ours.
const below = new Error().stack.split('\n').slice(3);

// { name, file, line, column } of `    at name (file:line:column)` or `    at file:line:column`.
function parseFrame(text) {
	const { 1: name, 2: file, 3: line, 4: column } =
		/^ +at (?:(.*) \()?(.*?):(\d+):(\d+)\)?$/.exec(text);

	return { name, file, line: Number(line), column: Number(column) };
}

// A function that looks like `frame` in a stack trace. Its text is an expression: of something that is
// given, `next`, it makes the function. The call whose place counts stands on a second line,
// and how far to the right it must be is found out by a trial.
function makeFrame(frame, { before, call, next, trial }) {
	const make = (spaces, given) => {
		const text = `${before}\n${' '.repeat(spaces)}${call}`;
		const options = { filename: frame.file, lineOffset: frame.line - 2 };
		const made = new vm.Script(text, options).runInThisContext()(given);

		Object.defineProperty(made, 'name', { value: frame.name ?? '' });
		return made;
	};
	let column = 0;

	trial(make, () => {
		({ column } = parseFrame(new Error().stack.split('\n')[2]));
	});
	return make(Math.max(frame.column - column, 0), next);
}

// Has a main module compiled and run, with all of node's frames below it but the lowest.
function makeRun(frames) {
	let run = makeFrame(frames[0], {
		before: '() => (m, text, filename) =>',
		call: 'm._compile(text, filename)',
		trial: (make, note) => make(0)({ _compile: note }),
	});

	for (const frame of frames.slice(1))
		run = makeFrame(frame, {
			before: '(next) => (main, text, filename) =>',
			call: 'next(main, text, filename)',
			next: run,
			trial: (make, note) => make(0, note)(),
		});
	return run;
}

// The lowest: `prepare` says of what to call runMain, and with what.
function makeLowest(frame, prepare) {
	return makeFrame(frame, {
		before: '(prepare) => (event) => { const { 0: o, 1: filename } = prepare(event);',
		call: 'o.runMain(filename); }',
		next: prepare,
		trial: (make, note) => make(0, () => [{ runMain: note }])(),
	});
}

// ---- requests ----

const request = Buffer.allocUnsafeSlow(REQUEST_SIZE);
let seed;

function receive() {
	const length = fs.readSync(REQUESTS, request, 0, REQUEST_SIZE, null) - SEED_SIZE;

	seed = request.subarray(length, length + SEED_SIZE);
	return length;
}

function parse(length) {
	let at = 0;
	const take = () => {
		const end = request.indexOf(0, at);
		const field = request.utf8Slice(at, end);

		at = end + 1;
		return field;
	};
	const takeList = () => {
		const list = [];

		for (let left = Number(take()); left > 0; left--)
			list.push(take());
		return list;
	};

	return {
		flags: take(),
		filename: take(),
		args: takeList(),
		env: takeList(),
		text: request.utf8Slice(at, length),
	};
}

// ---- running ----

// The module that node would make for `node filename`.
function makeMain(filename) {
	const main = new Module(filename, null);

	main.id = '.';
	main.filename = filename;
	main.paths = Module._nodeModulePaths(main.path);
	for (const symbol of Object.getOwnPropertySymbols(module))
		main[symbol] = symbol.description === 'kIsMainSymbol';
	process.mainModule = main;
	if (Module.prototype.require.main)
		Module.prototype.require.main = main;
	Module._cache[filename] = main;
	Module._pathCache[`${filename}\0`] = filename;
	return main;
}

// Whether it is clear without a look at other files what kind of module a text is. What has the syntax
// of an ES module, node finds out itself.
function isPlain(filename) {
	const ending = path.extname(filename);

	return ending === '.cjs' || ((ending === '.js' || ending === '') &&
		!fs.existsSync(`${path.dirname(filename)}/package.json`));
}

// Math.random() takes its seed from this setting, if there is one, when it is first called: so nobody
// may have called it before. The setting stays, for contexts that a program makes; threads
// would all have the same numbers by it, and without it have their own.
function freshRandomness() {
	v8.setFlagsFromString(`--random-seed=${request.readInt32LE(seed.byteOffset) | 1}`);
	Math.random();
	v8.setFlagsFromString(`--random-seed=${request.readInt32LE(seed.byteOffset + 4) | 1}`);
	process.once('worker', () => v8.setFlagsFromString('--random-seed=0'));
}

// What node's lowest frame calls: an object with runMain(), and what that is called with.
function prepare({ flags, filename, args, env, text }, run) {
	process.argv.splice(1, process.argv.length, filename, ...args);
	for (const setting of env) {
		const at = setting.indexOf('=');

		process.env[setting.slice(0, at)] = setting.slice(at + 1);
	}
	if (flags.includes('l'))
		showLastLine();
	/^/.exec(''); // as node does: RegExp.$1 and its like are the program's own
	if (!text || !isPlain(filename))
		return [Module, filename];

	const main = makeMain(filename);

	// Bound functions are not seen in a stack trace.
	return [{ runMain: run.bind(undefined, main, text, filename) }];
}

// ---- the end ----

let isFailing = false;

function tell(status) {
	fs.writeSync(REQUESTS, Buffer.concat([Buffer.from([status]), seed]));
}

// The program's own listeners come after this one, and are called by it.
function onExit(status) {
	if (isFailing)
		return;

	const listeners = process.rawListeners('exit');

	for (const listener of listeners.slice(listeners.indexOf(onExit) + 1))
		Reflect.apply(listener, process, [status]);
	tell(Number(process.exitCode ?? 0) & 0xff);
}

// Node emits 'exit' before it prints what has happened.
function noteFailures() {
	const handle = process._fatalException;

	process._fatalException = function (...args) {
		const before = isFailing;

		isFailing = true;
		try {
			return Reflect.apply(handle, this, args);
		} finally {
			isFailing = before;
		}
	};
}

// ---- warming up ----

const SAMPLE = `
const { x, ...rest } = { x: 1, y: [2] };
class C { constructor() { this.v = new Map([[1, 'a']]); } get() { return this.v.get(1); } }
function f(n) { return n < 2 ? n : f(n - 1) + f(n - 2); }
console.log(2 + 2, 'text', [1, 2, 3].map((n) => n * 2), { a: 1, b: rest }, new C().get(), f(3));
console.log(JSON.stringify({ a: [1, 2] }), \`\${1 + 1}\`, 'a-b'.split('-'), Object.keys(rest));
console.error('text');
`;

let round = 0;

function sample() {
	const filename = `/sample/${round}.js`;

	return { flags: '', filename, args: ['a'], env: [], text: SAMPLE };
}

function forgetSamples() {
	for (const filename in Module._cache)
		delete Module._cache[filename];
	for (const key in Module._pathCache)
		delete Module._pathCache[key];
	for (const symbol of Object.getOwnPropertySymbols(module))
		delete module[symbol];
}

// ---- all together ----

const frames = below.map(parseFrame);
const lowest = frames.pop();
const run = makeRun(frames);

// Another round of the event loop: it must not end before 'beforeExit' came to the program.
function goOn() {
	setImmediate(() => {});
}

function next(event) {
	if (event !== 'beforeExit') { // warming up has failed: node says how
		delete process.emit;
		return [{ runMain() {} }];
	}
	goOn();
	if (round++ < ROUNDS)
		return prepare(sample(), run);
	forgetSamples();

	const length = receive();

	delete process.emit;
	freshRandomness();
	return prepare(parse(length), run);
}

for (const name of process.argv.splice(2))
	try {
		require(name);
	} catch {
		// what this node does not have cannot be warm
	}
if (typeof process._fatalException === 'function') {
	noteFailures();
	process.on('exit', onExit);
}

process.emit = makeLowest(lowest, next).bind(undefined);
