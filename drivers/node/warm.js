// warm: `node warm.js [MODULE…]` loads the modules, warms itself, and waits for a program to run.
//
// In a machine it is what a snapshot is made of: the machine is stopped while this waits in its first
// read, and every run starts from there, once. In a container it waits for its one run as it is. What a
// request is made of, ../python/warm.py tells.
//
//     'beforeExit'  is what node emits when it has nothing left to do. While we warm up that is us, in
//                   place of process.emit(): each time we run a sample as the program will be run.
//     the last      of these times we read the request, and run that. From then on node is left alone:
//                   it runs timers and whatever else the program has started, until nothing is left.
//     'exit'        comes at the very end. Behind the program's own listeners we tell the status; the
//                   machine goes back to its snapshot, and nothing after that ever happens. In a container
//                   we end the process then, without the cleaning up that node would do.
//
// A program that fails ends in another way: node prints why and exits. We tell the status ahead. And
// whatever exits otherwise ends its run, too; it takes longer, since node cleans up before.
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
const { showLastLine, warmUp } = require('./last_line.js');
const session = require('./session.js');

const REQUESTS = 999;
const ANSWERS = 998;
const FIFO = '/tmp/.hotcell/stdin';
const SEED_SIZE = 64;
const REQUEST_SIZE = (128 << 10) + SEED_SIZE + 1;

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

const requestBytes = Buffer.allocUnsafeSlow(REQUEST_SIZE);

function isOpen(fd) {
	try {
		fs.fstatSync(fd);
		return true;
	} catch {
		return false;
	}
}

const byPipes = isOpen(REQUESTS);
let hasProgram = false; // there

function openInput(flags) {
	if (!flags.includes('n') && !flags.includes('i')) // no RegExp: what one has matched is the program's to see
		return;
	fs.closeSync(0);
	fs.openSync(flags.includes('n') ? '/dev/null' : FIFO);
	if (flags.includes('i'))
		fs.writeSync(ANSWERS, 'o');
}

// Its length in digits comes first.
function receiveByPipes() {
	let size = 0;
	let head;

	if (!hasProgram)
		fs.writeSync(ANSWERS, 'r');
	do {
		const n = fs.readSync(REQUESTS, requestBytes, size, REQUEST_SIZE - size, null);

		if (n === 0)
			process.reallyExit(0); // there will be none
		size += n;
		head = requestBytes.indexOf(0) + 1;
	} while (size < head + Number(requestBytes.latin1Slice(0, head - 1)));
	requestBytes.copyWithin(0, head, size);
	hasProgram = true;
	openInput(requestBytes.latin1Slice(0, requestBytes.indexOf(0)));
	return size - head - SEED_SIZE;
}

// The length of what came, without the seed behind it.
function receive() {
	if (byPipes)
		return receiveByPipes();
	return fs.readSync(REQUESTS, requestBytes, 0, REQUEST_SIZE, null) - SEED_SIZE;
}

function parse(all) {
	let at = 0;
	const take = () => {
		const end = all.indexOf('\0', at);
		const field = all.slice(at, end);

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
		filename: take(), // absolute
		args: takeList(),
		env: takeList(),
		text: all.slice(at),
	};
}

// ---- running ----

const knowsMain = 'main' in Module.prototype.require;

// The module that node would make for `node filename`.
function makeMain(filename) {
	const main = new Module(filename, null);

	main.id = '.';
	main.filename = filename;
	main.paths = Module._nodeModulePaths(main.path);
	for (const symbol of Object.getOwnPropertySymbols(module))
		main[symbol] = symbol.description === 'kIsMainSymbol';
	return main;
}

function becomeMain(filename) {
	const main = makeMain(filename);

	process.mainModule = main;
	if (knowsMain)
		Module.prototype.require.main = main;
	Module._cache[filename] = main;
	Module._pathCache[`${filename}\0`] = filename;
	return main;
}

// Most programs are alone, and have the same name, no arguments and no variables. Everything is in its place
// for one of those: what its request begins with, and its module.
let usualHead = 'not yet';
let usualMain;

