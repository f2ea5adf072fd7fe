'use strict';
/* The legend of the timeline: exactly the classes or names that the image shows. */

const NAMES_SHOWN = 14;

class Legend {
  constructor(timeline) {
    this.timeline = timeline;
    this.list = make('ul', { class: 'legend' });
    this.button = make('button', { type: 'button', onclick: () => this.switchMode() });
    this.root = make('div', { class: 'legend-line' }, this.button, this.list);
    this.update = waitForQuiet(60, () => this.write());
    this.writeButton();
  }

  switchMode() {
    const { painter } = this.timeline;
    painter.setByName(!painter.byName);
    this.writeButton();
    this.timeline.redraw();
  }

  writeButton() {
    const { byName } = this.timeline.painter;
    this.button.textContent = byName ? 'Colours by name' : 'Colours by kind';
    this.button.title = `Colour activities by ${byName ? 'kind' : 'name'}`;
  }

  write() {
    const all = this.timeline.painter.legend();
    const shown = this.timeline.painter.byName ? all.slice(0, NAMES_SHOWN) : all;
    const key = JSON.stringify([shown, all.length]);
    if (key === this.key) return;
    this.key = key;
    const items = shown.map(({ title, color }) => {
      const swatch = make('span', { class: 'swatch', 'aria-hidden': 'true' });
      swatch.style.background = color;
      return make('li', { title: oneLine(title) }, swatch, oneLine(labelOf(title), 40));
    });
    const more = all.length - shown.length;
    if (more > 0) items.push(make('li', {}, `${formatNumber(more, 0)} more names`));
    this.list.replaceChildren(...items);
  }
}
