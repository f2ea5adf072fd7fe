/* The ring: a session with retention NEWEST that always records, and dumps of its contents. Also
 * parses and checks its options. */
#include "ondemand/capture/ring.h"
#include "ondemand/output/output.h"
#include "record/record.h"
#include "session/session.h"

#include <math.h>
#include <time.h>

#define MIB          ((size_t)1 << 20)
#define REASON_BYTES 256
#define MAX_MIB      65536.0

/* Guarded by the lock, which a fork's child may break. */
static struct {
    kb_lock lock;
    kineto_session *session;
    uint32_t pid;
    int64_t length_ns;
    size_t bytes;
} ring;

/* A fork's child may break a lock that a thread of its parent held. */
static void lock_ring(kb_lock *lock) { (void)kb_lock_take(lock, kb_os_self()); }

/* ---- options --------------------------------------------------------------------------------- */

/* Parses a whole text as a number within [least, most]. */
static bool parse_ring_number(const char *text, double least, double most, double *out)
{
    char *end;
    double v = kb_strtod(text, &end);
    if (end == text || *end || !(v >= least && v <= most))
        return false;
    *out = v;
    return true;
}

static bool read_ring_seconds(const char *value, kineto_control_options *o)
{
    return parse_ring_number(value, 1e-3, KO_RING_MAX_SECONDS, &o->ring_seconds);
}

static bool read_ring_mib(const char *value, kineto_control_options *o)
{
    double mib;
    if (!parse_ring_number(value, 1, MAX_MIB, &mib))
        return false;
    o->ring_bytes = (size_t)(mib * (double)MIB);
    return true;
}

/* Kinds are separated by "+", because commas separate the settings. */
static bool read_ring_kinds(const char *value, kineto_control_options *o)
{
    char list[512];
    size_t size = strlen(value);
    if (size >= sizeof list)
        return false;
    for (size_t i = 0; i <= size; i++)
        list[i] = value[i] == '+' ? ',' : value[i];
    return kineto_kinds_parse(list, &o->ring_kinds, NULL) == KINETO_OK;
}

/* A factor, optionally followed by "x". */
static bool read_slow_step(const char *value, kineto_control_options *o)
{
    char text[32];
    size_t size = strlen(value);
    if (size == 0 || size >= sizeof text)
        return false;
    memcpy(text, value, size + 1);
    if (text[size - 1] == 'x') /* "1.5x" */
        text[size - 1] = '\0';
    return parse_ring_number(text, 1.0, 1e6, &o->dump_on_slow_step);
}

static bool read_hang_seconds(const char *value, kineto_control_options *o)
{
    return parse_ring_number(value, 1e-3, KO_RING_MAX_SECONDS, &o->dump_on_hang_seconds);
}

static bool read_dump_limit(const char *value, kineto_control_options *o)
{
    double count;
    if (!parse_ring_number(value, 1, 1e6, &count) || count != floor(count))
        return false;
    o->dump_limit = (uint32_t)count;
    return true;
}

static const struct {
    const char *name;
    bool (*read)(const char *value, kineto_control_options *options);
    const char *wants;
} words[] = {{"seconds", read_ring_seconds, "a number of seconds, at most a day"},
             {"mb", read_ring_mib, "a number of MiB, 1 to 65536"},
             {"kinds", read_ring_kinds, "names of kinds with '+' between them"},
             {"slow-step", read_slow_step, "how many times the usual, 1 or more"},
             {"hang", read_hang_seconds, "a number of seconds, at most a day"},
             {"dumps", read_dump_limit, "how many dumps at most, a whole number"}};

/* One setting of CKINETO_RING: "crash", or NAME=VALUE with a row in `words`. */
static kineto_status read_ring_word(const char *word, kineto_control_options *o, kineto_error *err)
{
    if (strcmp(word, "crash") == 0) {
        o->dump_on_crash = true;
        return KINETO_OK;
    }
    for (size_t i = 0; i < KB_COUNT(words); i++) {
        size_t n = strlen(words[i].name);
        if (strncmp(word, words[i].name, n) != 0 || word[n] != '=')
            continue;
        return words[i].read(word + n + 1, o)
                   ? KINETO_OK
                   : kb_fail(err, KINETO_E_ARGUMENT, "ring: '%s': must be %s", word,
                             words[i].wants);
    }
    return kb_fail(
        err, KINETO_E_ARGUMENT,
        "ring: unknown setting '%s'; use seconds=, mb=, kinds=, crash, slow-step=, hang=, "
        "dumps=, path=",
        word);
}

