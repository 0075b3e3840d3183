// Reads the golden vectors without loss, and writes them again: JSON lines, partitions, offsets.
// Called with the folder of the vectors; the libraries are those of the plugin in the working folder.
import assert from 'node:assert';
import fs from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';

const require = createRequire(path.join(process.cwd(), 'connector.js'));
const protobuf = require('protobufjs');
const vectors = process.argv[2];

// Numbers stay the text that they are: 2^53 + 1 is no double.
const marked = (text) => text.replace(/"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*/g, (part) => (part[0] === '"' ? part : `{"$number":"${part}"}`));
const parse = (text) => JSON.parse(marked(text), (_, value) => (value?.$number === undefined ? value : new Numeral(value.$number)));
class Numeral {
  constructor(text) { this.text = text; }
}
function write(value) {
  if (value instanceof Numeral) return value.text;
  if (Array.isArray(value)) return `[${value.map(write)}]`;
  if (value === null || typeof value !== 'object') return JSON.stringify(value);
  return `{${Object.entries(value).map(([name, item]) => `${JSON.stringify(name)}:${write(item)}`)}}`;
}

let batches = 0;
for (const file of fs.readdirSync(vectors).filter((name) => name.endsWith('.jsonl'))) {
  const text = fs.readFileSync(path.join(vectors, file), 'utf8');
  const lines = text.split('\n').slice(0, -1);
  assert.deepStrictEqual(lines.map((line) => write(parse(line))), lines, file);
  batches += 1;
}
const first = parse(fs.readFileSync(path.join(vectors, 'integers.jsonl'), 'utf8').split('\n')[0]);
assert.strictEqual(BigInt(first.beyond.text), 2n ** 53n + 1n);
assert.notStrictEqual(JSON.stringify(JSON.parse('9007199254740993')), first.beyond.text); // the twin: a double loses it

const root = protobuf.loadSync(path.join(process.cwd(), 'proto/penstock/api/record/v1/record.proto'));
const Partition = root.lookupType('penstock.api.record.v1.Partition');
const text = (number) => { // as Python writes it
  const size = Math.abs(number);
  if (size && (size < 1e-4 || size >= 1e16)) return number.toExponential().replace(/e([+-])(\d)$/, 'e$10$2');
  return Number.isInteger(number) ? `${number}.0` : String(number);
};
const stamp = (us) => {
  const micros = ((us % 1_000_000n) + 1_000_000n) % 1_000_000n;
  const seconds = new Date(Number((us - micros) / 1000n)).toISOString().slice(0, 19);
  return `${seconds}${micros ? `.${String(micros).padStart(6, '0')}` : ''}+00:00`;
};
const tagged = (tag, value) => `{"${tag}":${JSON.stringify(value)}}`;
const forms = {
  boolValue: String, intValue: String, doubleValue: text, stringValue: JSON.stringify, decimalValue: (value) => tagged('$decimal', value),
  bytesValue: (value) => tagged('$bytes', Buffer.from(value).toString('base64')),
  timestampUs: (value) => tagged('$timestamp', stamp(BigInt(String(value)))),
  dateDays: (value) => tagged('$date', new Date(value * 86_400_000).toISOString().slice(0, 10)),
  listValue: ({ items }) => `[${items.map(canonical)}]`, structValue: ({ fields }) => canonicalFields(fields),
};
const canonical = (value) => (value.kind ? forms[value.kind](value[value.kind]) : 'null');
const canonicalFields = (fields) => `{${Object.keys(fields).sort().map((name) => `${JSON.stringify(name)}:${canonical(fields[name])}`)}}`;

let partitions = 0;
for (const { id, partition } of JSON.parse(fs.readFileSync(path.join(vectors, 'offsets.json'), 'utf8'))) {
  const message = Partition.decode(Buffer.from(partition, 'base64'));
  assert.strictEqual(canonicalFields(message.key), id);
  assert.strictEqual(message.partitionId, id);
  assert.deepStrictEqual(Partition.decode(Partition.encode(message).finish()), message);
  partitions += 1;
}
const last = Partition.decode(Buffer.from(JSON.parse(fs.readFileSync(path.join(vectors, 'offsets.json'), 'utf8'))[1].partition, 'base64'));
assert.strictEqual(String(last.offset.fields.byte.intValue), String(2n ** 53n + 1n));
console.log(`${batches} batches and ${partitions} partitions`);
