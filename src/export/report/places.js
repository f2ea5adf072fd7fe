'use strict';
/* Places on the timeline: what a number of a table or a piece of evidence points at.
 *   {rank, row}               an activity by its number in the trace
 *   {rank, startUs, durUs}    a range, or a moment
 *   {rank, step}              a step by its name
 *   {rank, name}              the longest activity of that name */

const NAME_COLUMNS = ['name', 'operator', 'op', 'kernel', 'module', 'pattern'];
const NO_PLACE_COLUMNS = new Set(['rank', 'id', 'parent', 'device', 'stream', 'gpu', 'tid', 'pid']);

/* How to find the place of a row of a table, from its columns; null if its rows have none. */
function placeFinder(columns) {
  const at = new Map(columns.map((c, i) => [c.name, i]));
  const rankAt = at.get('rank');
  const rankOf = (row) => (rankAt === undefined ? null : row[rankAt]);
  const time = ['start_us', 'ts_us', 'peak_at_us', 'first_us'].find((n) => at.has(n));
  if (time) {
    const duration = at.get('dur_us');
    const end = at.get('last_us') ?? at.get('end_us');
    return (row) => timePlace(rankOf(row), row[at.get(time)], row[duration] ?? row[end] - row[at.get(time)]);
  }
  if (at.has('step'))
    return (row) => (row[at.get('step')] === null ? null : { rank: rankOf(row), step: row[at.get('step')] });
  const name = NAME_COLUMNS.find((n) => at.has(n));
  if (!name || at.has('gpu')) return null; /* those are names of devices */
  const duration = at.get('dur_us');
  const isName = (value) => value && value !== '(outside of every range)';
  return (row) =>
    isName(row[at.get(name)]) ? { rank: rankOf(row), name: row[at.get(name)], durUs: row[duration] } : null;
}

function timePlace(rank, startUs, durUs) {
  return startUs === null || startUs === undefined ? null : { rank, startUs, durUs: durUs || 0 };
}

function placeOfEvidence(evidence) {
  if (evidence.row !== null && evidence.row !== undefined) {
    const { rank, row, name } = evidence;
    return { rank, row, name, startUs: evidence.start_us, durUs: evidence.dur_us };
  }
  return timePlace(evidence.rank, evidence.start_us, evidence.dur_us);
}

/* Going there needs the timeline, which comes after the findings. */
async function goToPlace(place) {
  const timeline = await report.timelineReady;
  if (!timeline) return say('the timeline was left out of this report');
  if (place.rank !== null && place.rank !== undefined) report.setRank(place.rank, true);
  const found = findPlace(timeline.activities, place);
  if (!found) {
    say('not on the timeline');
    report.details.showText(`${place.name || 'This'} has no activity on the timeline.`);
  } else if (found.activity !== undefined) {
    timeline.goTo(found.activity);
  } else {
    timeline.goToRange(found.start, found.end);
  }
  timeline.canvas.focus({ preventScroll: true });
  return undefined;
}

function findPlace(activities, place) {
  if (place.row !== undefined) {
    const activity = findEvidence(activities, place);
    if (activity >= 0) return { activity };
  }
  if (place.startUs !== null && place.startUs !== undefined) {
    const start = activities.fromUs(place.startUs);
    return { start, end: start + (place.durUs || 0) * 1e3 };
  }
  if (place.step !== undefined) return findStep(activities, place);
  let activity = place.durUs ? communicationOf(activities, place) : -1;
  if (activity < 0 && place.name) activity = longestNamed(activities, place);
  return activity >= 0 ? { activity } : null;
}

/* By its row; in a page of several files rows are counted anew, so then by what it is. */
function findEvidence(activities, place) {
  const from = activities.fromUs(place.startUs);
  const isIt = (i) =>
    Math.abs(activities.start[i] - from) < 1000 && (!place.name || activities.nameOf(i) === place.name);
  const byRow = activities.placeOfRow(place.rank, place.row);
  if (byRow >= 0 && isIt(byRow)) return byRow;
  for (const track of activities.tracks) {
    if (!activities.isOfRank(track.process, place.rank)) continue;
    for (let i = track.first; i < track.end; i++) if (isIt(i)) return i;
  }
  return -1;
}

/* Collectives have names that their kernels do not: the one that took as long. */
function communicationOf(activities, { rank, durUs }) {
  for (const track of activities.tracks) {
    if (!activities.isOfRank(track.process, rank)) continue;
    for (let i = track.first; i < track.end; i++) {
      const isAsLong = Math.abs(activities.dur[i] - durUs * 1e3) < 1;
      if (isAsLong && IS_COMMUNICATION.test(activities.nameOf(i).slice(0, 100))) return i;
    }
  }
  return -1;
}

function findStep(activities, place) {
  const number = (text) => String(text).replace(/^.*#\s*/, '');
  const isOwn = (s) => number(s.name) === number(place.step);
  const all = activities.steps.filter(isOwn);
  const step = all.find((s) => s.rank === place.rank) || all[0];
  return step ? { start: step.start, end: step.start + step.dur } : null;
}

/* Of that name exactly, or else with it in its name: tables shorten some. */
function longestNamed(activities, { name, rank }) {
  let [wanted] = name.split('|');
  if (wanted.endsWith(BACKWARD) && !activities.strings.includes(wanted))
    wanted = wanted.slice(0, -BACKWARD.length);
  const short = wanted.slice(0, 200).toLowerCase();
  const exact = activities.strings.indexOf(wanted);
  const isIt = new Uint8Array(activities.strings.length);
  if (exact >= 0) isIt[exact] = 1;
  else
    activities.strings.forEach((s, i) => {
      isIt[i] = s.toLowerCase().includes(short) ? 1 : 0;
    });
  let best = -1;
  for (const track of activities.tracks) {
    if (!activities.isOfRank(track.process, rank)) continue;
    for (let i = track.first; i < track.end; i++) {
      if (isIt[activities.name[i]] && (best < 0 || activities.dur[i] > activities.dur[best])) best = i;
    }
  }
  return best;
}
