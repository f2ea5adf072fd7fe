/* Numbers as text: parsing and printing with a decimal point whatever the program's locale is, and
 * durations for people to read. */
#include "base/base.h"

#include <locale.h>

/* ---- independent of the locale ------------------------------------------------------------------ */

static locale_t c_locale; /* 0: out of memory, the program's locale is used */
static pthread_once_t c_locale_once = PTHREAD_ONCE_INIT;

static void create_c_locale(void) { c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0); }

double kb_strtod(const char *text, char **end)
{
    pthread_once(&c_locale_once, create_c_locale);
    return c_locale ? strtod_l(text, end, c_locale) : strtod(text, end);
}

int kb_vsnprintf(char *text, size_t size, const char *fmt, va_list args)
{
    pthread_once(&c_locale_once, create_c_locale);
    locale_t of_thread = c_locale ? uselocale(c_locale) : (locale_t)0;
    int n = vsnprintf(text, size, fmt, args);
    if (of_thread)
        uselocale(of_thread);
    return n;
}

int kb_snprintf(char *text, size_t size, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int n = kb_vsnprintf(text, size, fmt, args);
    va_end(args);
    return n;
}

/* ---- for people --------------------------------------------------------------------------------- */

/* The unit of a length, and its name; of less than a microsecond none. */
static const struct {
    double ns;
    const char *name;
} units[] = {{86400e9, "days"}, {3600e9, "h"}, {1e9, "s"}, {1e6, "ms"}, {1e3, "us"}};

/* The least length that is shown in a unit: one that the next smaller unit would round up to 1000 of it belongs here. */
static double find_least_ns(size_t unit, int digits)
{
    if (unit + 1 == KB_COUNT(units))
        return units[unit].ns;
    double ratio = units[unit].ns / units[unit + 1].ns;
    return units[unit].ns - units[unit + 1].ns * (digits >= 0 ? 0.0005 : ratio > 1000 ? 0.5 : 0.05);
}

/* `digits` after the decimal point, or as many as make four in all if that is -1. */
static kb_text format_duration(int64_t ns, int digits)
{
    kb_text text;
    double value = (double)ns;
    for (size_t i = 0; i < KB_COUNT(units); i++) {
        double of_unit = value / units[i].ns, size = of_unit < 0 ? -of_unit : of_unit;
        if (size * units[i].ns < find_least_ns(i, digits))
            continue;
        int decimals = digits >= 0 ? digits : size < 9.9995 ? 3 : size < 99.995 ? 2 : size < 999.95 ? 1 : 0;
        kb_snprintf(text.s, sizeof text.s, "%.*f %s", decimals, of_unit, units[i].name);
        return text;
    }
    snprintf(text.s, sizeof text.s, "%lld ns", (long long)ns);
    return text;
}

kb_text kb_duration(int64_t ns) { return format_duration(ns, 3); }

kb_text kb_short_duration(int64_t ns) { return format_duration(ns, -1); }

/* Powers of 1000, as disks and networks are measured. */
kb_text kb_bytes(uint64_t bytes)
{
    kb_text t;
    if (bytes < 1000)
        (void)kb_snprintf(t.s, sizeof t.s, "%llu bytes", (unsigned long long)bytes);
    else if (bytes < 1000000)
        (void)kb_snprintf(t.s, sizeof t.s, "%.1f kB", (double)bytes / 1e3);
    else if (bytes < UINT64_C(1000000000))
        (void)kb_snprintf(t.s, sizeof t.s, "%.1f MB", (double)bytes / 1e6);
    else
        (void)kb_snprintf(t.s, sizeof t.s, "%.2f GB", (double)bytes / 1e9);
    return t;
}
