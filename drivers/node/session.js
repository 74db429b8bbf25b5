// session: programs that come one after the other into the same interpreter, and find what those before them have
// left, as in a notebook. warm.js starts it when a request asks for that.
//
//   - A program is a script, not a module: what it declares at its top stays. A name may be declared again, and again
//     as something else; so `const` holds within a program only.
//   - `await` works at the top, and so do `import` and `export`: the former is made of import(), the latter means
//     nothing. require(), module, exports, __filename and __dirname are there.
//   - A program is over when there is nothing left to do for it: its timers have run, its promises are settled.
//     What one before it has left running, it does not wait for. In between nothing happens at all.
//   - What it throws is printed, and gives the status 1; all is kept. process.exit() ends the program, not node.
//   - SIGINT ends it, too, wherever it is, but for code that never returns to the event loop after an await.
//
// How: declarations become assignments, `const a = 1` is `void (a = 1)`, and the names are declared by us before, by
// `let`, once. Lines keep their numbers. What cannot be understood is left as it is: node says what is wrong.
'use strict';

const fs = require('node:fs');
const Module = require('node:module');
const net = require('node:net');
const path = require('node:path');
const util = require('node:util');
const { Script, constants: vmConstants } = require('node:vm');
const { hasAwait, loadParser } = require('./last_line.js');

const INTERRUPTED = 130;
const UNSETTLED = 13; // node's own for an await that nothing will ever end
const POLL_MS = 5;

let parser;

// ---- from declarations to assignments ----

const ignored = new Set(['undefined', 'NaN', 'Infinity']);
const declared = new Set(); // by us

function parse(text) {
	const options = { ecmaVersion: 'latest', allowHashBang: true, allowAwaitOutsideFunction: true };

	parser ??= loadParser();
	try {
		return { body: parser.parse(text, { ...options, sourceType: 'script' }).body, isModule: false };
	} catch (error) {
		if (!/^[ \t]*(import|export)\b/m.test(text))
			throw error;
		return { body: parser.parse(text, { ...options, sourceType: 'module' }).body, isModule: true };
	}
}

function namesOf(pattern) {
	switch (pattern?.type) {
	case 'Identifier':
		return [pattern.name];
	case 'ObjectPattern':
		return pattern.properties.flatMap((p) => namesOf(p.type === 'RestElement' ? p.argument : p.value));
	case 'ArrayPattern':
		return pattern.elements.flatMap(namesOf);
	case 'AssignmentPattern':
		return namesOf(pattern.left);
	case 'RestElement':
		return namesOf(pattern.argument);
	default:
		return [];
	}
}

class Rewriting {
	names = new Set();
	functions = [];
	#edits = [];

	constructor(text) {
		this.text = text;
	}

	replace(start, end, by) {
		this.#edits.push({ start, end, by });
	}

	// The keyword goes; what has no value gets one, unless it is a `var`, which keeps its own.
	declaration(node, before, after) {
		this.replace(node.start, node.declarations[0].start, before);
		for (const { id, init, end } of node.declarations) {
			namesOf(id).forEach((name) => this.names.add(name));
			if (!init && node.kind !== 'var')
				this.replace(end, end, ' = undefined');
		}
		if (!after)
			return;
		if (this.text[node.end - 1] === ';')
			this.replace(node.end - 1, node.end, after);
		else
			this.replace(node.end, node.end, after);
	}

	// A `var` belongs to the whole program, however deep it stands.
	vars(node) {
		if (Array.isArray(node))
			return node.forEach((child) => this.vars(child));
		if (typeof node?.type !== 'string' || /Function|^Class/.test(node.type))
			return;
		if (node.type === 'VariableDeclaration')
			return node.kind === 'var' && this.declaration(node, 'void (', ');');
		if (node.type === 'ForStatement' && node.init?.kind === 'var')
			this.declaration(node.init, '', '');
		if (/^For(In|Of)/.test(node.type) && node.left.kind === 'var')
			this.declaration(node.left, '', '');
		for (const key in node)
			if (!(key === 'init' && node.init?.kind === 'var') && !(key === 'left' && node.left?.kind === 'var'))
				this.vars(node[key]);
	}

