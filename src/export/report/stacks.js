'use strict';
/* Call stacks: the trace has them as one text, innermost first, with ";" or line ends between frames. */

const FRAMES_SHOWN = 200;

/* "text: a.py(1): f;b.py(2): g" as {text, frames}. A frame is "file(line): function" or Python's name of a
 * built-in or module; other texts are no stacks. */
function splitStack(text) {
  const parts = text.split(/;\s*|\n/).filter((p) => p);
  const isFrame = (part) => /\(\d+\): .|^<built-in |^nn\.Module: /.test(part);
  if (parts.length < 2 || !parts.slice(1).every(isFrame)) return { text, frames: [] };
  const head = /^(.*?(?:: | by ))?(\S.*\(\d+\): .+|<built-in .+|nn\.Module: .+)$/s.exec(parts[0]);
  if (!head) return { text, frames: [] };
  return { text: (head[1] || '').replace(/:? $/, ''), frames: [head[2], ...parts.slice(1)] };
}

function isStackColumn(name) {
  return /(^|[_ ])(call ?)?stack$/i.test(name);
}

/* A list, innermost first; frames that are activities of the timeline lead there. */
function stackList(frames) {
  const known = report.timeline ? report.timeline.activities.strings : [];
  const items = frames.slice(0, FRAMES_SHOWN).map((frame) => {
    const isKnown = known.includes(frame);
    return make('li', {}, isKnown ? placeLink({ rank: null, name: frame }, oneLine(frame)) : oneLine(frame));
  });
  if (frames.length > items.length) items.push(make('li', {}, `${frames.length - items.length} more frames`));
  return make('ol', { class: 'stack', 'aria-label': 'Call stack, innermost first' }, ...items);
}
