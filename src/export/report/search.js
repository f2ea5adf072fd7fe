'use strict';
/* Search by name: a text, or /a regular expression/. */

class Search {
  constructor(root) {
    this.input = make('input', {
      type: 'search',
      id: 'search',
      placeholder: 'Search names, or /expression/',
      'aria-label': 'Search the timeline',
    });
    this.result = make('output', { class: 'result', for: 'search' });
    this.before = make(
      'button',
      { type: 'button', 'aria-label': 'Previous match', title: 'Shift+N', onclick: () => this.step(-1) },
      '‹',
    );
    this.after = make(
      'button',
      { type: 'button', 'aria-label': 'Next match', title: 'N', onclick: () => this.step(1) },
      '›',
    );
    root.append(
      make('span', { class: 'search', role: 'search' }, this.input, this.before, this.after, this.result),
    );
    this.input.addEventListener(
      'input',
      waitForQuiet(120, () => this.input.value !== this.text && this.find(this.input.value)),
    );
    this.input.addEventListener('keydown', (e) => this.onKey(e));
    this.total = 0;
  }

  onKey(event) {
    if (event.key === 'Enter') {
      event.preventDefault();
      if (this.input.value !== this.text) this.find(this.input.value);
      this.step(event.shiftKey ? -1 : 1);
    } else if (event.key === 'Escape') {
      this.find('');
      report.timeline.canvas.focus({ preventScroll: true });
    }
  }

  /* A predicate of names; null: the search text is empty. */
  testOf(text, isExact) {
    if (isExact) return (name) => name === text;
    const trimmed = text.trim();
    if (!trimmed) return null;
    const expression = /^\/(.+)\/$/.exec(trimmed);
    if (expression) {
      const pattern = new RegExp(expression[1], 'i');
      return (name) => pattern.test(name.slice(0, 4096));
    }
    const wanted = trimmed.toLowerCase();
    return (name) => name.toLowerCase().includes(wanted);
  }

  find(text, isExact = false) {
    const { timeline } = report;
    this.text = text;
    if (this.input.value !== text) this.input.value = text;
    let test = null;
    try {
      test = this.testOf(text, isExact);
    } catch {
      this.result.textContent = 'invalid expression';
      return;
    }
    this.isMatch = test ? Uint8Array.from(timeline.activities.strings, (s) => (test(s) ? 1 : 0)) : null;
    timeline.matches = test ? timeline.lanes.countMatches(this.isMatch) : null;
    this.count();
    timeline.redraw();
  }

  isShown(track) {
    const { activities, rows } = report.timeline;
    return activities.isOfRank(track.process, rows.rank);
  }

  count() {
    this.total = this.isMatch ? this.scan(() => {}) : 0;
    this.result.textContent = this.isMatch ? `${formatNumber(this.total, 0)} found` : '';
  }

  scan(use) {
    const { activities } = report.timeline;
    const { name } = activities;
    let total = 0;
    for (const track of activities.tracks) {
      if (!this.isShown(track)) continue;
      for (let i = track.first; i < track.end; i++) {
        if (!this.isMatch[name[i]]) continue;
        total++;
        use(i);
      }
    }
    return total;
  }

  /* The next match in time after the selection; wraps around at the end. */
  step(by) {
    if (!this.isMatch || !this.total) return;
    const { timeline } = report;
    const { start } = timeline.activities;
    const current = timeline.selected;
    const from = current >= 0 ? start[current] : timeline.from;
    const isBefore = (a, b) => start[a] < start[b] || (start[a] === start[b] && a < b);
    const isPast = (i) => (current >= 0 ? isBefore(current, i) : start[i] >= from);
    let next = -1;
    let least = -1;
    let place = 0;
    const better = (i, best) => best < 0 || (by > 0 ? isBefore(i, best) : isBefore(best, i));
    this.scan((i) => {
      const isAhead = by > 0 ? isPast(i) : i !== current && !isPast(i);
      if (isAhead && better(i, next)) next = i;
      if (better(i, least)) least = i;
    });
    if (next < 0) next = least;
    this.scan((i) => {
      if (i === next || isBefore(i, next)) place++;
    });
    this.reveal(next);
    this.result.textContent = `${formatNumber(place, 0)} of ${formatNumber(this.total, 0)}`;
    announce(`${this.result.textContent} matches`);
  }

  /* Brings an activity into view and zooms no more than necessary. */
  reveal(place) {
    const { timeline } = report;
    const { activities } = timeline;
    if (timeline.rows.show(place)) timeline.layOut();
    const length = timeline.to - timeline.from;
    const dur = activities.dur[place];
    const middle = activities.start[place] + dur / 2;
    const isTiny = dur / length < 0.002;
    const shown = Math.max(dur * (isTiny ? 40 : 1.5), isTiny ? CLOSEST : Math.min(length, activities.length));
    if (isTiny || activities.start[place] < timeline.from || activities.endOf(place) > timeline.to) {
      timeline.show(middle - shown / 2, middle + shown / 2);
    }
    timeline.select(place);
    timeline.scrollTo(place);
  }
}
