/* The page /docs: shows what openapi.json says, and lets one try it. Everything is made with el(): text is never HTML,
 * so that nothing in an answer can become part of the page. */
"use strict";

const $ = (id) => document.getElementById(id);
const base = location.href.replace(/[?#].*$/, "").replace(/\/docs\/?$/, "");
let api;

/* ---- making elements ---- */

function el(tag, attributes, ...children) {
	const node = document.createElement(tag);
	for (const [name, value] of Object.entries(attributes || {})) {
		if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
		else if (value === true) node.setAttribute(name, "");
		else if (value !== false && value != null) node.setAttribute(name, value);
	}
	node.append(...children.flat(Infinity).filter((child) => child != null && child !== false));
	return node;
}

/* `code` in backticks, and paragraphs. */
function words(text) {
	return (text || "").split("`").map((part, i) => (i % 2 ? el("code", null, part) : part));
}

function paragraphs(text) {
	return (text || "").split("\n\n").map((part) => el("p", null, words(part)));
}

function withParams(path) {
	return path.split(/(\{[^}]+\})/).map((part) => (part[0] === "{" ? el("span", { class: "param" }, part) : part));
}

async function copy(text, button) {
	try {
		await navigator.clipboard.writeText(text);
	} catch {
		/* Only secure pages have a clipboard; the old way works everywhere. */
		const area = el("textarea", null, text);
		document.body.append(area);
		area.select();
		document.execCommand("copy");
		area.remove();
	}
	button.textContent = "copied";
	setTimeout(() => (button.textContent = "copy"), 1200);
}

/* `text` may be a function, for what changes. */
function codeBox(pre, text) {
	const button = el("button", { class: "copy", type: "button", onclick: () => copy(text(), button) }, "copy");
	return el("div", { class: "box" }, pre, button);
}

/* JSON with colours; anything else as it is. */
function coloured(text) {
	const token = /("(?:[^"\\]|\\.)*")(\s*:)?|(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)|\b(true|false|null)\b/g;
	const parts = [];
	let at = 0;
	for (const found of text.matchAll(token)) {
		const [all, string, colon, number] = found;
		const kind = colon ? "j-key" : string ? "j-text" : number ? "j-number" : "j-word";
		parts.push(text.slice(at, found.index), el("span", { class: kind }, string || all), colon || "");
		at = found.index + all.length;
	}
	return [...parts, text.slice(at)];
}

/* ---- schemas ---- */

function resolve(o) {
	while (o && o.$ref) {
		const { $ref, ...own } = o;
		o = { ...$ref.slice(2).split("/").reduce((at, key) => at[key], api), ...own };
	}
	return o;
}

/* What allOf says belongs to the schema itself. */
function whole(schema) {
	const o = { ...resolve(schema) };
	for (const part of o.allOf || []) {
		const other = whole(part);
		o.properties = { ...other.properties, ...o.properties };
		o.required = [...(other.required || []), ...(o.required || [])];
		o.description = o.description || other.description;
	}
	return o;
}

function typeName(schema) {
	const o = whole(schema);
	const alternatives = o.properties ? null : o.oneOf || o.anyOf;
	if ("const" in o) return JSON.stringify(o.const);
	if (o.enum) return o.enum.map((value) => JSON.stringify(value)).join(" | ");
	if (o.type === "array" && o.items) return `array of ${typeName(o.items)}`;
	if (alternatives) return [...new Set(alternatives.map(typeName))].join(" | ");
	if (Array.isArray(o.type)) return o.type.join(" | ");
	return (o.type || "any") + (o.format ? ` (${o.format})` : "");
}

function bounds(o) {
	const range = [o.minimum ?? o.minLength ?? o.minItems, o.maximum ?? o.maxLength ?? o.maxItems ?? o.maxProperties];
	const unit = o.minLength != null || o.maxLength != null ? " letters" : o.maxItems != null ? " items" : "";
	const list = [];
	if (range[0] != null && range[1] != null) list.push(`${range[0]} to ${range[1]}${unit}`);
	else if (range[0] != null) list.push(`from ${range[0]}${unit}`);
	else if (range[1] != null) list.push(`to ${range[1]}${unit}`);
	if (o.pattern) list.push(o.pattern);
	if (o.default !== undefined) list.push(`default ${JSON.stringify(o.default)}`);
	return list.join(" · ");
}

/* Where the fields of a schema are: its own, its items', or those of an alternative. */
function fieldsOf(schema) {
	const o = whole(schema);
	if (o.properties) return o;
	if (o.items) return fieldsOf(o.items);
	return (o.oneOf || []).map(fieldsOf).find(Boolean);
}

