/* Numbers and names for human eyes. */
#include "cli/cli.h"

#include <errno.h>

kc_text kc_duration(int64_t ns)
{
    static const struct {
        double ns;
        const char *unit;
    } units[] = {{1e9, "s"}, {1e6, "ms"}, {1e3, "us"}};
    kc_text t;
    double value = (double)ns;
    for (size_t i = 0; i < KB_COUNT(units); i++) {
        if (value >= units[i].ns || value <= -units[i].ns) {
            snprintf(t.s, sizeof t.s, "%.3f %s", value / units[i].ns, units[i].unit);
            return t;
        }
    }
    snprintf(t.s, sizeof t.s, "%lld ns", (long long)ns);
    return t;
}

kc_text kc_bytes(uint64_t bytes)
{
    kc_text t;
    if (bytes < 1000)
        snprintf(t.s, sizeof t.s, "%llu bytes", (unsigned long long)bytes);
    else if (bytes < 1000000)
        snprintf(t.s, sizeof t.s, "%.1f kB", (double)bytes / 1e3);
    else
        snprintf(t.s, sizeof t.s, "%.1f MB", (double)bytes / 1e6);
    return t;
}

kc_text kc_count(uint64_t n)
{
    kc_text t;
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

const char *kc_noun(uint64_t count, const char *one, const char *many)
{
    return count == 1 ? one : many;
}

/* Bytes of the character at `at`; 0 where it must not reach a terminal as it is. */
static size_t printable(kineto_string s, size_t at)
{
    unsigned char c = (unsigned char)s.data[at];
    if (c < 0x80)
        return c >= 0x20 && c != 0x7f;
    size_t size = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;
    if (size > s.size - at || kb_utf8_valid_prefix(s.data + at, size) != size)
        return 0;
    return c == 0xc2 && (unsigned char)s.data[at + 1] < 0xa0 ? 0 : size; /* C1 controls */
}

void kc_put_name(FILE *out, kineto_string name, size_t columns)
{
    size_t used = 0;
    for (size_t at = 0; at < name.size;) {
        size_t size = printable(name, at);
        size_t width = size ? 1 : 4;
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

/* Edits between two short words; long ones are never close. */
size_t kc_distance(const char *a, const char *b)
{
    enum { MOST = 32 };
    size_t n = strlen(a), m = strlen(b), row[MOST + 1];
    if (n > MOST || m > MOST)
        return MOST;
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