function expectUsual(filename) {
	usualHead = `a\0${filename}\0` + '0\0'.repeat(2);
	usualMain = becomeMain(filename);
	process.argv.splice(1, process.argv.length, filename);
}

// Whether it is clear without a look at other files, like a package.json, what kind of module it is.
// What has the syntax of an ES module, node finds out itself.
function isPlain({ flags, filename, text }) {
	const ending = path.extname(filename);

	return text !== '' && (ending === '.cjs' || ((ending === '.js' || ending === '') && flags.includes('a')));
}

// Until somebody asks for the property, or sets it, that is noticed; then something is done, and it is as ever.
function onFirstUse(object, name, act) {
	const original = Object.getOwnPropertyDescriptor(object, name);
	const restore = () => {
		Object.defineProperty(object, name, original);
		act();
	};

	Object.defineProperty(object, name, {
		get() {
			restore();
			return original.value;
		},
		set(value) {
			restore();
			object[name] = value;
		},
		enumerable: original.enumerable,
		configurable: true,
	});
}

// V8 keeps an object of which a property has been redefined as a table, and code that uses it is several times as slow.
// It mends that for a new prototype, once something has been looked for below it by code that is warm.
function makeMathFast() {
	function Below() {}

	Below.prototype = Math;

	const below = new Below();

	for (let i = 0; i < 100; i++)
		below.anything; // eslint-disable-line no-unused-expressions
}

// Math.random() takes its seed from this setting, if there is one, when it is first called: so nobody
// may have called it before.
function seedRandom(at, nth = 0) {
	const seed = Number(`0x${requestBytes.latin1Slice(at, at + 8)}`) + 2 * nth;

	v8.setFlagsFromString(`--random-seed=${seed | 1}`);
}

// V8 looks through all of its settings for that, which takes as long as to compile a small program, and most of those have
// no use for it. So it is done when somebody asks for Math.random. Node's own code would not ask: it has had the function
// since its start, under this name, if it has any use for it.
function seedOnFirstUse() {
	const draws = (text) => /\bMathRandom\b/.test(text);

	if (Object.values(process.binding('natives')).some(draws))
		return false;
	onFirstUse(Math, 'random', () => {
		makeMathFast();
		seedRandom(answerAt + 1);
		Math.random();
		if (contexts)
			seedRandom(answerAt + 9, contexts);
	});
	makeMathFast();
	return true;
}

// Contexts that a program makes take theirs from it, too, and should neither have the program's own nor that of another
// one. They are made by these functions.
function seedContextsApart() {
	const seed = () => seedRandom(answerAt + 9, ++contexts);

	for (const name of ['createContext', 'runInNewContext', 'Script']) {
		let { value, enumerable } = Object.getOwnPropertyDescriptor(vm, name);

		Object.defineProperty(vm, name, {
			get() {
				seed();
				return value;
			},
			set(own) {
				value = own;
			},
			enumerable,
			configurable: true,
		});
	}
}

// Bound functions are not seen in a stack trace.
function runIn(main, text) {
	return [{ runMain: run.bind(undefined, main, text, main.filename) }];
}

// What node's lowest frame calls: an object with runMain(), and what that is called with.
function prepare(request) {
	const { flags, filename, args, env, text } = request;

	forgetModules();
	process.argv.splice(1, process.argv.length, filename, ...args);
	for (const setting of env) {
		const at = setting.indexOf('=');

		process.env[setting.slice(0, at)] = setting.slice(at + 1);
	}
	if (flags.includes('l'))
		showLastLine();
	return isPlain(request) ? runIn(becomeMain(filename), text) : [Module, filename];
}

// ---- the end ----

const { readSync, writeSync } = fs; // a program may change these
const { reallyExit } = process;
let isFailing = false;
let seedsLater = false;
let contexts = 0; // that a program has made, or is about to
let answerAt; // in requestBytes, where the seed is: one byte for the status, the seed, and a descriptor
let pipe;

// The first pipe is libuv's, and the first thing that it closes when node cleans up.
function firstPipe() {
	for (let fd = 3; fd < 64; fd++)
		try {
			if (fs.fstatSync(fd).isFIFO())
				return fd;
		} catch {
			// not open
		}
	return 0;
}

