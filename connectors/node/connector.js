// A source for Penstock without an SDK: it counts, and goes on where its last committed offset was. Rows are JSON lines.
// The rules R1 to R20 that it keeps are those of proto/README.md.
'use strict';
const { readFileSync, renameSync, writeFileSync } = require('node:fs');
const path = require('node:path');
const grpc = require('@grpc/grpc-js');
const loader = require('@grpc/proto-loader');
const protobuf = require('protobufjs');
const { HealthImplementation } = require('grpc-health-check');

// What this connector is: its description with its keys, its rows, and their schema (the README says how it is made).
const SPEC = require('./spec.json');
const SCHEMA = Buffer.from(readFileSync(path.join(__dirname, 'schema.base64'), 'ascii'), 'base64');
const row = (number) => `{"number":${number},"text":"a row from Node"}\n`;
const [JSON_LINES, MESSAGE_MOST, HEARTBEAT] = ['ENCODING_JSON_LINES', 64 << 20, 30]; // bytes of a gRPC message; seconds: frames go out twice as often (R19)
const PROTO = path.join(__dirname, 'proto');
const files = ['plugin', 'connector', 'source'].map((name) => `penstock/api/connector/v1/${name}_service.proto`);
const options = { includeDirs: [PROTO], keepCase: true, longs: String, enums: String, defaults: true, oneofs: true };
const { connector } = grpc.loadPackageDefinition(loader.loadSync(files, options)).penstock.api;
const Diagnostic = protobuf.loadSync(path.join(PROTO, 'penstock/api/error/v1/diagnostic.proto')).lookupType('penstock.api.error.v1.Diagnostic');

function failure(kind, code, message) { // how a call fails: a status, and a diagnostic in its trailer
  const status = { CONFIG: 'INVALID_ARGUMENT', RETRIABLE: 'UNAVAILABLE', FENCED: 'ABORTED', AUTH: 'UNAUTHENTICATED' }[kind] ?? 'INTERNAL';
  const diagnostic = Diagnostic.encode(Diagnostic.fromObject({ severity: 3, errorClass: `ERROR_CLASS_${kind}`, code, message })).finish();
  const metadata = grpc.Metadata.fromHttp2Headers({ 'penstock-diagnostic-bin': Buffer.from(diagnostic).toString('base64') });
  return { code: grpc.status[status], details: `[${code}] ${message}`, metadata };
}
const told = (error) => (error.metadata ? error : failure('INTERNAL', 'connector.defect', String(error.stack)));
const fail = (...why) => { throw failure(...why); };
const valuesOf = (target) => (target?.connector === SPEC.name
  ? { ...target.config, ...target.secrets } : fail('CONFIG', 'plugin.unknown_connector', `it is ${SPEC.name}, not '${target?.connector}'`));
