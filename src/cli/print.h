/* Printing for people: numbers, names from traces, paths, JSON on the standard output, and the
 * exit status of a verb. Names in traces come from strangers: nothing here lets a control
 * character reach a terminal. */
#ifndef KC_PRINT_H
#define KC_PRINT_H

#include "base/base.h"

#include <stdio.h>

/* ---- numbers and times ----------------------------------------------------------------------- */
kb_text kc_count(uint64_t n); /* "20,222" */
/** "none", "5", or "an unknown number" if the end of the file is missing. */
kb_text kc_lost_text(uint64_t lost, bool is_cut);
/** "2026-05-04 13:02:01 UTC"; empty beyond the range of the calendar. */
kb_text kc_format_utc(int64_t ns);
/** `one` if count is 1, else `many`. */
const char *kc_noun(uint64_t count, const char *one, const char *many);
/** Rows to show of a list before a line "… and N more": at most `limit`, but one more where that line would stand in
 *  for a single row. */
static inline uint64_t kc_count_shown(uint64_t count, uint64_t limit)
{
    return count == limit + 1 ? count : KB_MIN(count, limit);
}

/* ---- names and texts ------------------------------------------------------------------------- */
/** A name from a trace, without control bytes, cut or padded to `columns` (0: as it is). */
void kc_put_name(FILE *out, kineto_string name, size_t columns);
/** A text that contains names of files: lines and tabs stay; bytes that would drive the terminal or
 *  change how a line reads are written as \xNN. */
void kc_put_text(FILE *out, const char *text);
void kc_print(FILE *out, const char *fmt, ...) KINETO_PRINTF(2, 3);
/** A path as a word of a command to type; "TRACE" for one that a shell would split, or longer than `most` bytes. */
const char *kc_command_word(const char *path, size_t most);
/** The path as it is named from the working directory, if it is below it; else the path itself. */
const char *kc_relative_path(const char *path);
/** A path after `used` columns of one terminal line; of a long one only its end. */
void kc_put_path(FILE *out, const char *path, size_t used);
/** The stream where people see the text of `out`: for a stream in memory kc_memory_stream, else `out` itself. */
FILE *kc_shown_on(FILE *out);
/** Where texts that are put together in memory appear; NULL: the standard output. */
extern FILE *kc_memory_stream;
/** Columns to write in: those of the terminal where `out` appears, else $COLUMNS, else 100. */
size_t kc_page_width(FILE *out);
/** Columns of a name as kc_put_name writes it. */
size_t kc_name_columns(kineto_string name);
/** Words of a text, wrapped at `width` columns. `first` begins the first line, `indent` the others, which leave equal
 *  room; either may be on the line already (""). A word
 *  that is wider than a line is cut. @param most_lines  a longer text is cut after a phrase and ends in "…"; 0: all. */
void kc_put_wrapped(FILE *out, size_t width, const char *first, const char *indent, uint32_t most_lines,
                    kineto_string text);
/** The same of a text with sequences of kc_paint, which occupy no columns. All else in it must be printable. */
void kc_put_wrapped_styled(FILE *out, size_t width, const char *first, const char *indent, kineto_string text);
/** Columns of such a text. */
size_t kc_styled_columns(kineto_string text);
/** A message: one line for grep, but on a terminal, or where COLUMNS is set, wrapped at its width, with lines after the
 *  first indented. Nothing is cut: paths stay whole. @param first  what it begins with ("ckineto: "). */
void kc_put_message(FILE *out, const char *first, const char *text);
/** Columns of the terminal; 0: `out` is not a terminal, or its width is unknown. */
size_t kc_terminal_columns(FILE *out);
/** Bytes of the character at `at`; 0 if it must not reach a terminal as it is. */
size_t kc_printable_bytes(kineto_string s, size_t at);
/** Columns that such a character occupies, approximately. */
size_t kc_character_columns(const char *character, size_t size);
/** Edits between two short words, to recognise typing mistakes. */
size_t kc_edit_distance(const char *a, const char *b);

/* ---- JSON, exit statuses --------------------------------------------------------------------- */
/** Writes one JSON value. */
typedef void kc_json_writer(kb_json *j, const void *what);
/** A JSON value and a line break to a file ("-": stdout), which appears complete or not at all. */
kineto_status kc_save_json(const char *path, kc_json_writer *put, const void *what,
                           kineto_error *err);
/** The same to the file of --json, by default the standard output. */
kineto_status kc_put_json(kc_json_writer *put, const void *what, kineto_error *err);
/** Exit status of a verb that reads traces. @param is_read  the traces were read, so that a failure
 *  came later. */
int kc_exit_of(kineto_status status, bool is_read);
/** Flush stdout. A full disk is reported, a closed pipe is not.
 *  @return `status`, or KC_EXIT_FAILURE if the output is not complete. */
int kc_finish_stdout(const char *verb, int status);
#endif