// At once, or when node has said why a program failed, and begins to clean up.
function tell(status, isLater) {
	if (byPipes && !hasProgram)
		return;
	requestBytes[answerAt] = status;
	requestBytes[answerAt + 1 + SEED_SIZE] = pipe;
	writeSync(byPipes ? ANSWERS : REQUESTS, requestBytes, answerAt, 1 + SEED_SIZE + (isLater ? 1 : 0), null);
}

// In a container: when we are told to, which is when the pipe ends, or may never be.
function end(status) {
	try {
		readSync(REQUESTS, requestBytes, 0, 1, null);
	} catch {
		// the program has closed it
	}
	reallyExit.call(process, status);
}

// The program's own listeners come after this one, and are called by it.
function onExit(status) {
	if (isFailing)
		return;

	const listeners = process.rawListeners('exit');

	for (let i = listeners.indexOf(onExit) + 1; i < listeners.length; i++)
		Reflect.apply(listeners[i], process, [status]);

	const told = Number(process.exitCode ?? 0) & 0xff;

	tell(told);
	if (hasProgram)
		end(told);
}

// Node emits 'exit' before it prints what has happened.
function noteFailures() {
	const handle = process._fatalException;

	process._fatalException = function (...args) {
		const before = isFailing;
		let isHandled = true;

		isFailing = true;
		try {
			isHandled = handle.apply(this, args);
		} finally {
			isFailing = before;
		}
		if (!isHandled && !byPipes)
			tell(Number(process.exitCode ?? 1) & 0xff, true);
		return isHandled;
	};
}

// ---- warming up ----

const LINES = `
class C { constructor() { this.v = new Map([[1, 'a']]); } get() { return this.v.get(1); } }
function f(n) { return n < 2 ? n : f(n - 1) + f(n - 2); }
console.log(2 + 2, 'text', [1, 2, 3].map((n) => n * 2), { a: 1, b: [2] }, new C().get(), f(3));
console.log(JSON.stringify({ a: [1, 2] }), \`\${1 + 1}\`, 'a-b'.split('-'), Object.keys({ c: 3 }));
console.error('text');
`;
const FAILS = `
process.once('uncaughtException', () => {});
setTimeout(() => Promise.resolve().then(() => console.log(new Error('sample'))), 1);
throw new Error('sample');
`;
const typed = process.execArgv.some((flag) => /-(strip|transform)-types$/.test(flag));

// Where most programs are like the last ones, those are what node is best prepared for. What has to be
// read from a file is written there, and each time under another name, since node remembers files.
const SAMPLES = [
	...Array(12).fill({ ending: '.mjs', text: `import fs from 'node:fs';${LINES}await import('node:path');` }),
	...Array(12).fill({ ending: '.cjs', text: FAILS }),
	...(typed ? Array(24).fill({ ending: '.ts', text: `enum E { A }\nconst x: number = E.A;${LINES}` }) : []),
	...Array(60).fill({ ending: '.js', text: LINES }),
];

// In a container they are for one run only: each kind once, and none that makes libuv start its threads, for whose
// end a program's own would have to wait.
if (byPipes)
	SAMPLES.splice(0, SAMPLES.length, ...new Set(SAMPLES.slice(12)));

let round = 0;
let samplesDir;

// A request as it would come.
function sample({ ending, text }) {
	const isFile = ending === '.mjs' || ending === '.ts';
	const filename = isFile ? `${samplesDir}/${round}${ending}` : `/sample/main${ending}`;
	const lists = ending === '.js' ? ['0', '0'] : ['1', 'a', '1', 'HOTCELL_SAMPLE=1'];

	if (isFile)
		fs.writeFileSync(filename, text);
	else
		expectUsual(filename);
	return requestBytes.write(['a', filename, ...lists, text + '0'.repeat(SEED_SIZE)].join('\0')) - SEED_SIZE;
}

// What comes at the end of a program.
function rehearseExit() {
	try {
		process.emit('exit', 0);
	} catch {
		// nobody wants to know how a sample ended
	}
	forgetModules();
	delete process.env.HOTCELL_SAMPLE;
}

