'use strict';
/* The panel below the timeline: details of the selected activity, or sums over the selected range. */

const VALUE_SHOWN = 20000; /* characters of an argument */
const LAUNCHED_SHOWN = 20;

class Details {
  constructor(root) {
    this.root = root;
    this.showText('Click an activity, or drag over the times above to sum up a range. Press ? for the keys.');
  }

  get timeline() {
    return report.timeline;
  }

  showText(text) {
    this.wanted = -1;
    this.root.replaceChildren(make('p', { class: 'muted' }, text));
  }

  async showActivity(place) {
    if (place < 0) return this.showText('Nothing is selected.');
    this.wanted = place;
    const a = this.timeline.activities;
    const args = make('dl', { class: 'pairs args' });
    this.root.replaceChildren(
      make('h3', { class: 'selected-name' }, a.nameOf(place).slice(0, VALUE_SHOWN)),
      this.buttons(place),
      make(
        'div',
        { class: 'two' },
        this.facts(place),
        make('div', {}, make('h4', {}, 'Arguments in the trace'), args),
      ),
    );
    announce(`${a.nameOf(place)}, ${formatTime(a.dur[place])}`);
    const values = await a.args(place).catch(() => null);
    if (this.wanted !== place) return undefined;
    args.append(...pairsOf(values));
    this.root.dataset.ready = String(place);
    return undefined;
  }

  buttons(place) {
    const timeline = this.timeline;
    const name = timeline.activities.nameOf(place);
    const button = (text, title, action) => make('button', { type: 'button', title, onclick: action }, text);
    return make(
      'p',
      { class: 'buttons' },
      button('Zoom', 'f', () => timeline.goTo(place)),
      button('Sum over its duration', 'm', () => timeline.markSelection()),
      button('Find this name', '', () => report.search.find(name, true)),
      button('Copy', 'name and arguments', () => this.copy(place)),
    );
  }

  /* Nanoseconds since 1970 are more than a number of JavaScript holds. */
  async asText(place) {
    const a = this.timeline.activities;
    const values = {
      name: a.nameOf(place),
      start_ns: String(a.originNs + BigInt(a.start[place])),
      dur_ns: a.dur[place],
      args: await a.args(place),
    };
    return JSON.stringify(values, null, 1);
  }

  async copy(place) {
    return copyText(await this.asText(place));
  }

  facts(place) {
    const a = this.timeline.activities;
    const track = a.tracks[a.trackOf(place)];
    const process = a.processes[track.process];
    const pairs = [
      ['Kind', a.kinds[a.kind[place]]],
      ['Begin', `+${formatTime(a.start[place])}`],
      ['Duration', formatTime(a.dur[place])],
      ['Self', formatTime(a.selfTime(place))],
      ['Where', `${track.name} · ${process.name}`],
      report.ranks.length > 1 ? ['Rank', String(process.rank)] : null,
      ['Number in the trace', String(a.row[place])],
      this.linkPair('Inside of', a.parentOf(place)),
      this.linkPair('Launched by', a.link[place]),
    ].filter((p) => p);
    const list = make('dl', { class: 'pairs' });
    for (const [term, value] of pairs) list.append(make('dt', {}, term), make('dd', {}, value));
    this.addLaunched(list, place);
    return make('div', {}, list);
  }

  linkPair(term, place) {
    return place >= 0 ? [term, this.activityLink(place)] : null;
  }

  activityLink(place) {
    const a = this.timeline.activities;
    const track = a.tracks[a.trackOf(place)];
    return make(
      'button',
      { type: 'button', class: 'as-link', onclick: () => this.timeline.goTo(place) },
      `${oneLine(a.nameOf(place), 160)} (${formatTime(a.dur[place])}, ${oneLine(track.name, 60)})`,
    );
  }

  addLaunched(list, place) {
    const launched = this.timeline.activities.launchedBy(place, LAUNCHED_SHOWN + 1);
    if (!launched.length) return;
    const items = launched.slice(0, LAUNCHED_SHOWN).map((p) => make('li', {}, this.activityLink(p)));
    if (launched.length > LAUNCHED_SHOWN) items.push(make('li', {}, '…'));
    list.append(make('dt', {}, 'Launches'), make('dd', {}, make('ul', { class: 'plain' }, ...items)));
  }

  showRange(range) {
    if (!range) return this.showText('Nothing is selected.');
    this.wanted = -1;
    const [from, to] = range;
    const sums = sumRange(this.timeline, from, to);
    if (!sums.rows.length) return this.showText(`${formatTime(to - from)} without recorded activities.`);
    const table = new Table('range', sums, { label: 'Sums of the selected range', lines: 10 });
    table.sortBy(table.columns.findIndex((c) => c.name === 'sum_us'));
    this.root.replaceChildren(
      make('h3', {}, `${formatTime(to - from)} from +${formatTime(Math.max(0, from))}`),
      make(
        'p',
        { class: 'muted' },
        'Activities in the range, clipped at its ends; times of nested activities are counted in each of them.',
      ),
      table.root,
    );
    announce(`${formatTime(to - from)} selected`);
    return undefined;
  }
}

/* The args of the trace: an object of any values. */
function pairsOf(values) {
  const entries = values && typeof values === 'object' ? Object.entries(values) : [];
  if (!entries.length) return [make('dt', { class: 'muted' }, 'none'), make('dd')];
  return entries.flatMap(([key, value]) => {
    const text = typeof value === 'string' ? value : JSON.stringify(value);
    const { frames } = isStackColumn(key) ? splitStack(text) : { frames: [] };
    const shown = frames.length ? stackList(frames) : (text ?? '').slice(0, VALUE_SHOWN);
    return [make('dt', {}, oneLine(key)), make('dd', {}, shown)];
  });
}

/* Sums by kind and name over the visible rows of the timeline. */
function sumRange(timeline, from, to) {
  const { activities, lanes, rows } = timeline;
  const names = activities.strings.length;
  const sums = new Map();
  activities.tracks.forEach((track, t) => {
    if (!activities.isOfRank(track.process, rows.rank)) return;
    for (let lane = lanes.base[t]; lane < lanes.base[t + 1]; lane++) {
      const end = lanes.first[lane + 1];
      for (let i = lanes.firstAfter(lane, from); i < end && lanes.start[i] < to; i++) {
        const place = lanes.list[i];
        const time = Math.min(to, activities.endOf(place)) - Math.max(from, lanes.start[i]);
        if (time < 0) continue;
        const key = activities.kind[place] * names + activities.name[place];
        const sum = sums.get(key);
        if (sum) {
          sum[2]++;
          sum[3] += time / 1e3;
        } else {
          sums.set(key, [activities.kinds[activities.kind[place]], activities.nameOf(place), 1, time / 1e3]);
        }
      }
    }
  });
  const found = [...sums.values()].map((s) => [...s, s[3] / s[2], (s[3] * 1e5) / (to - from || 1)]);
  return { columns: ['kind', 'name', 'count', 'sum_us', 'mean_us', 'range_pct'], rows: found };
}
