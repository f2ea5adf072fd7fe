/* Printing for people: numbers, names without control characters, JSON on stdout. Names come from
 * traces of strangers: everything that could drive a terminal, or make one name look like another,
 * is escaped here and nowhere else. */
#include "cli/print.h"

#include "cli/options.h"
#include "cli/style.h"

#include <errno.h>
#include <limits.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

/* Without the end of the file the number is unknown. */
kb_text kc_lost_text(uint64_t lost, bool is_cut)
{
    if (lost && !is_cut)
        return kc_count(lost);
    kb_text text;
    (void)snprintf(text.s, sizeof text.s, "%s", is_cut ? "an unknown number" : "none");
    return text;
}

/* With commas between groups of three digits. */
kb_text kc_count(uint64_t n)
{
    kb_text t;
    char digits[24];
    int size = snprintf(digits, sizeof digits, "%llu", (unsigned long long)n);
    size_t used = 0;
    for (int i = 0; i < size; i++) {
        if (i && (size - i) % 3 == 0)
            t.s[used++] = ',';
        t.s[used++] = digits[i];
    }
    t.s[used] = 0;
    return t;
}

/* Without fractions of a second. */
kb_text kc_format_utc(int64_t ns)
{
    kb_text t = {""};
    struct tm parts;
    time_t seconds = (time_t)(ns / 1000000000);
    if (gmtime_r(&seconds, &parts))
        strftime(t.s, sizeof t.s, "%Y-%m-%d %H:%M:%S UTC", &parts);
    return t;
}

/* English plurals only: both forms are given. */
const char *kc_noun(uint64_t count, const char *one, const char *many)
{
    return count == 1 ? one : many;
}

/* The code point of a valid UTF-8 sequence. */
static uint32_t decode_character(const char *text, size_t size)
{
    const unsigned char *c = (const unsigned char *)text;
    uint32_t code = size == 1 ? c[0] : c[0] & (0x7fu >> size);
    for (size_t i = 1; i < size; i++)
        code = code << 6 | (c[i] & 0x3f);
    return code;
}

/* C1 controls and format characters: they break a line, change its direction or are invisible, so
 * that a name could look like another one. */
static bool is_format_character(uint32_t code)
{
    static const uint32_t ranges[][2] = {
        {0x80, 0x9f},     {0xad, 0xad},     {0x61c, 0x61c},   {0x180e, 0x180e}, {0x200b, 0x200f},
        {0x2028, 0x202e}, {0x2060, 0x206f}, {0xfeff, 0xfeff}, {0xfff9, 0xfffb}, {0xe0000, 0xe007f}};
    for (size_t i = 0; i < KB_COUNT(ranges); i++)
        if (code >= ranges[i][0] && code <= ranges[i][1])
            return true;
    return false;
}

/* Control and format characters are not printable, nor is malformed UTF-8. */
size_t kc_printable_bytes(kineto_string s, size_t at)
{
    KB_ASSERT(at < s.size);
    unsigned char c = (unsigned char)s.data[at];
    if (c < 0x80)
        return c >= 0x20 && c != 0x7f;
    size_t size = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;
    if (size > s.size - at || kb_utf8_valid_prefix(s.data + at, size) != size)
        return 0;
    return is_format_character(decode_character(s.data + at, size)) ? 0 : size;
}

/* Zero for ranges that terminals draw over the previous character, 2 for wide ones. */
size_t kc_character_columns(const char *character, size_t size)
{
    static const struct {
        uint32_t first, last, columns;
    } ranges[] = {{0x300, 0x36f, 0},     {0x1100, 0x115f, 2},  {0x200b, 0x200f, 0},
                  {0x20d0, 0x20ff, 0},   {0x2e80, 0xa4cf, 2},  {0xac00, 0xd7a3, 2},
                  {0xf900, 0xfaff, 2},   {0xfe00, 0xfe0f, 0},  {0xfe30, 0xfe6f, 2},
                  {0xff00, 0xff60, 2},   {0xffe0, 0xffe6, 2},  {0x1f300, 0x1f64f, 2},
                  {0x1f900, 0x1f9ff, 2}, {0x20000, 0x3fffd, 2}};
    uint32_t code = decode_character(character, size);
    for (size_t i = 0; i < KB_COUNT(ranges); i++)
        if (code >= ranges[i].first && code <= ranges[i].last)
            return ranges[i].columns;
    return 1;
}