function field(name, schema, must, depth) {
	const o = whole(schema);
	const inner = depth < 6 && fieldsOf(o);
	return el("li", null,
		el("div", { class: "field" }, el("span", { class: "name" }, name), el("span", { class: "type" }, typeName(o)),
			must && el("span", { class: "must" }, "required"), el("span", { class: "bound" }, bounds(o))),
		el("div", { class: "words" }, words(o.description)),
		inner && el("details", { class: "more" }, el("summary", null, "fields"), fields(inner, depth + 1)));
}

function fields(schema, depth = 0) {
	const o = whole(schema);
	const must = new Set(o.required);
	const row = ([name, value]) => field(name, value, must.has(name), depth);
	return el("ul", { class: "fields" }, Object.entries(o.properties).map(row));
}

function showSchema(schema) {
	if (!schema) return [];
	const o = whole(schema);
	const inner = fieldsOf(o);
	const events = Object.entries(o["x-events"] || {});
	return [
		o.description && el("p", { class: "words" }, words(o.description)),
		(o.type === "array" || !inner) && el("p", { class: "media" }, typeName(o)),
		inner && fields(inner),
		events.map(([name, part]) => [el("p", { class: "media" }, `event: ${name}`), showSchema(part)]),
	];
}

/* Something that the schema allows, where it has no example. */
function sample(schema, depth = 0) {
	const o = whole(schema);
	if (o.examples) return o.examples[0];
	if (o.default !== undefined) return o.default;
	if (o.enum) return o.enum[0];
	if (o.properties && depth < 5) {
		const names = (o.required || Object.keys(o.properties)).filter((name) => o.properties[name]);
		return Object.fromEntries(names.map((name) => [name, sample(o.properties[name], depth + 1)]));
	}
	if (o.oneOf) return sample(o.oneOf[0], depth + 1);
	const type = Array.isArray(o.type) ? o.type[0] : o.type;
	if (type === "array") return o.items && depth < 5 && o.maxItems !== 0 ? [sample(o.items, depth + 1)] : [];
	return { string: "", integer: o.minimum || 0, number: 0, boolean: false, object: {} }[type] ?? null;
}

/* ---- an operation ---- */

function bodyType(operation) {
	return operation.requestBody ? Object.keys(operation.requestBody.content)[0] : null;
}

function exampleBody(operation) {
	const type = bodyType(operation);
	return type === "application/json" ? sample(operation.requestBody.content[type].schema) : null;
}

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

/* What one types in a shell. Parameters are left as they are: curl would take {…} for a list. */
function curlText(method, path, operation, values = {}, body = exampleBody(operation)) {
	const type = bodyType(operation);
	const streams = Object.values(operation.responses).some((one) => resolve(one).content?.["text/event-stream"]);
	const url = base + fillPath(path, (name) => (values[name] ? encodePath(name, values[name]) : name.toUpperCase()));
	const options = (streams ? "-N " : "") + (method === "GET" ? "" : `-X ${method} `);
	const lines = [`curl ${options}${quoted(url + queryText(operation, values))}`];
	if (needsKey(operation)) lines.push('-H "Authorization: Bearer $HOTCELL_API_KEY"');
	if (type === "application/json") {
		lines.push(`-H 'Content-Type: ${type}'`, `-d ${quoted(typeof body === "string" ? body : JSON.stringify(body))}`);
	} else if (type) {
		lines.push(type === "multipart/form-data" ? "-F 'file=@FILE'" : "--data-binary '@FILE'");
	}
	return lines.join(" \\\n  ");
}

function fillPath(path, valueOf) {
	return path.replace(/\{([^}]+)\}/g, (all, name) => valueOf(name));
}

/* A path within a path keeps its slashes. */
function encodePath(name, value) {
	return name === "path" ? value.split("/").map(encodeURIComponent).join("/") : encodeURIComponent(value);
}

function queryText(operation, values) {
	const query = new URLSearchParams();
	for (const parameter of operation.parameters || [])
		if (parameter.in === "query" && values[parameter.name]) query.set(parameter.name, values[parameter.name]);
	return query.size || [...query].length ? `?${query}` : "";
}

function needsKey(operation) {
	return (operation.security || api.security).length > 0;
}

function showContent(content) {
	return Object.entries(content || {}).map(([type, media]) => [el("p", { class: "media" }, type), showSchema(media.schema)]);
}

function showAnswer(status, response) {
	const o = resolve(response);
	const kind = status < 400 ? "fine" : "";
	const head = [el("span", { class: `status ${kind}` }, status), el("span", null, words(o.description))];
	const headers = Object.entries(o.headers || {});
	if (!o.content && !headers.length) return el("div", { class: "answer plain" }, head);
	return el("details", { class: "answer" }, el("summary", null, head), el("div", { class: "inner" },
		headers.map(([name, header]) => el("p", { class: "words" }, el("code", null, name), " ", words(header.description))),
		showContent(o.content)));
}

