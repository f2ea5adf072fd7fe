'use strict';
/* Colours of the canvas; style.css has those of the page. Both have a light and a dark set, in which the
 * contrast of text is at least 4.5 to 1. */

const SHADES = 6; /* of each class, so that neighbours with other names look different */

/* class: name, hue, saturation */
const CLASSES = [
  ['kernels', 212, 62],
  ['communication', 286, 50],
  ['copies', 32, 78],
  ['operators', 152, 40],
  ['runtime calls', 350, 52],
  ['ranges', 48, 58],
  ['Python', 190, 38],
  ['waiting', 8, 62],
  ['memory', 84, 40],
  ['OpenMP', 262, 46],
  ['profiler', 320, 16],
  ['other', 220, 10],
  ['sampled functions', 20, 66],
  ['running', 164, 100],
  ['waiting for a CPU', 41, 100],
  ['blocked', 220, 9],
];
const [
  KERNEL,
  COMMUNICATION,
  COPY,
  OPERATOR,
  RUNTIME,
  RANGE,
  PYTHON,
  WAITING,
  MEMORY,
  OPENMP,
  PROFILER,
  OTHER,
  FUNCTION,
  RUNNING,
  READY,
  BLOCKED,
] = CLASSES.keys();

/* States of threads have one shade each: a bluish green, an orange and a grey, which stay apart for colour-blind
 * readers also by their lightness. Light and dark, in percent. */
const STATE_LIGHTNESS = { [RUNNING]: [31, 36], [READY]: [52, 60], [BLOCKED]: [85, 29] };
const STATES = { running: RUNNING, 'waiting for a CPU': READY };

/* Kinds that are not listed are "other". */
const KIND_CLASSES = {
  kernel: KERNEL,
  collective_comm: COMMUNICATION,
  mpi: COMMUNICATION,
  gpu_memcpy: COPY,
  gpu_memset: COPY,
  cpu_op: OPERATOR,
  runtime: RUNTIME,
  driver: RUNTIME,
  user_annotation: RANGE,
  gpu_user_annotation: RANGE,
  cuda_profiler_range: RANGE,
  python_function: PYTHON,
  cuda_sync: WAITING,
  blocking_call: WAITING,
  memory: MEMORY,
  openmp: OPENMP,
  overhead: PROFILER,
  cpu_sample: FUNCTION,
  thread_state: BLOCKED,
};
const HASHED = 100; /* characters of a name that decide its colour */
const NAME_COLORS = 30; /* of colours by name: 15 hues in two shades */
const IS_COMMUNICATION = /nccl|rccl|msccl|hccl|all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|nvshmem/i;

/* Colours of charts by the names that tables use for parts of time. */
const PART_COLORS = {
  kernel: 'kernel',
  compute: 'kernel',
  computation: 'kernel',
  device_compute: 'kernel',
  communication: 'communication',
  device_communication: 'communication',
  memcpy: 'copy',
  device_copy: 'copy',
  memory: 'copy',
  memset: 'copy2',
  runtime: 'runtime',
  launch: 'runtime',
  dataloader: 'waiting',
  data_loader: 'waiting',
  data_loading: 'waiting',
  synchronizing: 'waiting2',
  cpu: 'operator',
  host_operator: 'operator',
  in_operator: 'operator',
  python: 'python',
  non_compute: 'communication',
  idle: 'idle',
  other: 'other',
  running: 'running',
  waiting: 'ready',
  blocked: 'blocked',
};
const SPARE_COLORS = [
  'operator',
  'range',
  'python',
  'runtime',
  'copy',
  'communication',
  'kernel',
  'waiting2',
];

function partColor(name, number) {
  const key = name.replace(/_us$/, '').toLowerCase();
  return PART_COLORS[key] || SPARE_COLORS[number % SPARE_COLORS.length];
}

function hslToRgb(hue, saturation, lightness) {
  const s = saturation / 100;
  const l = lightness / 100;
  const part = (n) => {
    const k = (n + hue / 30) % 12;
    return Math.round(255 * (l - s * Math.min(l, 1 - l) * Math.max(-1, Math.min(k - 3, 9 - k, 1))));
  };
  return [part(0), part(8), part(4)];
}

/* A pixel as canvas stores it on little-endian machines: red in the lowest byte. */
function pixelOf([r, g, b]) {
  return ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
}