function findings(given, name, key) { // what is wrong with a key, as diagnostics
  const found = (code, what, fix) => [{ severity: 3, error_class: 2, code: `config.${code}`, message: `'${name}' ${what}`, fix, config_path: name }];
  if (!key) return found('unknown_key', 'is no key', `The keys are: ${SPEC.config_keys.map((one) => one.name).join(', ')}.`);
  if (key.required && !given[name]?.trim()) return found('missing', 'has no value and needs one', 'Set it.');
  return !(name in given) || /^\s*\d+\s*$/.test(given[name]) ? [] : found('invalid_value', `is not valid: '${given[name]}'`, 'Give a whole number.');
}
const validated = (given) => Object.keys({ ...given, ...Object.fromEntries(SPEC.config_keys.map(({ name }) => [name])) }).map((name) => {
  const key = SPEC.config_keys.find((one) => one.name === name);
  return { name, value: given[name] ?? key?.default_value, visible: true, diagnostics: findings(given, name, key) };
});
function settings(target) { // the values of a target, which are in order
  for (const { diagnostics: [wrong] } of validated(valuesOf(target))) if (wrong) fail('CONFIG', wrong.code, wrong.message);
  return valuesOf(target);
}
const tasks = new Map(); // the newest stream of each task, also of those that ended: their epochs count (R11)
function start(call, open) {
  if (!open) fail('INTERNAL', 'read.not_opened', 'the first frame of a Read stream must be open');
  const { target, task, epoch, encodings, limits, credit } = open;
  const given = settings(target);
  if (!encodings.includes(JSON_LINES)) fail('INTERNAL', 'wire.encoding', 'the host takes no JSON lines');
  const older = tasks.get(task.task_id);
  if (older?.epoch > BigInt(epoch)) fail('FENCED', 'task.stale_epoch', `epoch ${epoch} is over`);
  older?.end(failure('FENCED', 'task.taken_over', `opened again, epoch ${epoch}`)); // R18
  const [{ partition_id: id, offset }] = task.partitions;
  const most = Math.min(Number(given['batch.rows'] ?? 10_000) || 1, limits?.max_batch_rows || 1 << 20);
  const target_bytes = Math.min(Number(limits?.target_batch_bytes) || 4 << 20, (Number(limits?.max_message_bytes) || MESSAGE_MOST) / 2);
  const [limit, held] = [Number(given.limit), new Map()]; // held: what can be fetched
  let [next, seq, checkpoint, committed, room, drained, over, waking] = [Number(offset?.fields.next?.int_value ?? 0), 0, 0, 0, 0];
  const wake = () => { waking ??= setImmediate(() => { waking = undefined; read(); }); }; // one batch, then others have their turn
  function read() {
    if (over || drained || room <= 0) return; // one batch may overdraw the credit (R9)
    let [text, first] = ['', next];
    while (next < limit && next - first < most && text.length < target_bytes) text += row(next++);
    if (next > first) announce({ seq: ++seq, schema_id: 1, partition_id: id, rows: next - first }, Buffer.from(text));
    if (next < limit) return wake();
    call.write({ partition_done: { partition_id: id } });
    finish();
  }
  function announce(batch, data) { // a batch to fetch, and a place to commit after it
    held.set(batch.seq, { seq: batch.seq, schema_id: batch.schema_id, rows: batch.rows, encoding: JSON_LINES, data }); room -= data.length;
    const offsets = { [id]: { fields: { next: { int_value: String(next) } } } };
    call.write({ ready: { ...batch, bytes: data.length } });
    call.write({ checkpoint: { checkpoint_id: ++checkpoint, rows: batch.rows, last_seq: batch.seq, offsets } });
  }
  function release(last) {
    for (const [at, batch] of held) if (at <= last && held.delete(at)) room += batch.data.length;
    if (drained && !held.size) end(); // the host has all that it was told of
  }
  function finish() {
    if (!drained && !over) { report(); drained = call.write({ drained: { checkpoint_id: checkpoint } }) || true; }
    release(0);
  }
  const report = () => call.write({ progress: { lag_bytes: -1, lag_records: limit - next, committed_checkpoint_id: committed, metrics: { batches_total: seq } } });
  const beat = setInterval(() => drained || report(), HEARTBEAT * 500);
  function end(error) {
    clearInterval(beat); held.clear();
    if (!over && error) call.emit('error', error); else if (!over) call.end();
    over = true;
  }
  function obey(frame) { // frames of other kinds are ignored (R16)
    if (frame.kind === 'release') release(Number(frame.release.seq));
    if (frame.kind === 'committed') committed = Math.max(committed, Number(frame.committed.checkpoint_id)); // cumulative (R2)
    wake();
  }
  call.write({ opened: { encoding: JSON_LINES, heartbeat_every: { seconds: HEARTBEAT }, confirms_commits: true } });
  call.write({ schema: { schema_id: 1, dataset: 'numbers', arrow_schema: SCHEMA } });
  room = Number(credit?.bytes ?? 0);
  wake();
  return tasks.set(task.task_id, { epoch: BigInt(epoch), held, end, obey, finish }).get(task.task_id);
}
function Read(call) {
  let task;
  call.on('data', (frame) => {
    try { if (task) task.obey(frame); else task = start(call, frame.open); } catch (error) { call.emit('error', told(error)); }
  });
  for (const event of ['end', 'cancelled']) call.on(event, () => (task ? task.end() : call.end()));
}
async function Fetch(call) {
  const { task_id: id, epoch, from_seq: from, to_seq: to, seqs } = call.request;
  const [task, refuse] = [tasks.get(id), (...why) => call.emit('error', failure(...why))];
  if (task?.epoch > BigInt(epoch)) return refuse('FENCED', 'task.stale_epoch', `epoch ${epoch} is over`);
  if (task?.epoch !== BigInt(epoch)) return refuse('RETRIABLE', 'task.not_open', `${id} is not open here with epoch ${epoch}`);
  for (let at = 0; at < (seqs.length || Number(to) - Number(from) + 1); at++) {
    const batch = task.held.get(Number(seqs[at] ?? Number(from) + at));
    if (!batch) return refuse('RETRIABLE', 'source.batch.released', 'a batch is not ready, or was released');
    if (!call.write({ batch })) await new Promise((go) => call.once('drain', go).once('cancelled', go));
  }
  call.end();
}
const methods = {
  Describe: (_, done) => done(null, { name: SPEC.name, version: '0.1.0', sdk: 'none', connectors: [SPEC] }),
  Shutdown: (_, done) => { for (const task of tasks.values()) task.finish(); done(null, {}); stop(); },
  ValidateConfig: ({ request }, done) => done(null, { values: validated(valuesOf(request.target)) }),
  CheckConnection: (call) => { call.write({ step: 'config', ok: !validated(valuesOf(call.request.target)).some((v) => v.diagnostics.length) }); call.end(); },
  Plan: ({ request }, done) => done(null, settings(request.target) && { partitions: [{ partition_id: `{"source":"${SPEC.name}"}`, key: { source: { string_value: SPEC.name } }, weight: 1 }] }),
  AlterOffsets: ({ request }, done) => done(null, { partitions: request.partitions }), // they live in the host alone
  Read, Fetch };