kineto_status ko_ring_parse(const char *text, kineto_control_options *options, kineto_error *err)
{
    kineto_control_options o = *options;
    kineto_status status = KINETO_OK;
    char word[600];
    if (!text || !*text || strcmp(text, "0") == 0)
        return KINETO_OK;
    bool plain = strcmp(text, "1") == 0;
    while (!plain && *text && !status) {
        if (strncmp(text, "path=", 5) == 0) { /* extends to the end, also over commas */
            o.dump_path = text + 5;
            if (!*o.dump_path)
                status =
                    kb_fail(err, KINETO_E_ARGUMENT, "ring: 'path=': must be followed by a path");
            break;
        }
        size_t n = strcspn(text, ",");
        if (n >= sizeof word)
            return kb_fail(err, KINETO_E_ARGUMENT, "ring: '%.40s…' is too long", text);
        memcpy(word, text, n);
        word[n] = '\0';
        status = read_ring_word(word, &o, err);
        text += n + (text[n] == ',');
    }
    if (o.ring_seconds <= 0)
        o.ring_seconds = KO_RING_SECONDS;
    if (status == KINETO_OK)
        *options = o;
    return status;
}

kineto_status ko_ring_check(const kineto_control_options *o, kineto_error *err)
{
    bool wants_dumps = o->dump_on_crash || o->dump_on_slow_step > 0 || o->dump_on_hang_seconds > 0;
    if (!(o->ring_seconds >= 0 && o->ring_seconds <= KO_RING_MAX_SECONDS))
        return kb_fail(err, KINETO_E_ARGUMENT, "ring: %g seconds: at most a day", o->ring_seconds);
    if (o->ring_seconds == 0 && wants_dumps)
        return kb_fail(err, KINETO_E_ARGUMENT,
                       "ring: dumps on a crash, a slow step or a hang need ring_seconds");
    if (o->dump_on_slow_step != 0 && !(o->dump_on_slow_step >= 1))
        return kb_fail(err, KINETO_E_ARGUMENT,
                       "ring: dump_on_slow_step is %g: how many times the usual, 1 or more",
                       o->dump_on_slow_step);
    if (!(o->dump_on_hang_seconds >= 0 && o->dump_on_hang_seconds <= KO_RING_MAX_SECONDS))
        return kb_fail(err, KINETO_E_ARGUMENT, "ring: dump_on_hang_seconds is %g: at most a day",
                       o->dump_on_hang_seconds);
    return KINETO_OK;
}

/* ---- recording ------------------------------------------------------------------------------- */

/* Measures the tick rate over 1 ms, exact to about a hundredth: it only scales the statistics of
 * evictions. */
static void prepare_eviction_counting(int64_t length_ns)
{
    const struct timespec wait = {0, 1000000};
    kf_control *control = kineto_rt_pool()->control;
    kb_clock_snapshot a, b;
    kb_clock_snapshot_take(control->ticks_clock, &a);
    nanosleep(&wait, NULL);
    kb_clock_snapshot_take(control->ticks_clock, &b);
    int64_t ns = KB_MAX(b.monotonic_raw_ns - a.monotonic_raw_ns, INT64_C(1));
    kf_evicted_prepare(control,
                       (uint64_t)((double)length_ns * (double)(b.ticks - a.ticks) / (double)ns));
}

/* With the lock. */
static kineto_status start_ring_session(const kineto_control_options *o, kineto_error *err)
{
    kineto_session_options options;
    kineto_session_options_init(&options);
    options.kinds = o->ring_kinds;
    options.buffer_bytes = o->ring_bytes ? o->ring_bytes : KO_RING_BYTES;
    options.retention = KINETO_RETAIN_NEWEST;
    if (ring.session && ring.pid == kb_os_pid())
        return kb_fail(err, KINETO_E_STATE, "the ring is recording already; stop it first");
    ring.session = NULL; /* in a fork's child it is the parent's */
    kineto_status status = ks_session_record(&options, &ring.session, err);
    if (status)
        return status;
    KB_ASSERT(ring.session && o->ring_seconds > 0);
    prepare_eviction_counting((int64_t)(o->ring_seconds * (double)KB_SECOND_NS));
    ring.pid = kb_os_pid();
    ring.length_ns = (int64_t)(o->ring_seconds * (double)KB_SECOND_NS);
    ring.bytes = options.buffer_bytes;
    return KINETO_OK;
}

kineto_status ko_ring_start(const kineto_control_options *options, kineto_error *err)
{
    kineto_status status = ko_ring_check(options, err);
    if (status == KINETO_OK && options->ring_seconds == 0)
        status =
            kb_fail(err, KINETO_E_ARGUMENT, "ring: ring_seconds is 0; set the length of the ring");
    lock_ring(&ring.lock);
    if (status == KINETO_OK)
        status = start_ring_session(options, err);
    kb_lock_drop(&ring.lock);
    return status;
}

void ko_ring_stop(void)
{
    lock_ring(&ring.lock);
    if (ring.pid == kb_os_pid())
        kineto_session_destroy(ring.session);
    ring.session = NULL;
    kb_lock_drop(&ring.lock);
}

