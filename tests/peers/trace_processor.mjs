// Perfetto's trace_processor, as the WebAssembly module of its user interface, asked from Node:
//   node trace_processor.mjs FOLDER TRACE QUERY…
// FOLDER holds engine_bundle.node.js, engine.mjs and trace_processor.wasm. Prints a JSON array: for
// each query its rows, each an object. The bundle is made for a web worker; here is what it looks for.
import fs from 'node:fs';
import path from 'node:path';
import vm from 'node:vm';
import { pathToFileURL } from 'node:url';

const [folder, trace, ...queries] = process.argv.slice(2);

function define(name, value) {
  Object.defineProperty(globalThis, name, { value, writable: true, configurable: true });
}

// The module asks for its code by a relative name, and waits for it.
class LocalRequest {
  open(method, url) {
    this.file = path.join(folder, path.basename(url));
  }
  send() {
    const bytes = fs.readFileSync(this.file);
    this.response = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength);
  }
}
define('self', globalThis);
define('WorkerGlobalScope', function WorkerGlobalScope() {});
define('location', new URL(pathToFileURL(folder + '/').href));
define('XMLHttpRequest', LocalRequest);
console.log = console.warn = () => {}; // of the module; stdout is for the answer

const { EngineBase } = await import(pathToFileURL(path.join(folder, 'engine.mjs')).href);
class PortEngine extends EngineBase {
  mode = 'WASM';
  id = 'peer';
  constructor(port) {
    super();
    this.port = port;
    port.onmessage = (m) => this.onRpcResponseBytes(m.data);
  }
  rpcSendRequestBytes(data) {
    this.port.postMessage(data);
  }
}

vm.runInThisContext(fs.readFileSync(path.join(folder, 'engine_bundle.node.js'), 'utf8'));
const channel = new MessageChannel();
globalThis.onmessage({ data: channel.port1 });
const engine = new PortEngine(channel.port2);
await new Promise((resolve) => setTimeout(resolve, 200)); // what it put off until now

function cell(value) {
  return typeof value === 'bigint' ? Number(value) : value;
}

await engine.parse(new Uint8Array(fs.readFileSync(trace)));
await engine.notifyEof();
const answers = [];
for (const query of queries) {
  const result = await engine.query(query);
  if (result.error()) throw new Error(result.error());
  const rows = [];
  for (const it = result.iter({}); it.valid(); it.next())
    rows.push(Object.fromEntries(result.columns().map((c) => [c, cell(it.get(c))])));
  answers.push(rows);
}
process.stdout.write(JSON.stringify(answers) + '\n', () => process.exit(0));