function showOperation(path, method, operation) {
	const parameters = operation.parameters || [];
	const body = operation.requestBody;
	const left = el("div", null,
		paragraphs(operation.description),
		!needsKey(operation) && el("p", { class: "lock" }, "For everybody: no key is needed."),
		parameters.length > 0 && [el("h3", null, "Parameters"), el("ul", { class: "fields" },
			parameters.map((one) => field(one.name, { ...one.schema, description: one.description }, one.required, 0)))],
		body && [el("h3", null, "Body"), showContent(body.content)],
		el("h3", null, "Answers"),
		el("div", { class: "answers" }, Object.entries(operation.responses).map(([status, one]) => showAnswer(status, one))));
	return el("div", { class: "inside" }, left, showExamples(path, method, operation));
}

function showExamples(path, method, operation) {
	const pre = el("pre");
	const show = (values, text) => (pre.textContent = curlText(method, path, operation, values, text));
	const good = Object.entries(operation.responses).find(([status]) => status < 300)[1];
	const media = resolve(good).content?.["application/json"];
	const answer = media?.schema && JSON.stringify(sample(media.schema), null, 2);
	show({});
	return el("div", null,
		el("h3", null, "Example"), codeBox(pre, () => pre.textContent),
		answer && [el("h3", null, "Its answer"), el("pre", null, coloured(answer))],
		el("h3", null, "Try it"), showTry(path, method, operation, show));
}

/* ---- trying ---- */

function showTry(path, method, operation, show) {
	const type = bodyType(operation);
	const values = () => Object.fromEntries(inputs.map(([name, input]) => [name, input.value]));
	const changed = () => show(values(), area?.value);
	const inputs = (operation.parameters || []).map((one) => [one.name,
		el("input", { oninput: changed, autocomplete: "off", spellcheck: "false", placeholder: one.schema.default ?? "" })]);
	const area = type === "application/json" ? el("textarea", { oninput: changed, spellcheck: "false", rows: 8 }) : null;
	const file = type && !area ? el("input", { type: "file" }) : null;
	const out = el("div");
	const send = el("button", { class: "main", type: "button" }, "Send");
	const stop = el("button", { type: "button", disabled: true }, "Stop");

	if (area) area.value = JSON.stringify(exampleBody(operation), null, 2);
	send.addEventListener("click", () =>
		attempt({ path, method, operation, values: values(), area, file, out, send, stop }));
	return el("div", { class: "try" },
		inputs.map(([name, input]) => el("label", null, el("span", null, name), input)),
		area && el("label", null, el("span", { class: "hidden" }, "Body"), area),
		file && el("label", null, el("span", null, "file"), file),
		el("div", { class: "buttons" }, send, stop), out);
}

function requestOf({ method, operation, area, file }) {
	const headers = {};
	const options = { method, headers, cache: "no-store", credentials: "omit" };
	const type = bodyType(operation);
	if ($("key").value && needsKey(operation)) headers.Authorization = `Bearer ${$("key").value}`;
	if (area) {
		headers["Content-Type"] = type;
		options.body = area.value;
	} else if (type === "multipart/form-data") {
		options.body = new FormData();
		if (file.files[0]) options.body.append("file", file.files[0]);
	} else if (file) {
		options.body = file.files[0] || new Blob();
	}
	return options;
}

async function attempt(how) {
	const { path, operation, values, out, send, stop } = how;
	const missing = (operation.parameters || []).find((one) => one.required && !values[one.name]);
	const pre = el("pre");
	const note = el("p", { class: "media" }, "…");
	const control = new AbortController();
	const started = performance.now();

	if (missing) {
		out.replaceChildren(el("p", { class: "words" }, `Say ${missing.name} first.`));
		return;
	}
	out.replaceChildren(note, codeBox(pre, () => pre.textContent));
	send.disabled = true;
	stop.disabled = false;
	stop.onclick = () => control.abort();
	try {
		const url = base + fillPath(path, (name) => encodePath(name, values[name])) + queryText(operation, values);
		const response = await fetch(url, { ...requestOf(how), signal: control.signal });
		note.textContent = `${response.status} ${response.statusText} · ${response.headers.get("Content-Type") || "no body"}`;
		await showReply(response, pre);
		note.textContent += ` · ${(performance.now() - started).toFixed(0)} ms`;
	} catch (error) {
		note.textContent = error.name === "AbortError" ? `${note.textContent} · stopped` : `No answer: ${error.message}`;
	}
	send.disabled = false;
	stop.disabled = true;
}

