'use strict';
/* Reads the data elements of the page: blocks of gzip in base64, and the columns of the timeline, which
 * report_timeline.c writes and docs/reference/report.md describes. */

const ARGS_KEPT = 16; /* blocks of arguments that stay decoded */

function fromBase64(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const raw = atob(text);
  const bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  return bytes;
}

/* Waits until an element has been loaded completely: the script runs before the data arrives. Null: the
 * page has no such element. */
async function waitForElement(id) {
  for (;;) {
    const isRead = document.readyState !== 'loading';
    const element = document.querySelector(`script[type="text/plain"]#${id}`);
    if (isRead || (element && element.nextElementSibling)) return element;
    await new Promise((done) => setTimeout(done, 4));
  }
}

/* The bytes of a block; null: the page has no such block. Elements that are read only once are removed. */
async function readBlock(id) {
  const element = await waitForElement(id);
  if (!element) return null;
  const packed = fromBase64(element.textContent.trim());
  if (!id.startsWith('args-')) element.remove();
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream('gzip'));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

async function readJson(id, parse = JSON.parse) {
  const bytes = await readBlock(id);
  return bytes && parse(new TextDecoder().decode(bytes));
}

/* Strings are tokens as well, so that digits inside of a string are not taken for a number. */
const JSON_TOKEN = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?/g;

/* True if a double represents the number exactly and prints the same digits: up to 15 always do. */
function isExactDouble(number) {
  const value = Number(number);
  if (!/[.eE]/.test(number)) return Number.isSafeInteger(value);
  const digits = number
    .replace(/[eE].*/, '')
    .replace(/\D/g, '')
    .replace(/^0+/, '');
  return Number.isFinite(value) && (digits.length <= 15 || String(value) === number);
}

/* Parses JSON without loss: numbers that a double does not represent become texts. */
function parseExactly(text) {
  if (!/[\d.]{16}|\d[eE]/.test(text)) return JSON.parse(text);
  try {
    return JSON.parse(text.replace(JSON_TOKEN, (t) => (t[0] === '"' || isExactDouble(t) ? t : `"${t}"`)));
  } catch {
    return JSON.parse(text); // a text of many megabytes is too long for the expression
  }
}

/* LEB128: the low seven bits first. Beyond 28 bits, bit operations on 32-bit integers would overflow. The most
 * numbers have one byte. */
function readVarints(bytes, at, out) {
  const count = out.length;
  for (let i = 0; i < count; i++) {
    let byte = bytes[at++];
    if (byte < 128) {
      out[i] = byte;
      continue;
    }
    let value = byte & 127;
    for (let shift = 7; byte > 127 && shift < 28; shift += 7) {
      byte = bytes[at++];
      value |= (byte & 127) << shift;
    }
    for (let scale = 2 ** 28; byte > 127; scale *= 128) {
      byte = bytes[at++];
      value += (byte & 127) * scale;
    }
    out[i] = value;
  }
  return at;
}

function fromZigzag(value) {
  return value % 2 ? -(value + 1) / 2 : value / 2;
}

