'use strict';
/* Places on the timeline: the targets of links from numbers in tables and from evidence.
 *   {rank, row}               an activity by its number in the trace
 *   {rank, startUs, durUs}    a range, or a moment
 *   {rank, step}              a step by its name
 *   {rank, name}              the longest activity of that name */

const NAME_COLUMNS = ['name', 'operator', 'op', 'kernel', 'module', 'pattern'];
const NO_PLACE_COLUMNS = new Set(['rank', 'id', 'parent', 'device', 'stream', 'gpu', 'tid', 'pid']);

/* Returns a function from a row of a table to its place, by the table's columns; null: rows have none. */
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
  if (!name || at.has('gpu')) return null; /* these names are those of devices */
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

/* Waits for the timeline, which is decoded after the findings are shown. */
async function goToPlace(place) {
  const timeline = await report.timelineReady;
  if (!timeline) return announce('this report has no timeline');
  if (place.rank !== null && place.rank !== undefined) report.setRank(place.rank, true);
  const found = findPlace(timeline.activities, place);
  if (!found) {
    announce('not on the timeline');
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

/* By its row. Rows are numbered per file, so with several files the time and name have to match as well. */
function findEvidence(activities, place) {
  const from = activities.fromUs(place.startUs);
  const isMatch = (i) =>
    Math.abs(activities.start[i] - from) < 1000 && (!place.name || activities.nameOf(i) === place.name);
  const byRow = activities.placeOfRow(place.rank, place.row);
  if (byRow >= 0 && isMatch(byRow)) return byRow;
  for (const track of activities.tracks) {
    if (!activities.isOfRank(track.process, place.rank)) continue;
    for (let i = track.first; i < track.end; i++) if (isMatch(i)) return i;
  }
  return -1;
}

/* Collectives have other names than their kernels: finds the communication kernel of the same duration. */
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

/* The longest activity of exactly that name, or else with the name as a part, since tables shorten some. */
function longestNamed(activities, { name, rank }) {
  let [wanted] = name.split('|');
  if (wanted.endsWith(BACKWARD) && !activities.strings.includes(wanted))
    wanted = wanted.slice(0, -BACKWARD.length);
  const short = wanted.slice(0, 200).toLowerCase();
  const exact = activities.strings.indexOf(wanted);
  const isMatch = new Uint8Array(activities.strings.length);
  if (exact >= 0) isMatch[exact] = 1;
  else
    activities.strings.forEach((s, i) => {
      isMatch[i] = s.toLowerCase().includes(short) ? 1 : 0;
    });
  let best = -1;
  for (const track of activities.tracks) {
    if (!activities.isOfRank(track.process, rank)) continue;
    for (let i = track.first; i < track.end; i++) {
      if (isMatch[activities.name[i]] && (best < 0 || activities.dur[i] > activities.dur[best])) best = i;
    }
  }
  return best;
}
