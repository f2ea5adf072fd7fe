/* Traces that were cut off or in which a byte was changed: they are opened with what is whole, or
 * refused with a word; never a crash, never without an end.
 *
 * test_damage [--small N] [--large N] [--border BYTES] [--seed N] [--form NAME] PATH…
 * Of every file that is named, or lies below a folder that is named, the text is cut off at N
 * places by chance; a tenth as often (25 at least) a byte of it is changed, and both is done to the
 * text compressed with gzip and with zstd. What a cut text keeps is compared with an outline of the
 * text. The places are the same in every run with the same seed. */
#include "damage.h"

#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { LIMIT_SECONDS = 120 /* for one opening; machines are slow and sanitizers slower */ };

static struct {
    unsigned small, large;
    size_t border;
    uint64_t seed;
    const char *form;
} settings = {1000, 25, 16384, 1, NULL};

/* The case that is being tried, for those who have to tell. */
static struct {
    const char *path, *form, *damage;
    size_t offset;
    unsigned change;
} now;
static unsigned long opened, refused, failures, files;
static int descriptor;
static char descriptor_path[64];

/* ---- telling --------------------------------------------------------------------------------- */

static void say_case(const char *problem)
{
    char line[1024];
    int size = snprintf(line, sizeof line, "%s as %s, %s at byte %zu (with %u): %s\n", now.path,
                        now.form, now.damage, now.offset, now.change, problem);
    if (size > 0 && write(STDERR_FILENO, line, (size_t)size) < 0)
        _exit(3);
}

static void fail(const char *problem)
{
    if (failures++ < 20)
        say_case(problem);
}

static void on_signal(int number)
{
    say_case(number == SIGALRM ? "it does not end" : "a crash");
    signal(number, SIG_DFL);
    raise(number);
}

/* Called by the address sanitizer before it dies. */
void __asan_on_error(void);
void __asan_on_error(void) { say_case("a fault"); }

/* ---- one opening ----------------------------------------------------------------------------- */

static uint64_t chance_state;

