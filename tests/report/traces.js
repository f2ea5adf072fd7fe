'use strict';
/* Small traces for the tests, and a large one. */

const fs = require('node:fs');
const path = require('node:path');

const { FOLDER } = process.env;
const EVIL = [
  '<script>alert(1)</script>',
  '"><img src=x onerror=alert(1)>',
  '</script><script>alert(2)</script>',
  "'); alert(3); ('",
  'javascript:alert(4)',
  '\u202e\u0000\u001b[31m]]>',
  '%%DATA%%',
  '${alert(5)}',
];

function write(name, trace) {
  const file = path.join(FOLDER, name);
  fs.writeFileSync(file, JSON.stringify(trace));
  return file;
}

const complete = (cat, name, tid, ts, dur, args = {}, pid = 1) => ({
  ph: 'X',
  cat,
  name,
  pid,
  tid,
  ts,
  dur,
  args,
});

/* One step: an operator that launches a kernel of each name. */
function stepOf(number, ts, kernels, rank) {
  const pid = 100 + rank;
  const events = [complete('user_annotation', `ProfilerStep#${number}`, 1, ts, 900, {}, pid)];
  kernels.forEach((kernel, i) => {
    const at = ts + 10 + i * 80;
    const correlation = number * 1000 + i + 1;
    events.push(
      complete(
        'cpu_op',
        `aten::op${i}`,
        1,
        at,
        60,
        { 'External id': correlation, 'Input Dims': [[4, i]] },
        pid,
      ),
      complete('cuda_runtime', 'cudaLaunchKernel', 1, at + 10, 20, { correlation }, pid),
      complete(
        'kernel',
        kernel,
        7,
        at + 40,
        50,
        { device: rank, stream: 7, correlation, grid: [i + 1, 1, 1], block: [64, 1, 1] },
        rank,
      ),
      { ph: 's', cat: 'ac2g', name: 'ac2g', id: correlation, pid, tid: 1, ts: at + 10 },
      { ph: 'f', bp: 'e', cat: 'ac2g', name: 'ac2g', id: correlation, pid: rank, tid: 7, ts: at + 40 },
    );
  });
  return events;
}

function traceOf(kernels, steps = 3, rank = 0, ranks = 1) {
  const traceEvents = [];
  for (let s = 0; s < steps; s++) traceEvents.push(...stepOf(s + 1, 1e6 + s * 1000, kernels, rank));
  for (let s = 0; s < 20; s++) {
    traceEvents.push({
      ph: 'C',
      name: 'GPU memory',
      pid: rank,
      tid: 0,
      ts: 1e6 + s * 100,
      args: { bytes: 1e6 * (s % 7) },
    });
  }
  return {
    schemaVersion: 1,
    deviceProperties: [{ id: rank, name: 'Test device', computeMajor: 8, computeMinor: 0, numSms: 80 }],
    distributedInfo: { backend: 'nccl', rank, world_size: ranks },
    traceEvents,
  };
}

const plain = () => write('plain.json', traceOf(['gemm', 'relu', 'softmax', 'reduce']));
const evil = () => write('evil.json', traceOf(EVIL));
const ranks = () =>
  [0, 1].map((r) => write(`rank-${r}.json`, traceOf(['gemm', `only_on_rank_${r}`], 3, r, 2)));

/* Ranks of a job of `count`, with something wrong; STEPS = 0: without marks of steps. */
function manyRanks(count, { missing, cut, slow }, steps = 4) {
  const files = [];
  for (let rank = 0; rank < count; rank++) {
    if (rank === missing) continue;
    const trace = traceOf(['gemm', 'relu'], Math.max(steps, 4), rank, count);
    for (const e of trace.traceEvents) {
      if (rank === slow && e.cat === 'user_annotation') e.dur = 990;
      if (rank !== slow && e.cat === 'user_annotation') e.dur = 850;
      if (rank === slow && e.name === 'aten::op1') e.dur = 500;
    }
    if (!steps) trace.traceEvents = trace.traceEvents.filter((e) => e.cat !== 'user_annotation');
    const text = JSON.stringify(trace);
    const file = path.join(FOLDER, `job-${count}-${steps}-${rank}.json`);
    fs.writeFileSync(file, rank === cut ? text.slice(0, text.length * 0.6) : text);
    files.push(file);
  }
  return files;
}

const empty = () => write('empty.json', { schemaVersion: 1, traceEvents: [] });
const hostOnly = () =>
  write('host.json', {
    traceEvents: [
      complete('cpu_op', 'aten::linear', 1, 1000, 500),
      complete('cpu_op', 'aten::addmm', 1, 1100, 300),
    ],
  });
const huge = () => write('huge.json', traceOf(['x'.repeat(60000), '名'.repeat(20000), 'a<b>'.repeat(9000)]));

/* Rows of a table: one operator of each name. */
function manyNames(count) {
  const traceEvents = Array.from({ length: count }, (_, i) =>
    complete('cpu_op', `op_${i}`, 1, i * 10, 8 + (i % 7) / 8, { number: i }),
  );
  return write(`many-${count}.json`, { traceEvents });
}

/* At least N activities: threads three deep, and streams with what they launch. */
function large(count) {
  const file = path.join(FOLDER, `large-${count}.json`);
  const out = fs.openSync(file, 'w');
  fs.writeSync(out, '{"deviceProperties":[{"id":0,"name":"Test device","numSms":80}],"traceEvents":[\n');
  let lines = [];
  const put = (event) => lines.push(JSON.stringify(event));
  for (let i = 0; i * 5 < count; i++) {
    const thread = 1 + (i % 6);
    const at = 1e6 + Math.floor(i / 6) * 25;
    const stream = 7 + (i % 4);
    put(complete('cpu_op', `aten::op_${i % 150}`, thread, at, 20));
    put(complete('cpu_op', `aten::inner_${i % 70}`, thread, at + 1, 16));
    put(complete('cuda_runtime', 'cudaLaunchKernel', thread, at + 3, 5, { correlation: i + 1 }));
    put(complete('cuda_runtime', 'cudaStreamIsCapturing', thread, at + 10, 2));
    put(
      complete(
        'kernel',
        `void kernel_${i % 90}<float>(float*)`,
        stream,
        at + 12,
        4 + (i % 9),
        { device: 0, stream, correlation: i + 1 },
        0,
      ),
    );
    if (lines.length < 5000) continue;
    fs.writeSync(out, lines.join(',\n') + ',\n');
    lines = [];
  }
  put(complete('user_annotation', 'ProfilerStep#1', 1, 1e6, count));
  fs.writeSync(out, lines.join(',\n') + '\n]}\n');
  fs.closeSync(out);
  return file;
}

module.exports = { EVIL, plain, evil, ranks, manyRanks, empty, hostOnly, huge, manyNames, large };
