'use strict';
/* The ruler above the timeline: times, and steps as bands. */

const RULER = 40;
const TICK = 110; /* approximate distance of times in pixels */

/* 1, 2 or 5 times a power of ten. */
function roundStep(step) {
  const power = 10 ** Math.floor(Math.log10(step));
  const lead = step / power;
  return power * (lead <= 1 ? 1 : lead <= 2 ? 2 : lead <= 5 ? 5 : 10);
}

class Ruler {
  constructor(canvas, timeline) {
    this.canvas = canvas;
    this.timeline = timeline;
    this.context = canvas.getContext('2d', { alpha: false, willReadFrequently: true });
  }

  resize(width, ratio, left) {
    this.width = width;
    this.ratio = ratio;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(RULER * ratio);
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${RULER}px`;
    this.canvas.style.marginLeft = `${left}px`;
  }

  draw() {
    const { context, timeline } = this;
    const { palette } = timeline.painter;
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    context.fillStyle = palette.backText;
    context.fillRect(0, 0, this.width, RULER);
    context.font = FONT;
    context.textBaseline = 'middle';
    this.drawTimes(palette);
    let end = -Infinity;
    for (const step of timeline.shownSteps()) end = this.drawStep(step, palette, end);
  }

  drawTimes(palette) {
    const { context, timeline } = this;
    const step = roundStep(TICK / timeline.perNs);
    const [unit, scale] = unitFor(step, TIME_UNITS);
    const digits = Math.max(0, Math.ceil(-Math.log10(step / scale)));
    for (let t = Math.ceil(timeline.from / step) * step; t < timeline.to; t += step) {
      const x = timeline.xOf(t);
      context.fillStyle = palette.lineText;
      context.fillRect(x, 0, 1, RULER);
      context.fillStyle = palette.weak;
      context.fillText(`${formatNumber(t / scale, digits)} ${unit}`, x + 4, 10);
    }
  }

  /* Steps within one pixel are drawn once. */
  drawStep(step, palette, end) {
    const { context, timeline } = this;
    const x0 = Math.max(0, timeline.xOf(step.start));
    const x1 = Math.min(this.width, timeline.xOf(step.start + step.dur));
    if (x1 < 0 || x0 >= this.width || x1 <= end) return end;
    context.fillStyle = palette.lineText;
    context.fillRect(x0, 21, Math.max(1, x1 - x0 - 1), 16);
    context.fillStyle = palette.text;
    const name = /^\d+$/.test(step.name) ? `step ${step.name}` : oneLine(step.name, 80);
    if (context.measureText(name).width < x1 - x0 - 8) context.fillText(name, x0 + 4, 29);
    else if (x1 - x0 > 28) context.fillText(name.replace(/\D*/, '').slice(0, 4), x0 + 4, 29);
    return Math.ceil(x1);
  }
}