function forgetModules() {
	for (const filename in Module._cache)
		delete Module._cache[filename];
	for (const key in Module._pathCache)
		delete Module._pathCache[key];
	delete process.mainModule;
	delete Module.prototype.require.main;
}

function forgetSamples() {
	process.off('beforeExit', onSampleEnd);
	goOnIfNeeded();
	fs.rmSync(samplesDir, { recursive: true });
	expectUsual('/workspace/main.js');
	seedContextsApart();
	seedsLater = seedOnFirstUse();
	/^/.exec(''); // as node does: RegExp.$1 and its like are the program's own
	if (byPipes)
		collectGarbage();
}

// What the samples have left would else be collected in the midst of the program, which takes longer than most programs.
function collectGarbage() {
	v8.setFlagsFromString('--expose-gc');
	vm.runInNewContext('gc')();
	v8.setFlagsFromString('--no-expose-gc');
}

// ---- all together ----

const frames = below.map(parseFrame);
const lowest = frames.pop();
const run = makeRun(frames);

// Node looks for work once more before it ends. It does so anyway if a program has begun anything that
// the event loop knows of.
function goOn() {
	setImmediate(() => {});
}

function next(event) {
	const isLast = round === SAMPLES.length;

	delete process.emit;
	if (event !== 'beforeExit') // warming up has failed: node says how
		return [{ runMain() {} }];
	if (isLast)
		forgetSamples();
	else
		goOn();

	const length = isLast ? receive() : sample(SAMPLES[round++]);
	const all = requestBytes.utf8Slice(0, length);

	answerAt = length - 1;
	if (isLast && !seedsLater) {
		seedRandom(length);
		Math.random();
	}
	if (all.length > usualHead.length && all.startsWith(usualHead))
		return runIn(usualMain, all.slice(usualHead.length));

	const request = parse(all);

	if (!request.flags.includes('k'))
		return prepare(request);
	forgetModules();
	return [{ runMain: session.start.bind(undefined, request) }, { next: nextRequest, answer: tell }];
}

// Those behind the first one that keeps what it leaves: see session.js.
function nextRequest() {
	const length = receive();

	answerAt = length - 1;
	return parse(requestBytes.utf8Slice(0, length));
}

const begin = makeLowest(lowest, next).bind(undefined);

function onSampleEnd() {
	rehearseExit();
	process.emit = begin;
	goOn();
}

// Each run has a number of its own, and node asks for it only at its start.
function askForPid() {
	Object.defineProperty(process, 'pid', {
		get() {
			const value = Number(fs.readlinkSync('/proc/self'));

			Object.defineProperty(process, 'pid',
				{ value, writable: false, enumerable: true, configurable: true });
			return value;
		},
		enumerable: true,
		configurable: true,
	});
}

// These are in no list of the event loop, though a program may wait for them: what listens to
// 'beforeExit', and WebAssembly, whose compiler has threads of its own.
function goOnIfNeeded() {
	process.on('newListener', (event) => {
		if (event === 'beforeExit')
			goOn();
	});
	onFirstUse(globalThis, 'WebAssembly', goOn);
}

// What our own start needs, and neither other processes nor threads should inherit. V8 has looked at the size of this
// heap; as long as it is set, it is also that of every thread's, whatever that asks for.
function hideOwnFlags() {
	const sizes = ['--max-old-space-size', '--max-semi-space-size'];
	const own = ['--no-memory-reducer', ...sizes];

	process.execArgv = process.execArgv.filter((flag) => !own.includes(flag.split('=')[0]));
	for (const name of sizes)
		v8.setFlagsFromString(`${name}=0`);
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
// By that setting all threads would have the same numbers; without it each has its own.
process.once('worker', () => v8.setFlagsFromString('--random-seed=0'));
hideOwnFlags();
samplesDir = fs.mkdtempSync('/tmp/sample-');
warmUp();
pipe = firstPipe();
process.on('beforeExit', onSampleEnd);
if (!byPipes) {
	session.warmUp();
	askForPid();
}