/* A cut name ends in "…". Bytes that are not printable take four columns. */
void kc_put_name(FILE *out, kineto_string name, size_t columns)
{
    size_t used = 0;
    for (size_t at = 0; at < name.size;) {
        size_t size = kc_printable_bytes(name, at);
        size_t width = size ? kc_character_columns(name.data + at, size) : 4;
        if (columns && used + width > columns - (name.size - at > 1)) {
            used++;
            fputs("…", out);
            break;
        }
        if (size)
            fwrite(name.data + at, 1, size, out);
        else
            fprintf(out, "\\x%02x", (unsigned char)name.data[at]);
        used += width;
        at += size ? size : 1;
    }
    for (; used < columns; used++)
        fputc(' ', out);
}

#define PAGE_COLUMNS 100u
#define MAX_COLUMNS    10000u

FILE *kc_memory_stream;

/* A stream in memory has no file descriptor. */
FILE *kc_shown_on(FILE *out)
{
    return fileno(out) >= 0 ? out : kc_memory_stream ? kc_memory_stream : stdout;
}

size_t kc_page_width(FILE *out)
{
    size_t columns = kc_terminal_columns(kc_shown_on(out));
    const char *asked = kb_setting("COLUMNS");
    if (!columns && asked)
        columns = (size_t)strtoull(asked, NULL, 10);
    return columns && columns <= MAX_COLUMNS ? columns : PAGE_COLUMNS;
}

size_t kc_name_columns(kineto_string name)
{
    size_t columns = 0;
    for (size_t at = 0; at < name.size;) {
        size_t size = kc_printable_bytes(name, at);
        columns += size ? kc_character_columns(name.data + at, size) : 4;
        at += size ? size : 1;
    }
    return columns;
}

/* The word at `at`: up to the next space. */
static kineto_string read_word(kineto_string text, size_t at)
{
    size_t end = at;
    while (end < text.size && text.data[end] != ' ')
        end++;
    return (kineto_string){text.data + at, end - at};
}

/* The text at `at` up to the next sequence of kc_paint; or that sequence, then *is_sequence. */
static kineto_string read_styled_part(kineto_string text, size_t at, bool *is_sequence)
{
    size_t end = at, bytes = kc_style_bytes(text.data + at, text.size - at);
    *is_sequence = bytes > 0;
    while (!bytes && end < text.size && !kc_style_bytes(text.data + end, text.size - end))
        end++;
    return (kineto_string){text.data + at, bytes ? bytes : end - at};
}

size_t kc_styled_columns(kineto_string text)
{
    size_t columns = 0;
    bool is_sequence;
    for (size_t at = 0; at < text.size;) {
        kineto_string part = read_styled_part(text, at, &is_sequence);
        columns += is_sequence ? 0 : kc_name_columns(part);
        at += part.size;
    }
    return columns;
}

/* kc_put_name of a word with sequences. @param columns  where it is cut; 0: nowhere. */
static void put_styled_word(FILE *out, kineto_string word, size_t columns)
{
    size_t left = columns;
    bool is_sequence;
    for (size_t at = 0; at < word.size;) {
        kineto_string part = read_styled_part(word, at, &is_sequence);
        size_t wide = is_sequence ? 0 : kc_name_columns(part);
        at += part.size;
        if (is_sequence)
            fwrite(part.data, 1, part.size, out);
        else if (!columns || left)
            kc_put_name(out, part, columns && wide > left ? left : 0);
        left -= KB_MIN(left, wide);
    }
}

/* Columns without sequences for colours, which occupy none. */
static size_t count_prefix_columns(const char *prefix)
{
    size_t columns = 0;
    for (; *prefix; prefix++)
        if (*prefix == '\033')
            prefix += strcspn(prefix, "m");
        else
            columns++;
    return columns;
}

