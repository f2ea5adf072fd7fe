// Perfetto's trace_processor, as the WebAssembly module of its user interface, asked from Node:
//   node trace_processor.mjs FOLDER TRACE QUERY…
// FOLDER holds engine_bundle.js and the modules that it loads. Prints a JSON array: for each query
// its rows, each an object. The bundle is made for a web worker; the first part is what it looks for
// there, the second the messages that its port understands (protocol buffers).
import fs from 'node:fs';
import path from 'node:path';
import vm from 'node:vm';
import { pathToFileURL } from 'node:url';

const [folder, trace, ...queries] = process.argv.slice(2);

// ---- a worker

function define(name, value) {
  Object.defineProperty(globalThis, name, { value, writable: true, configurable: true });
}

// The bundle asks for its module by a relative name, and waits for it.
class LocalRequest {
  open(method, url) {
    this.file = path.join(folder, path.basename(url));
  }
  send() {
    const bytes = fs.readFileSync(this.file);
    this.response = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength);
  }
}

function startEngine() {
  process.type = 'renderer'; // not Node, for the bundle
  define('self', globalThis);
  define('WorkerGlobalScope', function WorkerGlobalScope() {});
  define('location', new URL(pathToFileURL(folder + '/').href));
  define('XMLHttpRequest', LocalRequest);
  console.log = console.warn = console.error = () => {}; // of the bundle; stdout is for the answer
  vm.runInThisContext(fs.readFileSync(path.join(folder, 'engine_bundle.js'), 'utf8'));
  const channel = new MessageChannel();
  globalThis.onmessage({ data: channel.port1 });
  return channel.port2;
}

// ---- protocol buffers

function varint(value) {
  const bytes = [];
  for (let v = BigInt(value); ; v >>= 7n) {
    bytes.push(Number(v & 127n) | (v > 127n ? 128 : 0));
    if (v <= 127n) return Buffer.from(bytes);
  }
}
const number = (id, value) => Buffer.concat([varint(id << 3), varint(value)]);
const bytes = (id, value) =>
  Buffer.concat([varint((id << 3) | 2), varint(value.length), Buffer.from(value)]);

class Reader {
  constructor(data) {
    this.data = data;
    this.at = 0;
  }
  get more() {
    return this.at < this.data.length;
  }
  varint() {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = this.data[this.at++];
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return BigInt.asIntN(64, value);
    }
  }
  // The next field: its number and its value, a number or bytes.
  field() {
    const key = Number(this.varint());
    const size = { 1: 8, 2: 0, 5: 4 }[key & 7];
    if (size === undefined) return [key >> 3, this.varint()];
    const length = size || Number(this.varint());
    this.at += length;
    return [key >> 3, this.data.subarray(this.at - length, this.at)];
  }
}

// ---- the messages

const APPEND = 1, FINISH = 2, QUERY = 3;
const CELL = { VARINT: 2, FLOAT64: 3, STRING: 4 };

function message(sequence, method, ...rest) {
  return bytes(1, Buffer.concat([number(1, sequence), number(2, method), ...rest]));
}

// One batch of cells, all columns of the first row, then of the second …
function readCells(batch, cells) {
  let types = new Reader(Buffer.alloc(0)), varints = types, doubles = types, texts = [];
  for (const reader = new Reader(batch); reader.more; ) {
    const [id, value] = reader.field();
    if (id === 1) types = new Reader(value);
    if (id === 2) varints = new Reader(value);
    if (id === 3) doubles = new Reader(value);
    if (id === 5) texts = value.toString('utf8').split('\0');
  }
  while (types.more) {
    const type = Number(types.varint());
    if (type === CELL.VARINT) cells.push(Number(varints.varint()));
    else if (type === CELL.FLOAT64) cells.push(doubles.data.readDoubleLE((doubles.at += 8) - 8));
    else cells.push(type === CELL.STRING ? texts.shift() : null);
  }
}

function readResult(result, into) {
  for (const reader = new Reader(result); reader.more; ) {
    const [id, value] = reader.field();
    if (id === 1) into.columns.push(value.toString('utf8'));
    if (id === 2 && value.length) throw new Error(value.toString('utf8'));
    if (id === 3) {
      readCells(value, into.cells);
      for (const inner = new Reader(value); inner.more; ) {
        const [key, last] = inner.field();
        into.complete ||= key === 6 && last !== 0n;
      }
    }
  }
}

function rowsOf({ columns, cells }) {
  const rows = [];
  for (let i = 0; columns.length && i < cells.length; i += columns.length)
    rows.push(Object.fromEntries(columns.map((name, k) => [name, cells[i + k]])));
  return rows;
}

// ---- asking

const port = startEngine();
await new Promise((resolve) => setTimeout(resolve, 200)); // what the bundle put off until now

const answers = [];
const empty = () => ({ columns: [], cells: [], complete: false });
let current = empty();
function fail(error) {
  process.stderr.write(`${error.message ?? error}\n`);
  process.exit(1);
}
port.onmessage = ({ data }) => {
  try {
    for (const stream = new Reader(Buffer.from(data)); stream.more; )
      for (const reply = new Reader(stream.field()[1]); reply.more; ) {
        const [id, value] = reply.field();
        if (id === 5) throw new Error(value.toString('utf8'));
        if (id !== 203) continue;
        readResult(value, current);
        if (!current.complete) continue;
        answers.push(rowsOf(current));
        current = empty();
        if (answers.length === queries.length)
          process.stdout.write(JSON.stringify(answers) + '\n', () => process.exit(0));
      }
  } catch (error) {
    fail(error);
  }
};
process.on('uncaughtException', fail);

const PIECE = 16 << 20;
const text = fs.readFileSync(trace);
let sequence = 0;
const send = (method, ...rest) => port.postMessage(new Uint8Array(message(sequence++, method, ...rest)));
for (let at = 0; at < text.length; at += PIECE)
  send(APPEND, bytes(101, text.subarray(at, at + PIECE)));
send(FINISH);
for (const query of queries) send(QUERY, bytes(103, bytes(1, Buffer.from(query))));
