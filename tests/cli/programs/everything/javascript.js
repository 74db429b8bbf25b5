const fs = require('fs');

console.log('hello');
console.log('stdin: ' + fs.readFileSync(0, 'utf8').split('\n')[0]);
for (const arg of process.argv.slice(2))
	console.log('arg: ' + arg);
console.log('file: ' + fs.readFileSync('data/input.txt', 'utf8').trim());
fs.writeFileSync('result.txt', 'written\n');
console.error('to stderr');
process.exitCode = 3;