/* The columns of all activities, indexed by place: the position of an activity in the timeline. */
class Activities {
  constructor(bytes) {
    const view = new DataView(bytes.buffer, bytes.byteOffset);
    const size = view.getUint32(0, true);
    this.bytes = bytes;
    this.header = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + size)));
    const header = this.header;
    this.count = header.rows;
    this.originUs = Number(BigInt(header.origin_ns) / 1000n);
    this.originNs = BigInt(header.origin_ns);
    this.originPart = Number(BigInt(header.origin_ns) % 1000n) / 1e3;
    this.strings = header.strings;
    this.kinds = header.kinds;
    this.processes = header.processes;
    this.tracks = header.tracks;
    this.steps = header.steps || [];
    this.argsRows = header.args_rows;
    this.argsBlocks = new Map();
    this.ids = new Map();
    this.places = this.findColumns(4 + size);
  }

  findColumns(at) {
    const places = new Map();
    for (const column of this.header.columns) {
      places.set(column.name, { at, bytes: column.bytes });
      at += column.bytes;
    }
    this.countersAt = at;
    return places;
  }

  column(name, type) {
    const out = new type(this.count);
    const place = this.places.get(name);
    if (!place) return out;
    const end = readVarints(this.bytes, place.at, out);
    if (end !== place.at + place.bytes) throw new Error(`column ${name} of the timeline is damaged`);
    return out;
  }

  /* Decodes the columns that drawing needs; the others are decoded at first use. */
  async decode() {
    this.start = this.column('start', Float64Array);
    await pause();
    this.dur = this.column('dur', Float64Array);
    await pause();
    this.name = this.column('name', Uint32Array);
    await pause();
    this.kind = this.column('kind', Uint16Array);
    this.depth = this.column('depth', Uint16Array);
    this.sumStarts();
    await pause();
    this.readCounters();
  }

  sumStarts() {
    const { start, dur } = this;
    let most = 0;
    for (const track of this.tracks) {
      const end = (track.end = track.first + track.count);
      let at = 0;
      for (let i = track.first; i < end; i++) {
        start[i] = at += start[i];
        if (at + dur[i] > most) most = at + dur[i];
      }
    }
    for (const step of this.steps) most = Math.max(most, step.start + step.dur);
    this.length = Math.max(most, 1);
    this.full = [...this.tracks.keys()].filter((i) => this.tracks[i].count);
    this.full.sort((a, b) => this.tracks[a].first - this.tracks[b].first);
  }

  readCounters() {
    let at = this.countersAt;
    this.counters = (this.header.counters || []).map((counter) => {
      const times = new Float64Array(counter.count);
      readVarints(this.bytes, at, times);
      for (let i = 1; i < times.length; i++) times[i] += times[i - 1];
      at += counter.time_bytes;
      const values = this.bytes.slice(at, at + counter.value_bytes);
      at += counter.value_bytes;
      if (times.length) this.length = Math.max(this.length, times[times.length - 1]);
      return { ...counter, times, values: new Float64Array(values.buffer, 0, counter.count) };
    });
  }

  /* Decoded when an activity is selected for the first time. */
  get row() {
    if (!this.rows) {
      const raw = this.column('row', Float64Array);
      let last = 0;
      for (let i = 0; i < raw.length; i++) raw[i] = last += fromZigzag(raw[i]);
      this.rows = raw;
    }
    return this.rows;
  }

  /* The place of the call that launched it, or -1. */
  get link() {
    if (!this.links) {
      const raw = this.column('link', Float64Array);
      this.links = new Int32Array(this.count);
      for (let i = 0; i < raw.length; i++) {
        const to = raw[i] ? i + fromZigzag(raw[i] - 1) : -1;
        this.links[i] = to >= 0 && to < this.count ? to : -1;
      }
    }
    return this.links;
  }

  /* The activities that the call at this place launched, at most `most`. */
  launchedBy(place, most) {
    const link = this.link;
    const found = [];
    for (let i = 0; i < link.length && found.length < most; i++) if (link[i] === place) found.push(i);
    return found;
  }

  async args(place) {
    const number = Math.floor(place / this.argsRows);
    let block = this.argsBlocks.get(number);
    if (!block) {
      block = readJson(`args-${number}`, parseExactly);
      this.argsBlocks.set(number, block);
      if (this.argsBlocks.size > ARGS_KEPT) this.argsBlocks.delete(this.argsBlocks.keys().next().value);
    }
    const list = await block;
    const own = { ...this.idsOf(place), ...(list && list[place % this.argsRows]) };
    return Object.keys(own).length ? own : null;
  }

  /* Ids are columns, not args; 0 means none. */
  idsOf(place) {
    const found = {};
    for (const [key, name] of [
      ['External id', 'external'],
      ['correlation', 'correlation'],
    ]) {
      if (!this.ids.has(name)) this.ids.set(name, this.readIds(name));
      const id = this.ids.get(name)[place];
      if (id) found[key] = id > Number.MAX_SAFE_INTEGER ? String(id) : Number(id);
    }
    return found;
  }

  readIds(name) {
    const ids = this.column(name, Float64Array);
    const most = Number.MAX_SAFE_INTEGER;
    let last = 0;
    for (let i = 0; i < ids.length; i++) {
      if (!ids[i]) continue;
      const next = last + fromZigzag(ids[i] - 1);
      if (ids[i] > most || next < 0 || next > most) return this.readLongIds(name);
      ids[i] = last = next;
    }
    return ids;
  }

  /* The same with integers of 64 bits, which is slower: in doubles one large id would corrupt all ids
   * after it, because they are deltas. */
  readLongIds(name) {
    const ids = new BigUint64Array(this.count);
    let { at } = this.places.get(name);
    let last = 0n;
    for (let i = 0; i < ids.length; i++) {
      let value = 0n;
      for (let shift = 0n, byte = 128; byte > 127; shift += 7n) {
        byte = this.bytes[at++];
        value |= BigInt(byte & 127) << shift;
      }
      if (!value) continue;
      last += value % 2n ? (value - 1n) / 2n : -value / 2n;
      ids[i] = last; /* modulo 2^64 */
    }
    return ids;
  }

  /* ns since the origin of a time of the facts. The difference is small, so nothing is lost. */
  fromUs(us) {
    return (us - this.originUs - this.originPart) * 1e3;
  }

  nameOf(place) {
    return this.strings[this.name[place]];
  }

  trackOf(place) {
    const full = this.full;
    let low = 0;
    let high = full.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.tracks[full[middle]].first <= place) low = middle;
      else high = middle - 1;
    }
    return full[low];
  }

  /* Ranks are compared only if there are several: a single trace may not state its rank. */
  isOfRank(process, rank) {
    if (rank === null || rank === undefined || report.ranks.length < 2) return true;
    return this.processes[process].rank === rank;
  }

  rankOf(place) {
    return this.processes[this.tracks[this.trackOf(place)].process].rank;
  }

  endOf(place) {
    return this.start[place] + this.dur[place];
  }

  /* The duration without that of nested activities. */
  selfTime(place) {
    const end = this.endOf(place);
    const last = this.tracks[this.trackOf(place)].end;
    const within = this.depth[place] + 1;
    let left = this.dur[place];
    for (let i = place + 1; i < last && this.start[i] < end; i++) {
      if (this.depth[i] === within && this.endOf(i) <= end) left -= this.dur[i];
    }
    return Math.max(0, left);
  }

  /* The enclosing activity, or -1. An activity that only overlaps may be drawn in the line above, but
   * ends earlier. */
  parentOf(place) {
    const first = this.tracks[this.trackOf(place)].first;
    if (!this.depth[place]) return -1;
    for (let i = place - 1; i >= first; i--) {
      if (this.depth[i] === this.depth[place] - 1 && this.endOf(i) >= this.endOf(place)) return i;
    }
    return -1;
  }

  placeOfRow(rank, row) {
    for (const track of this.tracks) {
      if (!this.isOfRank(track.process, rank)) continue;
      for (let i = track.first; i < track.end; i++) if (this.row[i] === row) return i;
    }
    return -1;
  }
}