async function showReply(response, pre) {
	const type = response.headers.get("Content-Type") || "";
	if (/octet-stream|x-tar/.test(type)) {
		const blob = await response.blob();
		const name = /filename="([^"]*)"/.exec(response.headers.get("Content-Disposition") || "")?.[1] || "file";
		const link = el("a", { href: URL.createObjectURL(blob), download: name }, `save ${name}`);
		pre.replaceChildren(`${blob.size} bytes: `, link);
		return;
	}
	if (/event-stream|ndjson/.test(type)) {
		const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
		for (let part; !(part = await reader.read()).done;) pre.append(part.value);
		return;
	}
	const text = await response.text();
	try {
		pre.replaceChildren(...coloured(JSON.stringify(JSON.parse(text), null, 2)));
	} catch {
		pre.textContent = text;
	}
}

/* ---- the page ---- */

/* All that is said of an operation, its schemas included, for the search. */
function textOf(path, method, operation) {
	const seen = new Set();
	const walk = (o) => {
		if (!o || typeof o !== "object") return String(o ?? "");
		if (o.$ref) {
			if (seen.has(o.$ref) || o.$ref.endsWith("/Error")) return "";
			seen.add(o.$ref);
			return walk(resolve(o));
		}
		return Object.entries(o).map(([key, value]) => (key === "examples" ? "" : `${key} ${walk(value)}`)).join(" ");
	};
	return `${method} ${path} ${walk(operation)}`.toLowerCase();
}

function listOperations() {
	const list = [];
	for (const [path, item] of Object.entries(api.paths))
		for (const [name, operation] of Object.entries(item)) {
			const method = name.toUpperCase();
			const badge = () => el("span", { class: `method ${name}` }, method);
			const id = operation.operationId;
			const short = path.replace("/v1/", "/").replace("{session_id}", "{id}");
			const details = el("details", { class: "operation", id },
				el("summary", null, badge(), el("span", { class: "path" }, withParams(path)),
					el("span", { class: "what" }, operation.summary)));
			const link = el("a", { href: `#${id}`, title: operation.summary, onclick: () => (details.open = true) },
				badge(), el("span", null, short));
			/* What is inside is made when it is opened first. */
			details.addEventListener("toggle", () => details.append(showOperation(path, method, operation)), { once: true });
			list.push({ tag: operation.tags[0], details, link, text: textOf(path, method, operation) });
		}
	return list;
}

function search(list, groups) {
	const wanted = $("search").value.toLowerCase().split(/\s+/).filter(Boolean);
	for (const one of list) one.details.hidden = one.link.hidden = !wanted.every((word) => one.text.includes(word));
	for (const group of groups) {
		const hidden = list.every((one) => one.tag !== group.tag || one.details.hidden);
		group.head.hidden = group.nav.hidden = hidden;
	}
	$("empty").hidden = groups.some((group) => !group.head.hidden);
}

function openNamed() {
	const named = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
	if (named && named.tagName === "DETAILS") {
		named.open = true;
		named.scrollIntoView();
	}
}

function show() {
	const list = listOperations();
	const groups = api.tags.map(({ name, description }) => ({
		tag: name,
		nav: el("h2", null, name),
		head: el("div", { class: "group" }, el("h2", null, name), el("p", null, words(description))),
	}));
	const inGroup = (group, what) => list.filter((one) => one.tag === group.tag).map((one) => one[what]);

	$("version").textContent = api.info.version;
	$("nav").replaceChildren(...groups.flatMap((group) => [group.nav, ...inGroup(group, "link")]));
	$("main").replaceChildren(
		el("div", { class: "intro" }, paragraphs(api.info.description),
			el("p", null, words(`Keys: ${api.components.securitySchemes.bearer.description} ` +
				"As `Authorization: Bearer KEY` or `X-API-Key: KEY`.")),
			el("p", null, "For programs: ", el("a", { href: "openapi.json" }, "openapi.json"), ".")),
		...groups.flatMap((group) => [group.head, ...inGroup(group, "details")]),
		el("p", { class: "empty", id: "empty", hidden: true }, "Nothing like that is here."));
	$("search").addEventListener("input", () => search(list, groups));
	openNamed();
	addEventListener("hashchange", openNamed);
}

function turnTheme() {
	const order = ["", "light", "dark"];
	const now = document.documentElement.dataset.theme || "";
	document.documentElement.dataset.theme = order[(order.indexOf(now) + 1) % order.length];
}

async function start() {
	$("theme").addEventListener("click", turnTheme);
	addEventListener("keydown", (event) => {
		if (event.key === "/" && !/INPUT|TEXTAREA/.test(document.activeElement.tagName)) {
			event.preventDefault();
			$("search").focus();
		}
	});
	try {
		api = await (await fetch(`${base}/openapi.json`)).json();
		show();
	} catch (error) {
		$("main").replaceChildren(el("p", { class: "empty" }, `openapi.json cannot be shown: ${error.message}`));
	}
}

start();