static uint64_t chance(uint64_t below)
{
    uint64_t z = (chance_state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (z ^ (z >> 31)) % below;
}

/* Look at everything that a row has. */
static size_t visit(const kineto_trace *t)
{
    size_t seen = 0;
    kineto_activity a;
    kineto_arg arg;
    for (kineto_row row = 0; row < kineto_trace_count(t); row++) {
        kineto_args_iterator args;
        kineto_trace_get(t, row, &a);
        seen += a.name.size + (size_t)kineto_trace_lane(t, row) +
                (kineto_trace_parent(t, row) != KINETO_NO_ROW);
        if (a.end_ns < a.start_ns)
            fail("an activity ends before it starts");
        for (kineto_args_begin(t, row, &args); kineto_args_next(&args, &arg);)
            seen += arg.key.size + arg.text.size;
    }
    return seen;
}

static void check_refusal(kineto_status status, const kineto_error *err)
{
    refused++;
    if (!strstr(err->message, descriptor_path))
        fail("refused without the name of the file");
    if (status == KINETO_E_FORMAT && !strstr(err->message, "byte") &&
        !strstr(err->message, "it holds no event"))
        fail("refused without a place");
    if (status != KINETO_E_FORMAT && status != KINETO_E_UNSUPPORTED)
        fail(err->message);
}

/* What lies in the descriptor; NULL: refused. */
static kineto_trace *open_now(void)
{
    kineto_error err = {.message = ""};
    kineto_open_options options = {.size = sizeof options, .threads = 1};
    kineto_trace *trace = NULL;
    alarm(LIMIT_SECONDS);
    kineto_status status = kineto_trace_open_with(descriptor_path, &options, &trace, &err);
    if ((status == KINETO_OK) != (trace != NULL))
        fail("status and trace do not agree");
    if (trace)
        opened++;
    else
        check_refusal(status, &err);
    return trace;
}

static bool put(bytes b)
{
    size_t done = 0;
    if (ftruncate(descriptor, 0) != 0)
        return false;
    while (done < b.size) {
        ssize_t wrote = pwrite(descriptor, b.data + done, b.size - done, (off_t)done);
        if (wrote <= 0)
            return false;
        done += (size_t)wrote;
    }
    return true;
}

/* ---- cuts ------------------------------------------------------------------------------------ */

/* What a text that was cut has to have. */
typedef struct wanted {
    const outline *outline; /* NULL: unknown */
    kineto_trace *whole;
} wanted;

static bool same_row(const kineto_trace *a, const kineto_trace *b, kineto_row row)
{
    kineto_activity one, other;
    kineto_trace_get(a, row, &one);
    kineto_trace_get(b, row, &other);
    return one.name.size == other.name.size &&
           memcmp(one.name.data, other.name.data, one.name.size) == 0 && one.form == other.form &&
           one.external_id == other.external_id && one.correlation_id == other.correlation_id;
}

static void check_prefix(const wanted *w, const kineto_trace *cut, size_t rows)
{
    for (int i = 0; i < 3 && rows; i++) {
        kineto_row row = (kineto_row)(i ? chance(rows) : rows - 1);
        if (!same_row(w->whole, cut, row))
            fail("a row is not what it is in the whole file");
    }
    (void)cut;
}

static void check_cut_text(const wanted *w, const kineto_trace *cut, size_t offset)
{
    bool inside;
    size_t rows = rows_before(w->outline, offset, &inside);
    size_t count = cut ? (size_t)kineto_trace_count(cut) : 0;
    if (count < rows)
        fail("an event is missing that was complete");
    else if (count > rows + inside)
        fail("there are more events than before the cut");
    if (cut && offset && count == rows)
        check_prefix(w, cut, rows);
}

static void check_cut_compressed(const wanted *w, const kineto_trace *cut)
{
    if (!cut)
        return;
    size_t whole = (size_t)kineto_trace_count(w->whole), count = (size_t)kineto_trace_count(cut);
    if (count > whole)
        fail("there are more events than in the whole file");
    else if (count) /* the last one may have lost its rest */
        check_prefix(w, cut, count - 1);
}

static int downwards(const void *a, const void *b)
{
    size_t x = *(const size_t *)a, y = *(const size_t *)b;
    return (x < y) - (x > y);
}

/* From the longest to the shortest, so that the file has to be written once only. */
static void cut(bytes b, unsigned count, const wanted *w)
{
    size_t *offsets = malloc(count * sizeof *offsets);
    bool text = strcmp(now.form, "text") == 0;
    now.damage = "cut";
    if (!offsets || !put(b)) {
        fail("no memory");
        free(offsets);
        return;
    }
    for (unsigned i = 0; i < count; i++)
        offsets[i] = (size_t)chance(b.size);
    qsort(offsets, count, sizeof *offsets, downwards);
    for (unsigned i = 0; i < count && failures < 20; i++) {
        now.offset = offsets[i];
        if (ftruncate(descriptor, (off_t)offsets[i]) != 0)
            fail("it cannot be cut");
        kineto_trace *trace = open_now();
        if (trace && i % 16 == 0)
            visit(trace);
        if (text && w->outline)
            check_cut_text(w, trace, offsets[i]);
        else if (w->outline)
            check_cut_compressed(w, trace);
        kineto_trace_release(trace);
    }
    free(offsets);
}

/* ---- changed bytes --------------------------------------------------------------------------- */

/* Any byte, or one that means something. */
static char other_byte(char before)
{
    static const char words[] = "\"\\{}[],:0-.eE\n\t \x80\xff\0";
    char c = chance(2) ? (char)chance(256) : words[chance(sizeof words)];
    return c == before ? (char)(c ^ 1) : c;
}

static void change(bytes b, unsigned count)
{
    now.damage = "a byte changed";
    if (!put(b)) {
        fail("no memory");
        return;
    }
    for (unsigned i = 0; i < count && failures < 20; i++) {
        size_t offset = (size_t)chance(b.size);
        char c = other_byte(b.data[offset]);
        now.offset = offset;
        now.change = (unsigned char)c;
        if (pwrite(descriptor, &c, 1, (off_t)offset) != 1)
            fail("it cannot be changed");
        kineto_trace *trace = open_now();
        if (trace && i % 16 == 0)
            visit(trace);
        kineto_trace_release(trace);
        if (pwrite(descriptor, b.data + offset, 1, (off_t)offset) != 1)
            fail("it cannot be changed back");
    }
    now.change = 0;
}

/* ---- files ----------------------------------------------------------------------------------- */

static void damage(const char *form, bytes b, const wanted *w, size_t text_bytes)
{
    if (!b.size || (settings.form && strcmp(settings.form, form) != 0))
        return;
    unsigned count = text_bytes <= settings.border ? settings.small : settings.large;
    unsigned others = count / 10 > 25 ? count / 10 : (count < 25 ? count : 25);
    now.form = form;
    cut(b, strcmp(form, "text") == 0 ? count : others, w);
    change(b, others);
}

/* What sound files have; of broken ones it is not known what is right. */
static wanted wanted_of(bytes text, outline *o)
{
    wanted w = {NULL, NULL};
    kineto_open_options options = {.size = sizeof options, .threads = 1, .strict = true};
    if (!put(text) ||
        kineto_trace_open_with(descriptor_path, &options, &w.whole, NULL) != KINETO_OK ||
        !outline_of(text, o))
        return w;
    bool inside;
    w.outline = o;
    if (rows_before(o, text.size, &inside) != kineto_trace_count(w.whole))
        fail("the outline has other events than the trace");
    return w;
}

static void run_file(const char *path)
{
    bytes file = load_file(path), text = inflate_all(file);
    outline o = {NULL, 0};
    now.path = path;
    now.form = "text";
    now.damage = "nothing";
    chance_state = settings.seed;
    if (!file.data || !text.data) {
        fail("it cannot be read");
    } else {
        bytes gzip = deflate_all(text), zstd = zstd_all(text);
        wanted w = wanted_of(text, &o);
        damage("text", text, &w, text.size);
        damage("gzip", gzip, &w, text.size);
        damage("zstd", zstd, &w, text.size);
        kineto_trace_release(w.whole);
        free(gzip.data);
        free(zstd.data);
        files++;
    }
    free(o.elements);
    free(text.data);
    free(file.data);
}

static int visit_path(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    size_t size = strlen(path);
    (void)st;
    (void)ftw;
    if (type == FTW_F && size > 3 && strcmp(path + size - 3, ".gz") == 0)
        run_file(path);
    return failures >= 20;
}

static int take_options(int argc, char **argv)
{
    int i = 1;
    for (; i + 1 < argc && argv[i][0] == '-'; i += 2) {
        unsigned long number = strtoul(argv[i + 1], NULL, 10);
        if (strcmp(argv[i], "--small") == 0)
            settings.small = (unsigned)number;
        else if (strcmp(argv[i], "--large") == 0)
            settings.large = (unsigned)number;
        else if (strcmp(argv[i], "--border") == 0)
            settings.border = number;
        else if (strcmp(argv[i], "--seed") == 0)
            settings.seed = number;
        else if (strcmp(argv[i], "--form") == 0)
            settings.form = argv[i + 1];
        else
            return argc;
    }
    return i;
}

int main(int argc, char **argv)
{
    int first = take_options(argc, argv);
    descriptor = memfd_create("damaged", MFD_CLOEXEC);
    if (first >= argc || descriptor < 0)
        return 2;
    snprintf(descriptor_path, sizeof descriptor_path, "/proc/self/fd/%d", descriptor);
    signal(SIGALRM, on_signal);
    signal(SIGSEGV, on_signal);
    signal(SIGBUS, on_signal);
    signal(SIGABRT, on_signal);
    for (int i = first; i < argc; i++)
        nftw(argv[i], visit_path, 16, FTW_PHYS);
    if (!files) {
        printf("skipped: no traces here\n");
        return 77;
    }
    printf("%lu files: %lu damaged ones opened, %lu refused, %lu failures\n", files, opened,
           refused, failures);
    return failures != 0;
}
