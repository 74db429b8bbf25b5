import * as fs from 'fs';

interface Line {
	label: string;
	text: string;
}

function say(line: Line): void {
	console.log(`${line.label}: ${line.text}`);
}

console.log('hello');
say({ label: 'stdin', text: fs.readFileSync(0, 'utf8').split('\n')[0] });
for (const arg of process.argv.slice(2))
	say({ label: 'arg', text: arg });
say({ label: 'file', text: fs.readFileSync('data/input.txt', 'utf8').trim() });
fs.writeFileSync('result.txt', 'written\n');
console.error('to stderr');
process.exitCode = 3;
