'use strict';
/* Tables as text: to the clipboard with tabs, and as a file of comma-separated values. */

/* read() gives {name, columns, rows}. */
function tableButtons(label, read) {
  const button = (text, title, action) =>
    make('button', { type: 'button', title, 'aria-label': `${title}: ${label}`, onclick: action }, text);
  return make(
    'span',
    { class: 'buttons' },
    button('Copy', 'Copy the rows, separated by tabs', () => copyText(tabbedText(read()))),
    button('CSV', 'Save the rows as CSV', () => saveCsv(read())),
  );
}

function cellText(value) {
  if (value === null || value === undefined) return '';
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
}

/* A text that a spreadsheet would run as a formula gets a mark, as in `ckineto analyze --csv`. */
function safeText(value) {
  const isFormula =
    typeof value === 'string' &&
    /^'*[=+\-@\t\r]/.test(value) &&
    (value[0] === "'" || Number.isNaN(Number(value)));
  return isFormula ? `'${value}` : cellText(value);
}

/* Spreadsheets take tabs and line ends for borders of cells. */
function tabbedText({ columns, rows }) {
  const clean = (value) => safeText(value).replace(/[\t\r\n]+/g, ' ');
  return [columns, ...rows].map((row) => row.map(clean).join('\t')).join('\n') + '\n';
}

/* RFC 4180, with line ends as `ckineto analyze --csv` has them. */
function commaText({ columns, rows }) {
  const quote = (value) => {
    const text = safeText(value);
    return /[",\r\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
  };
  return [columns, ...rows].map((row) => row.map(quote).join(',')).join('\n') + '\n';
}

/* Browsers may refuse the clipboard to local files; then the old command works. */
async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return announceCopy(true);
  } catch {
    const area = make('textarea', { class: 'unseen', 'aria-hidden': 'true' });
    area.value = text;
    document.body.append(area);
    area.select();
    const isDone = document.execCommand('copy');
    area.remove();
    return announceCopy(isDone);
  }
}

function announceCopy(isDone) {
  const text = isDone ? 'copied' : 'copying failed: the browser does not allow it for local files';
  announce(text);
  report.showTip(text, innerWidth / 2, innerHeight - 80);
  setTimeout(() => report.hideTip(), 1500);
}

/* The data does not leave the page: the link is to memory of the browser. */
function saveCsv(table) {
  const url = URL.createObjectURL(new Blob([commaText(table)], { type: 'text/csv' }));
  make('a', { href: url, download: `${table.name}.csv` }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}