	importing(node) {
		const source = `await import(${node.source.raw})`;
		const parts = [];
		let whole;

		for (const { type, local, imported } of node.specifiers) {
			this.names.add(local.name);
			if (type === 'ImportNamespaceSpecifier')
				whole = local.name;
			else
				parts.push(`${type === 'ImportSpecifier' ? imported.raw ?? imported.name : 'default'}: ${local.name}`);
		}
		const target = whole ? `(${whole} = ${source})` : source;

		this.replace(node.start, node.end, parts.length ? `void ({ ${parts.join(', ')} } = ${target});` : `void ${target};`);
	}

	exporting(node) {
		if (node.source || !node.declaration)
			return this.replace(node.start, node.end, ';');
		this.replace(node.start, node.declaration.start, '');
		if (node.declaration.id || node.declaration.declarations)
			this.statement(node.declaration);
	}

	statement(node) {
		switch (node.type) {
		case 'VariableDeclaration':
			return this.declaration(node, 'void (', ');');
		case 'ClassDeclaration':
			this.names.add(node.id.name);
			this.replace(node.start, node.start, `${node.id.name} = `);
			return this.replace(node.end, node.end, ';');
		case 'FunctionDeclaration':
			this.functions.push(node);
			return undefined;
		case 'ImportDeclaration':
			return this.importing(node);
		case 'ExportNamedDeclaration':
		case 'ExportDefaultDeclaration':
		case 'ExportAllDeclaration':
			return this.exporting(node);
		default:
			return this.vars(node);
		}
	}

	// One whose name is a variable already becomes its value.
	assignFunctions() {
		for (const node of this.functions)
			if (declared.has(node.id.name) || this.names.has(node.id.name)) {
				this.replace(node.start, node.start, `void (${node.id.name} = `);
				this.replace(node.end, node.end, ');');
			}
	}

	toString() {
		let { text } = this;

		// Behind each other where they are at one place: the later one was meant to be behind.
		for (const { start, end, by } of this.#edits.map((edit, i) => ({ ...edit, i }))
			.sort((a, b) => b.start - a.start || b.end - a.end || b.i - a.i))
			text = text.slice(0, start) + by + text.slice(end);
		return text;
	}
}

// What to run, which names it needs, and whether its value is that of a last expression.
function rewrite(text) {
	const { body, isModule } = parse(text);
	const r = new Rewriting(text);
	const last = body.findLast((statement) => statement.type !== 'EmptyStatement');
	const isAsync = isModule || hasAwait(body);

	body.forEach((node) => r.statement(node));
	r.assignFunctions();
	if (isAsync && last?.type === 'ExpressionStatement') {
		r.replace(last.start, last.start, 'return (');
		r.replace(text[last.end - 1] === ';' ? last.end - 1 : last.end, last.end, ');');
	}

	const hoisted = r.functions.map(({ id }) => id.name).filter((name) => !declared.has(name) && !r.names.has(name));
	const head = hoisted.map((name) => `globalThis[${JSON.stringify(name)}] = ${name};`).join(' ');
	const code = r.toString();

	return {
		code: isAsync ? `(async () => {${head}${code.replace(/^#!/, '//')}\n})()` : code,
		names: r.names,
		isAsync,
		hasValue: last?.type === 'ExpressionStatement',
	};
}

// Some names cannot be: they are functions of a program before, which can be assigned to as well.
function declare(names) {
	for (const name of names) {
		if (declared.has(name) || ignored.has(name))
			continue;
		try {
			new Script(`let ${name};`).runInThisContext();
			declared.add(name);
		} catch {
			// assigned to
		}
	}
}