/* ---- dumps ----------------------------------------------------------------------------------- */

/* From when on the ring is complete; 0: from the beginning. */
static int64_t complete_from_ns(const kf_control *control)
{
    uint64_t forgotten = kb_load_relaxed(&control->forgotten_ticks);
    kb_clock_snapshot ends[2];
    kb_clock_fit fit;
    memcpy(&ends[0], control->snapshots, sizeof ends[0]);
    kb_clock_snapshot_take(control->ticks_clock, &ends[1]);
    if (!forgotten || kb_clock_fit_make(ends, KB_COUNT(ends), &fit, NULL) != KINETO_OK)
        return 0;
    return kb_clock_fit_ns(&fit, forgotten);
}

/* Header and notes of one dump; referenced until its trace is built. */
typedef struct dump_texts {
    char reason[6 * REASON_BYTES + 2], ring[96], short_by[256];
    kt_build_header header[2];
    kt_build_note note;
} dump_texts;

/* Fills the session's extras with header, note and start of a dump. The note says so if the ring
 * is shorter than its length. */
static void describe_dump(dump_texts *t, const char *reason, ks_extras *extras, int64_t now_ns)
{
    char cut[REASON_BYTES];
    snprintf(cut, sizeof cut, "%s", reason[0] ? reason : "asked for");
    *kb_json_escape(t->reason, kb_string(cut), NULL) = '\0';
    kb_snprintf(t->ring, sizeof t->ring, "{\"seconds\": %g, \"bytes\": %zu}",
                (double)ring.length_ns / (double)KB_SECOND_NS, ring.bytes);
    t->header[0] = (kt_build_header){"ckineto_dump_reason", t->reason};
    t->header[1] = (kt_build_header){"ckineto_ring", t->ring};
    extras->header = t->header;
    extras->header_count = KB_COUNT(t->header);
    extras->from_ns = now_ns - ring.length_ns;
    int64_t whole = complete_from_ns(kineto_rt_pool()->control);
    if (whole <= extras->from_ns || kineto_rt_pool()->control->external)
        return;
    snprintf(t->short_by, sizeof t->short_by,
             "only the last %s of %s are complete: older records were overwritten in %zu MiB",
             kb_duration(now_ns - whole).s, kb_duration(ring.length_ns).s, ring.bytes / MIB);
    t->note = (kt_build_note){"ring", "shorter than asked for", t->short_by, 1, false};
    extras->notes = &t->note;
    extras->note_count = 1;
}

/* Removes references to the texts before they are freed. */
static void clear_dump_texts(ks_extras *extras)
{
    extras->header = NULL;
    extras->notes = NULL;
    extras->header_count = extras->note_count = 0;
    extras->from_ns = 0;
}

/* With the lock. After a fork, or if the environment starts it, the ring begins after requests do. */
static kineto_status check_ring_records(kineto_error *err)
{
    if (ring.session && ring.pid == kb_os_pid())
        return KINETO_OK;
    return kb_fail(err, KINETO_E_STATE,
                   "no ring records in this process now; switch it on with CKINETO_RING, or "
                   "ring_seconds of kineto_control_options; if it is on, try again");
}

kineto_status ko_ring_can_dump(void *context, kineto_error *err)
{
    (void)context;
    lock_ring(&ring.lock);
    kineto_status status = check_ring_records(err);
    kb_lock_drop(&ring.lock);
    return status;
}

/* Builds the trace with the lock held: starting and stopping the ring wait for it. */
static kineto_status snapshot_ring(const char *reason, kineto_trace **out, kineto_error *err)
{
    dump_texts *texts = malloc(sizeof *texts);
    if (!texts)
        return kb_fail_memory(err, "dump of the ring");
    lock_ring(&ring.lock);
    kineto_status status = check_ring_records(err);
    if (status == KINETO_OK) {
        ks_extras *extras = ks_session_extras(ring.session);
        KB_ASSERT(ring.length_ns > 0 && !extras->header && !extras->notes);
        describe_dump(texts, reason, extras, (int64_t)kb_clock_ns(CLOCK_REALTIME));
        status = kineto_session_snapshot(ring.session, out, err);
        clear_dump_texts(extras);
    }
    kb_lock_drop(&ring.lock);
    free(texts);
    return status;
}

kineto_status ko_ring_dump(void *context, ko_request_source source, const char *path,
                           const char *reason, uint64_t *bytes, kineto_error *err)
{
    kineto_trace *trace = NULL;
    (void)context;
    kineto_status status = snapshot_ring(reason, &trace, err);
    if (status == KINETO_OK)
        status = ko_output_write(trace, source, path, bytes, err);
    kineto_trace_release(trace);
    return status;
}