function cssOf(pixel) {
  return `rgb(${pixel & 255} ${(pixel >>> 8) & 255} ${(pixel >>> 16) & 255})`;
}

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  if (chosen) return chosen === 'dark';
  return matchMedia('(prefers-color-scheme: dark)').matches;
}

/* Neighbours in the list are far apart in hue. */
function nameColor(i, dark) {
  const hue = ((i % 15) * 7 * 24) % 360;
  return hslToRgb(hue, dark ? 48 : 62, (dark ? 26 : 80) + (i < 15 ? 0 : dark ? 8 : -9));
}

function makePalette(dark) {
  const boxes = CLASSES.flatMap(([, hue, saturation], group) =>
    Array.from({ length: SHADES }, (_, i) =>
      STATE_LIGHTNESS[group]
        ? hslToRgb(hue, saturation, STATE_LIGHTNESS[group][dark ? 1 : 0])
        : hslToRgb(hue + (i - 2) * 4, dark ? saturation * 0.8 : saturation, dark ? 27 + i * 2 : 83 - i * 3),
    ),
  );
  const [back, band, line, text, strong, weak] = dark
    ? [
        [22, 25, 30],
        [27, 31, 37],
        [52, 58, 68],
        [238, 240, 243],
        [255, 196, 87],
        [154, 163, 176],
      ]
    : [
        [255, 255, 255],
        [247, 248, 250],
        [218, 222, 228],
        [24, 28, 35],
        [176, 84, 0],
        [91, 100, 114],
      ];
  const css = ([r, g, b]) => `rgb(${r},${g},${b})`;
  return {
    boxes: Uint32Array.from(boxes, pixelOf),
    names: Uint32Array.from({ length: NAME_COLORS }, (_, i) => pixelOf(nameColor(i, dark))),
    back: pixelOf(back),
    band: pixelOf(band),
    line: pixelOf(line),
    strong: pixelOf(strong),
    text: css(text),
    weak: css(weak),
    accent: css(strong),
    lineText: css(line),
    backText: css(back),
    dim: dark ? 0.22 : 0.25,
  };
}

/* `share` of a colour over another. */
function mix(color, back, share) {
  const s = Math.round(share * 256);
  const mixed = (shift) =>
    ((((color >>> shift) & 255) * s + ((back >>> shift) & 255) * (256 - s)) >> 8) << shift;
  return ((255 << 24) | mixed(16) | mixed(8) | mixed(0)) >>> 0;
}

/* The colour class of every name and kind of the timeline. */
function colorClasses(activities) {
  const kinds = Uint8Array.from(activities.kinds, (kind) => KIND_CLASSES[kind] ?? OTHER);
  const shades = new Uint8Array(activities.strings.length);
  const talks = new Uint8Array(activities.strings.length);
  const states = Uint8Array.from(activities.strings, (text) => STATES[text] || BLOCKED);
  activities.strings.forEach((text, i) => {
    shades[i] = hashOf(text) % SHADES;
    talks[i] = IS_COMMUNICATION.test(text.slice(0, HASHED)) ? 1 : 0;
  });
  return { kinds, shades, talks, states };
}

function hashOf(text) {
  const end = Math.min(text.length, HASHED);
  let hash = text.length;
  for (let k = 0; k < end; k++) hash = (hash * 31 + text.charCodeAt(k)) | 0;
  return hash >>> 4;
}

/* By hash; the names with the most time get a colour of their own, the next one that is free. */
function colorsOfNames(activities) {
  const names = Uint8Array.from(activities.strings, (text) => hashOf(text) % NAME_COLORS);
  const times = new Float64Array(names.length);
  for (let i = 0; i < activities.count; i++) times[activities.name[i]] += activities.dur[i];
  const least = times.slice().sort()[Math.max(0, times.length - NAME_COLORS)];
  const longest = [...times.keys()].filter((i) => times[i] > 0 && times[i] >= least);
  longest.sort((a, b) => times[b] - times[a]);
  const isTaken = new Uint8Array(NAME_COLORS);
  for (const name of longest.slice(0, NAME_COLORS)) {
    while (isTaken[names[name]]) names[name] = (names[name] + 1) % NAME_COLORS;
    isTaken[names[name]] = 1;
  }
  return names;
}