/* Wraps a text of words. */
enum {
    WORDS_CUT = 1,    /* words that are wider than a line */
    WORDS_STYLED = 2, /* sequences of kc_paint are in it */
    WORDS_DOTS = 4    /* " …" follows */
};
static void put_words(FILE *out, size_t width, const char *first, const char *indent, uint32_t how, kineto_string text)
{
    size_t wide = count_prefix_columns(first), indented = count_prefix_columns(indent);
    size_t column = 0, used = KB_MAX(wide, indented), room = width - KB_MIN(width - 1, used);
    fputs(first, out);
    for (size_t at = 0; at < text.size;) {
        kineto_string word = read_word(text, at);
        size_t columns = how & WORDS_STYLED ? kc_styled_columns(word) : kc_name_columns(word);
        at += word.size + (at + word.size < text.size);
        size_t dots = how & WORDS_DOTS && at == text.size ? 2 : 0;
        if (column && column + 1 + columns + dots > room) {
            fprintf(out, "\n%s", indent);
            column = 0;
            room = width - KB_MIN(width - 1, indented);
        }
        if (column)
            fputc(' ', out);
        size_t most = room - KB_MIN(room - 1, dots);
        if (how & WORDS_STYLED)
            put_styled_word(out, word, how & WORDS_CUT && columns > most ? most : 0);
        else
            kc_put_name(out, word, how & WORDS_CUT && columns > most ? most : 0);
        column += (column > 0) + KB_MIN(columns, most);
    }
    fputs(how & WORDS_DOTS ? " …\n" : "\n", out);
}

/* How many bytes of whole words fit into some lines, the last of which has room for " …" if that is not all. */
static size_t measure_lines(size_t width, size_t indented, uint32_t lines, kineto_string text)
{
    size_t column = 0, room = width - KB_MIN(width - 1, indented), fitting = 0;
    for (size_t at = 0; at < text.size;) {
        kineto_string word = read_word(text, at);
        size_t columns = kc_name_columns(word), end = at + word.size;
        at = end + (end < text.size);
        if (column && column + 1 + columns > room) {
            if (!--lines)
                return fitting;
            column = 0;
        }
        column += (column > 0) + KB_MIN(columns, room);
        if (lines > 1 || column + 2 <= room || !fitting)
            fitting = end;
    }
    return text.size;
}

/* The end of the last phrase that ends in a prefix, outside of parentheses, without the comma, colon or semicolon after it; the
 * prefix itself if phrases would be less than half of it. */
static size_t find_phrase_end(kineto_string text, size_t prefix)
{
    size_t end = prefix, open = 0, found = 0;
    for (size_t i = 0; i + 1 < text.size && i <= prefix; i++) {
        open += text.data[i] == '(';
        open -= open && text.data[i] == ')';
        bool ends = strchr(",;:", text.data[i]) && text.data[i + 1] == ' ';
        found = ends && !open ? i : found;
    }
    return found >= end / 2 && found ? found : end;
}

void kc_put_wrapped(FILE *out, size_t width, const char *first, const char *indent, uint32_t most_lines,
                    kineto_string text)
{
    size_t indented = KB_MAX(count_prefix_columns(first), count_prefix_columns(indent));
    size_t fitting = most_lines ? measure_lines(width, indented, most_lines, text) : text.size;
    bool is_cut = fitting < text.size;
    kineto_string shown = {text.data, is_cut ? find_phrase_end(text, fitting) : text.size};
    put_words(out, width, first, indent, is_cut ? WORDS_CUT | WORDS_DOTS : WORDS_CUT, shown);
}

void kc_put_wrapped_styled(FILE *out, size_t width, const char *first, const char *indent, kineto_string text)
{
    put_words(out, width, first, indent, WORDS_CUT | WORDS_STYLED, text);
}

/* Tabs are structure; everything between them is a name. */
static void put_line(FILE *out, kineto_string line)
{
    for (size_t at = 0; at < line.size; at++) {
        const char *tab = memchr(line.data + at, '\t', line.size - at);
        size_t size = tab ? (size_t)(tab - line.data) - at : line.size - at;
        kc_put_name(out, (kineto_string){line.data + at, size}, 0);
        if (tab)
            fputc('\t', out);
        at += size;
    }
}

/* Each line of the text is a paragraph. */
void kc_put_message(FILE *out, const char *first, const char *text)
{
    bool wraps = kc_terminal_columns(out) || kb_setting("COLUMNS");
    for (const char *line = text, *before = first;; before = "  ") {
        size_t size = strcspn(line, "\n");
        if (wraps) {
            put_words(out, kc_page_width(out), before, "  ", 0, (kineto_string){line, size});
        } else {
            fputs(line == text ? first : "", out);
            put_line(out, (kineto_string){line, size});
            fputc('\n', out);
        }
        line += size;
        if (!*line++)
            return;
    }
}