// ---- one program ----

const EXIT = Symbol('process.exit');
const { kill } = process;
const importModuleDynamically = vmConstants?.USE_MAIN_CONTEXT_DEFAULT_LOADER ?? ((name) => import(name));

let io; // { next(), answer(status) }
let isRunning = false; // a program's turn
let inScript = false; // in its first, synchronous part
let isEvaluated = false; // nothing is awaited at its top
let isExiting = false;
let status = 0;
let streams = 0; // what node counts for stdout and stderr
let before = 0; // how much was going on when it began
let poll;
let shownLast; // a promise

function tell(error) {
	const text = error instanceof Error || typeof error?.stack === 'string' ? error.stack :
		`Uncaught ${util.inspect(error)}`;
	const lines = text.split('\n');
	const ours = lines.findIndex((line) => /^ +at .*(node:vm:|drivers\/node\/(session|warm)\.js)/.test(line));
	const shown = (ours < 0 ? lines : lines.slice(0, ours)).join('\n');
	const more = error instanceof Error ? { ...error } : {};

	if (error?.cause !== undefined)
		more.cause = error.cause;
	process.stderr.write(`${shown}${Object.keys(more).length ? ` ${util.inspect(more)}` : ''}\n`);
}

function fail(error) {
	isEvaluated = true;
	if (isExiting || error === EXIT) {
		finish();
	} else {
		status = 1;
		tell(error);
	}
}

function echo(value) {
	if (value !== undefined)
		process.stdout.write(util.inspect(value, { showProxy: true }) + '\n');
}

// A promise is shown as what it came to, when there is nothing left to do: that one failed and nobody caught it, is
// known by then, and to catch it hides nothing.
function show(value, isWanted) {
	if (isWanted && util.types.isPromise(value))
		shownLast = value;
	else if (isWanted)
		echo(value);
}

// What began the program is none of it, and nobody waits for the standard streams.
function goingOn() {
	return (process.getActiveResourcesInfo?.().filter((name) => name !== 'Immediate').length ?? 0) - streams;
}

// There may be something left of a program before, for which node would wait without end.
function watch() {
	if (before)
		poll = setInterval(() => goingOn() <= before + 1 && onIdle(), POLL_MS);
}

function onIdle() {
	if (!shownLast || status)
		return finish();
	shownLast.then(echo, () => {});
	shownLast = undefined;
	setImmediate(() => {}); // then it is idle again
}

function finish() {
	if (!isRunning)
		return;
	isRunning = false;
	shownLast = undefined;
	clearInterval(poll);
	if (!isExiting && !status && !isEvaluated)
		status = UNSETTLED;
	io.answer(isExiting || !status ? Number(process.exitCode ?? status) & 0xff : status);
	evaluateNext(io.next());
}

function evaluateNext(request) {
	setImmediate(() => evaluate(request));
}

function runScript({ code, isAsync, hasValue }, { filename, flags }) {
	const script = new Script(code, { filename, importModuleDynamically });
	const isWanted = flags.includes('l') && hasValue;

	inScript = true;
	const value = script.runInThisContext({ breakOnSigint: true });

	inScript = false;
	if (!isAsync) {
		isEvaluated = true;
		show(value, isWanted);
		return;
	}
	value.then((result) => {
		isEvaluated = true;
		show(result, isWanted);
	}, fail);
}

function understand(text) {
	try {
		return rewrite(text);
	} catch {
		return { code: text, names: [], isAsync: false, hasValue: false };
	}
}

function evaluate(request) {
	begin(request);
	try {
		const text = request.text || fs.readFileSync(request.filename, 'utf8');
		const program = understand(text.replace(/^\ufeff/, ''));

		declare(program.names);
		runScript(program, request);
	} catch (error) {
		const isInterrupted = error?.code === 'ERR_SCRIPT_EXECUTION_INTERRUPTED';

		inScript = false;
		isEvaluated = true;
		if (isInterrupted)
			freeStreams();
		if (isInterrupted && !isExiting)
			onInterrupt();
		else
			fail(error);
	}
}