const { PENSTOCK_PLUGIN_MAGIC_COOKIE: cookie, PENSTOCK_INSTANCE_NONCE: nonce, PLUGIN_UNIX_SOCKET_DIR: folder, PLUGIN_PROTOCOL_VERSIONS: versions, PENSTOCK_HANDSHAKE_FILE: file } = process.env;
if (!(cookie && nonce)) process.exit(console.error(`${SPEC.name} is a Penstock plugin. A host starts it; by hand: penstock plugin run .`) ?? 1);
if (!versions.split(',').includes('1')) process.exit(console.error(`${SPEC.name} speaks version 1 of the protocol, the host ${versions}`) ?? 1);
const server = new grpc.Server({ 'grpc.max_receive_message_length': MESSAGE_MOST, 'grpc.max_send_message_length': MESSAGE_MOST });
const stop = () => { setTimeout(() => process.exit(0), 500); server.tryShutdown(() => process.exit(0)); };
const guard = (method) => (call, done = (error) => call.emit('error', error)) => {
  if (call.metadata.get('penstock-credential')[0] !== nonce) return done(failure('AUTH', 'plugin.credential_refused', 'this is not the credential of this launch'));
  try { return method(call, done); } catch (error) { return done(told(error)); }
};
const guarded = Object.fromEntries(Object.entries(methods).map(([name, method]) => [name, guard(method)]));
for (const name of ['Plugin', 'Connector', 'Source']) server.addService(connector.v1[`${name}Service`].service, guarded);
new HealthImplementation({ '': 'SERVING', plugin: 'SERVING' }).addToServer(server);
const socket = path.join(folder, `s${process.pid}`);
server.bindAsync(`unix:${socket}`, grpc.ServerCredentials.createInsecure(), (error) => {
  if (error) throw error;
  const line = `1|1|unix|${socket}|grpc|\n`; // stdout will do for hosts that name no file
  if (file) renameSync(writeFileSync(`${file}.new`, line) ?? `${file}.new`, file); else process.stdout.write(line);
});
process.stdin.resume().on('end', stop); // the host is gone
process.on('SIGTERM', stop);
