// last_line: `node last_line.js FILE [ARGS]` runs FILE as `node FILE ARGS` would and then, if its
// last statement is an expression, prints the value of that as the REPL does.
//
//   - undefined is not printed; an error prints nothing here, only what node prints.
//   - A promise is printed as what it came to, once the program has nothing left to do: a last line
//     `main()` should show main's result, not "Promise { <pending> }".
//   - `await` outside of functions works beside require(), as in the REPL.
//   - ES modules run as always but print no value: a module has none, and node offers no place to
//     change one. So does a file that has `return` outside of functions.
//
// How: the text is changed just before node compiles it, so that the module's function returns the
// value: `a; b` becomes `a; return (b)`. Lines keep their numbers; if the last line itself fails,
// node shows it with the `return`. The completion value of eval() would need no change to the text,
// but code in eval ran sixty times slower here.
'use strict';

const Module = require('node:module');
const path = require('node:path');
const util = require('node:util');
const vm = require('node:vm');

const compileAsNode = Module.prototype._compile;

let loaded;

// Node has a JavaScript parser for its own REPL. It is not offered to programs, but its text is.
function loadParser() {
	if (loaded)
		return loaded;

	const text = process.binding('natives')['internal/deps/acorn/acorn/dist/acorn'];
	const parser = {};

	vm.compileFunction(text, ['exports', 'module'])(parser, {});
	loaded = parser;
	return parser;
}

// For who will need it soon: a parser that has never parsed is slow.
function warmUp() {
	for (let i = 0; i < 20; i++)
		rewriteOrLeave(`const f = (x) => x * ${i}; async function g() { await f(1); }\nfor (const a of [1]) console.log(a);\n1 + 1`);
}

// Whether there is an await that is not within a function.
function hasAwait(node) {
	if (Array.isArray(node))
		return node.some(hasAwait);
	if (typeof node?.type !== 'string' || node.type.includes('Function'))
		return false;
	return node.type === 'AwaitExpression' || node.await === true ||
		Object.values(node).some(hasAwait);
}

// The statements of a file, and whether they need an async function. Throws at a syntax error.
function parse(text) {
	const parser = loadParser();
	const options = { ecmaVersion: 'latest', sourceType: 'script', allowHashBang: true };

	if (text.includes('await')) {
		const withAwait = { ...options, allowAwaitOutsideFunction: true };
		const { body } = parser.parse(text, withAwait);

		if (hasAwait(body))
			return { body, isAsync: true };
	}
	return { body: parser.parse(text, options).body, isAsync: false };
}

// The text of a module whose function returns the value of the last expression.
function rewrite(text) {
	const { body, isAsync } = parse(text);
	const last = body.findLast((statement) => statement.type !== 'EmptyStatement');

	if (last?.type === 'ExpressionStatement') {
		const end = text[last.end - 1] === ';' ? last.end - 1 : last.end;

		text = text.slice(0, last.start) + 'return (' + text.slice(last.start, end) + ')' +
			text.slice(end);
	}
	// Still on the first line, where what node takes for a comment at the start is none here.
	return isAsync ? `return (async () => {${text.replace(/^#!/, '//')}\n})()` : text;
}

// Where rewriting fails the file is left alone: node says what is wrong with it, if anything.
function rewriteOrLeave(text) {
	try {
		return rewrite(text);
	} catch {
		return text;
	}
}

function echo(value) {
	if (value !== undefined)
		process.stdout.write(util.inspect(value, { showProxy: true }) + '\n');
}

// When node has nothing left to do, a promise that failed and that nobody caught has long ended the
// program: so to catch it only then hides nothing.
function echoAtEnd(promise) {
	process.once('beforeExit', () => promise.then(echo, () => {}));
}

// The next file that is run is the program: node calls this for it first, and for what that requires
// after.
function showLastLine() {
	Module.prototype._compile = function _compile(content, ...rest) {
		Module.prototype._compile = compileAsNode;

		const text = rewriteOrLeave(content);
		const value = compileAsNode.call(this, text, ...rest);

		if (text === content) // then it is what a `return` of the file's own gave
			return value;
		if (util.types.isPromise(value))
			echoAtEnd(value);
		else
			echo(value);
		return value;
	};
}

module.exports = { hasAwait, loadParser, showLastLine, warmUp };

if (require.main === module) {
	showLastLine();
	delete require.cache[__filename];
	process.argv.splice(1, 2, path.resolve(process.argv[2]));
	Module.runMain(process.argv[1]);
}
