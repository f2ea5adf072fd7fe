'use strict';
/* Numbers as text. The unit of a table's column is the suffix of its name. */

const TIME_UNITS = [
  ['s', 1e9],
  ['ms', 1e6],
  ['µs', 1e3],
  ['ns', 1],
];
const BYTE_UNITS = [
  ['TiB', 2 ** 40],
  ['GiB', 2 ** 30],
  ['MiB', 2 ** 20],
  ['KiB', 2 ** 10],
  ['B', 1],
];
const COUNT_UNITS = [
  ['P', 1e15],
  ['T', 1e12],
  ['G', 1e9],
  ['M', 1e6],
  ['', 1],
];

/* 12345.678 as "12 345.68", with narrow spaces that do not break. */
function formatNumber(value, digits = 2) {
  if (!Number.isFinite(value)) return String(value);
  const [whole, part] = Math.abs(value).toFixed(digits).split('.');
  const grouped = whole.length > 4 ? whole.replace(/\B(?=(\d{3})+$)/g, '\u202f') : whole;
  const sign = value < 0 && Number(value.toFixed(digits)) !== 0 ? '−' : '';
  return sign + grouped + (part ? '.' + part : '');
}

/* Without decimals for integers. */
function formatShort(value, digits = 3) {
  return formatNumber(value, Number.isInteger(value) ? 0 : digits);
}

function unitFor(value, units) {
  const size = Math.abs(value);
  return units.find(([, scale]) => size >= scale) || units[units.length - 1];
}

function withUnit(value, units) {
  const [name, scale] = unitFor(value, units);
  const scaled = value / scale;
  const digits = scale === 1 ? 0 : Math.abs(scaled) < 10 ? 3 : Math.abs(scaled) < 100 ? 2 : 1;
  return name ? `${formatNumber(scaled, digits)} ${name}` : formatNumber(scaled, digits);
}

function formatTime(ns) {
  return ns ? withUnit(ns, TIME_UNITS) : '0';
}

function formatBytes(bytes) {
  return bytes ? withUnit(bytes, BYTE_UNITS) : '0';
}

function formatPercent(value, digits = 1) {
  return value === null || value === undefined ? '–' : `${formatNumber(value, digits)} %`;
}

/* The type of a column by its name. Moments are shown relative to the start of the trace. */
function columnType(name) {
  if (/^(start|ts|peak_at|first|last|end)_us$/.test(name)) return 'moment';
  if (/_us$|^us$/.test(name)) return 'time';
  if (/_ms$/.test(name)) return 'ms';
  if (/(_bytes|^bytes)$/.test(name)) return 'bytes';
  if (/_pct$|^percentage$|^pct$/.test(name)) return 'percent';
  if (/^flops$/.test(name)) return 'count';
  return '';
}

/* One unit for all values of a column, so that they can be compared at a glance. */
function columnUnit(type, most) {
  if (type === 'time') return unitFor(most * 1e3, TIME_UNITS);
  if (type === 'bytes') return unitFor(most, BYTE_UNITS);
  if (type === 'count') return unitFor(most, COUNT_UNITS);
  if (type === 'percent') return ['%', 1];
  return ['', 1];
}

function formatCell(value, column) {
  if (value === null || value === undefined) return '–';
  if (typeof value === 'string') return oneLine(value);
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  if (typeof value === 'object') return oneLine(JSON.stringify(value));
  const scale = column.unit[1];
  switch (column.type) {
    case 'moment': {
      const ns = report.fromStart(value);
      return ns < 0 ? '−' + formatTime(-ns) : '+' + formatTime(ns);
    }
    case 'time':
      return formatNumber((value * 1e3) / scale, scale === 1 ? 0 : 3);
    case 'bytes':
    case 'count':
      return formatNumber(value / scale, scale === 1 ? 0 : 3);
    case 'percent':
      return formatNumber(value, 2);
    default:
      return formatShort(value);
  }
}

/* Columns whose names say too little. */
const TITLES = { us: 'time', pct: 'share', worth_pct: 'of the step', sure: 'significant' };

/* "host_self_us" as "host self", with the unit. */
function columnTitle(column) {
  const title = TITLES[column.name] || column.name.replace(/_(us|pct|bytes)$/, '').replace(/_/g, ' ');
  return column.unit[0] ? `${title} (${column.unit[0]})` : title;
}