const char *kc_relative_path(const char *path)
{
    char here[PATH_MAX];
    size_t size = getcwd(here, sizeof here) ? strlen(here) : 0;
    bool is_below = size > 1 && strncmp(path, here, size) == 0 && path[size] == '/';
    return is_below ? path + size + 1 : path;
}

const char *kc_command_word(const char *path, size_t most)
{
    bool is_plain = path && *path && strlen(path) <= most && !strpbrk(path, " '\"$`\\*?;&|<>()\n\t");
    return is_plain ? path : "TRACE";
}

/* Lines and tabs are structure; everything between them is a name. */
void kc_put_text(FILE *out, const char *text)
{
    for (const char *end; *text; text = end) {
        size_t size = strcspn(text, "\n\t");
        kc_put_name(out, (kineto_string){text, size}, 0);
        end = text + size;
        if (*end)
            fputc(*end++, out);
    }
}

void kc_print(FILE *out, const char *fmt, ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, fmt);
    kc_put_text(out, vasprintf(&text, fmt, args) < 0 ? fmt : text);
    va_end(args);
    free(text);
}

size_t kc_terminal_columns(FILE *out)
{
    struct winsize terminal;
    return ioctl(fileno(out), TIOCGWINSZ, &terminal) == 0 ? terminal.ws_col : 0;
}

/* Cut at the left, at the beginning of a character. */
void kc_put_path(FILE *out, const char *path, size_t used)
{
    enum { DEFAULT_COLUMNS = 80, MIN_ROOM = 8 };
    size_t reported = kc_terminal_columns(out), size = strlen(path);
    size_t columns = reported ? reported : DEFAULT_COLUMNS;
    /* A character in the last column would wrap. */
    size_t room = columns > used + MIN_ROOM ? columns - used - 1 : MIN_ROOM;
    size_t from = size > room ? size - (room - 1) : 0;
    while (from < size && ((unsigned char)path[from] & 0xc0) == 0x80)
        from++;
    fputs(from ? "…" : "", out);
    kc_put_name(out, (kineto_string){path + from, size - from}, 0);
}

/* Levenshtein distance with one row; long words are never similar. */
size_t kc_edit_distance(const char *a, const char *b)
{
    enum { MAX_LENGTH = 32 };
    size_t n = strlen(a), m = strlen(b), row[MAX_LENGTH + 1];
    if (n > MAX_LENGTH || m > MAX_LENGTH)
        return MAX_LENGTH;
    for (size_t j = 0; j <= m; j++)
        row[j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t change = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            row[j] = KB_MIN(change, KB_MIN(row[j], row[j - 1]) + 1);
        }
    }
    return row[m];
}

/* Compressed if the ending of the path says so. */
kineto_status kc_save_json(const char *path, kc_json_writer *put, const void *what,
                           kineto_error *err)
{
    kb_sink *sink;
    kb_json j;
    kineto_status status = kb_sink_open_file(path, kb_compression_of(path), &sink, err);
    if (status != KINETO_OK)
        return status;
    kb_json_init(&j, sink);
    put(&j, what);
    kb_sink_write(sink, "\n", 1);
    return kb_sink_close(sink, err);
}

/* To the file of --json, with a line break after the object. */
kineto_status kc_put_json(kc_json_writer *put, const void *what, kineto_error *err)
{
    return kc_save_json(kc_json_path ? kc_json_path : "-", put, what, err);
}

int kc_exit_of(kineto_status status, bool is_read)
{
    return !status ? 0 : is_read ? KC_EXIT_FAILURE : KC_EXIT_USAGE;
}

/* ferror covers earlier failed writes, fflush the last one. */
int kc_finish_stdout(const char *verb, int status)
{
    errno = 0;
    bool failed = ferror(stdout) != 0;
    failed |= fflush(stdout) != 0;
    if (!failed)
        return status;
    if (errno != EPIPE)
        kc_complain("%s: cannot write to the standard output: %s", verb,
                    errno ? strerror(errno) : "write error");
    return KC_EXIT_FAILURE;
}
