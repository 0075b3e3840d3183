// The connector, started as a host starts it and called over the wire: it goes on where its offset is.
'use strict';
const assert = require('node:assert');
const { spawn } = require('node:child_process');
const { once } = require('node:events');
const { mkdtempSync, rmSync } = require('node:fs');
const { tmpdir } = require('node:os');
const path = require('node:path');
const test = require('node:test');
const grpc = require('@grpc/grpc-js');
const loader = require('@grpc/proto-loader');

const PROTO = path.join(__dirname, 'proto');
const options = { includeDirs: [PROTO], keepCase: true, longs: String, enums: String, defaults: true, oneofs: true };
const service = 'penstock/api/connector/v1/source_service.proto';
const { SourceService } = grpc.loadPackageDefinition(loader.loadSync(service, options)).penstock.api.connector.v1;
const { name } = require('./spec.json');
const CREDENTIAL = 'a test';
const metadata = grpc.Metadata.fromHttp2Headers({ 'penstock-credential': CREDENTIAL });

async function rowsFrom(client, next, epoch) {
  const call = client.Read(metadata);
  const partitions = [{ partition_id: `{"source":"${name}"}`, offset: { fields: { next: { int_value: next } } } }];
  const target = { connector: name, config: { limit: '30' } };
  const task = { task_id: 't', partitions };
  call.write({ open: { target, task, epoch, encodings: ['ENCODING_JSON_LINES'], credit: { bytes: 1 << 20 } } });
  const rows = [];
  for await (const frame of call) {
    if (frame.kind === 'drained') call.end();
    if (frame.kind !== 'ready') continue;
    for await (const { batch } of client.Fetch({ task_id: 't', epoch, from_seq: frame.ready.seq, to_seq: frame.ready.seq }, metadata)) {
      rows.push(...batch.data.toString().trim().split('\n').map((line) => JSON.parse(line).number));
    }
    call.write({ release: { seq: frame.ready.seq } });
  }
  return rows;
}

test('it goes on where its offset is', { timeout: 30_000 }, async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'penstock-'));
  const launch = { PENSTOCK_PLUGIN_MAGIC_COOKIE: 'a test', PENSTOCK_INSTANCE_NONCE: CREDENTIAL, PLUGIN_UNIX_SOCKET_DIR: folder, PLUGIN_PROTOCOL_VERSIONS: '1' };
  const plugin = spawn(process.execPath, [path.join(__dirname, 'connector.js')], { env: { ...process.env, ...launch } });
  const [line] = await once(plugin.stdout, 'data');
  const client = new SourceService(`unix:${String(line).split('|')[3]}`, grpc.credentials.createInsecure());
  try {
    assert.deepStrictEqual(await rowsFrom(client, 0, 1), [...Array(30).keys()]);
    assert.deepStrictEqual(await rowsFrom(client, 28, 2), [28, 29]);
  } finally {
    client.close();
    plugin.kill();
    await once(plugin, 'exit');
    rmSync(folder, { recursive: true });
  }
});
