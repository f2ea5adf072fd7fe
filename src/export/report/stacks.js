'use strict';
/* Call stacks: the trace has them as one text, innermost first, with ";" or line ends between frames. */

const FRAMES_SHOWN = 200;

/* "text: a.py(1): f;b.py(2): g" as {text, frames}. A frame is "file(line): function" or Python's name of a
 * built-in or module; other texts are no stacks. */
function splitStack(text) {
  const parts = text.split(/;(?! )|\n/).filter((p) => p);
  const isFrame = (part) => /\(\d+\): .|^<built-in |^nn\.Module: /.test(part);
  /* a text that was cut ends within a frame */
  if (parts.length < 2 || !parts.slice(1, -1).every(isFrame)) return { text, frames: [] };
  const head = /^(.*?(?:: | by ))?(\S.*\(\d+\): .+|<built-in .+|nn\.Module: .+)$/s.exec(parts[0]);
  if (!head) return { text, frames: [] };
  return { text: (head[1] || '').replace(/:? $/, ''), frames: [head[2], ...parts.slice(1)] };
}

function isStackColumn(name) {
  return /(^|[_ ])(call ?)?stack$/i.test(name);
}

/* A list, innermost first. */
function stackList(frames) {
  const items = frames.slice(0, FRAMES_SHOWN).map((frame) => {
    const item = make('li', {}, oneLine(frame));
    item.frame = frame;
    return item;
  });
  if (frames.length > items.length) items.push(make('li', {}, `${frames.length - items.length} more frames`));
  const list = make('ol', { class: 'stack', 'aria-label': 'Call stack, innermost first' }, ...items);
  linkFrames(list);
  return list;
}

/* Frames that are activities of the timeline lead there, once it is decoded. */
function linkFrames(root) {
  if (!report.timeline) return;
  const { activities } = report.timeline;
  activities.names = activities.names || new Set(activities.strings);
  for (const item of root.querySelectorAll('li')) {
    if (item.frame === undefined || item.firstElementChild || !activities.names.has(item.frame)) continue;
    item.replaceChildren(placeLink({ rank: null, name: item.frame }, oneLine(item.frame)));
  }
}