// ---- what it finds ----

let hadInput = false;

// Of what another program was given to read, nothing is left. Descriptor 0 is the new one already.
function renewInput(hasInput) {
	let stream;

	if (!hasInput && !hadInput)
		return;
	hadInput = hasInput;
	Object.defineProperty(process, 'stdin', {
		get() {
			stream ??= fs.fstatSync(0).isFIFO() ? new net.Socket({ fd: 0, readable: true, writable: false }) :
				fs.createReadStream(null, { fd: 0, autoClose: false });
			return stream;
		},
		enumerable: true,
		configurable: true,
	});
}

function begin({ flags, filename, args, env }) {
	isRunning = true;
	isEvaluated = isExiting = false;
	status = 0;
	process.exitCode = undefined;
	process.argv.splice(1, process.argv.length, filename, ...args);
	for (const setting of env) {
		const at = setting.indexOf('=');

		process.env[setting.slice(0, at)] = setting.slice(at + 1);
	}
	renewInput(flags.includes('s'));
	before = goingOn();
	watch();
}

// The program may have been ended in the middle of a write, which the stream would wait for.
function freeStreams() {
	for (const stream of [process.stdout, process.stderr]) {
		const state = stream._writableState;

		if (!state)
			continue;
		Object.assign(state, { writing: false, bufferProcessing: false, corked: 0, length: 0, pendingcb: 0,
			needDrain: false, buffered: [], bufferedIndex: 0, allBuffers: true, allNoop: true });
		stream._pendingData = null;
		stream._pendingEncoding = '';
	}
}

function onInterrupt() {
	if (!isRunning)
		return;
	status = INTERRUPTED;
	process.exitCode = undefined;
	process.stderr.write('Interrupted\n');
	finish();
}

// In the first part of a program nothing can catch it: it ends itself as by Ctrl-C.
function exit(code) {
	if (code !== undefined)
		process.exitCode = code;
	isExiting = true;
	if (inScript) {
		kill.call(process, process.pid, 'SIGINT');
		for (;;)
			; // until then
	}
	throw EXIT;
}

// What import() in a script needs, node calls an experiment, at its first use.
function hushLoader() {
	const { emitWarning } = process;

	process.emitWarning = function (warning, ...rest) {
		if (!/USE_MAIN_CONTEXT_DEFAULT_LOADER/.test(warning?.message ?? warning))
			Reflect.apply(emitWarning, this, [warning, ...rest]);
	};
}

function setUp(filename) {
	const main = new Module(filename, null);

	main.id = '.';
	main.filename = filename;
	main.paths = Module._nodeModulePaths(path.dirname(filename));
	process.mainModule = main;
	Object.assign(globalThis, {
		module: main,
		exports: main.exports,
		require: Module.createRequire(filename),
		__filename: filename,
		__dirname: path.dirname(filename),
	});
	for (const name of ['module', 'exports', 'require', '__filename', '__dirname'])
		Object.defineProperty(globalThis, name, { enumerable: false });
	process.exit = exit;
	process.on('uncaughtException', fail);
	process.on('SIGINT', onInterrupt);
	process.on('beforeExit', onIdle);
	hushLoader();
}

function start(request, given) {
	io = given;
	setUp(request.filename);
	void [process.stdout, process.stderr]; // they are there from now on
	streams = goingOn();
	evaluateNext(request);
}

// The parser takes longer to load than most programs take.
function warmUp() {
	rewrite("const a = 1; let { b, c: [d] } = { b: 1, c: [2] }; function f() {} class C {}\nawait f(a); import('x')");
	rewrite("import x, { y as z } from 'x';\nexport const w = 1; for (var i = 0; i < 3; i++) { var v = i }");
}

module.exports = { start, warmUp };
