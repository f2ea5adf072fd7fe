/* The public functions of <ckineto/control.h>. */
#include "ondemand/capture/ring.h"
#include "ondemand/process/process.h"

#include <time.h>

/* ---- starting -------------------------------------------------------------------------------- */

static bool path_fits(const char *text, size_t bytes) { return !text || strlen(text) < bytes; }

/* Before anything is started. */
static kineto_status check_settings(const ko_settings *s, kineto_error *err)
{
    const kineto_control_options *o = &s->options;
    if (!path_fits(o->trigger_file, sizeof s->file) ||
        !path_fits(o->dump_path, sizeof s->dump_path))
        return kb_fail(err, KINETO_E_ARGUMENT, "control options: a path is longer than %zu bytes",
                       sizeof s->file - 1);
    return ko_ring_check(o, err);
}

/* Options of any version: members that an older one lacks are zero, those that a newer one adds
 * must be. */
static kineto_status read_control_options(const kineto_control_options *in, ko_settings *s,
                                          kineto_error *err)
{
    if (!in)
        return KINETO_OK;
    kineto_status status = kb_options_read(&s->options, sizeof s->options, in,
                                           "control options, see kineto_control_options_init", err);
    if (!status)
        status = check_settings(s, err);
    if (!status)
        ko_settings_own(s);
    return status;
}

kineto_status kineto_control_start(const kineto_control_options *options, kineto_error *err)
{
    ko_settings *s = calloc(1, sizeof *s);
    if (!s)
        return kb_fail_memory(err, NULL);
    kineto_status status = read_control_options(options, s, err);
    if (!status) {
        ko_environment_add(s);
        status = ko_life_start(s, false, err);
    }
    free(s);
    return status;
}

void kineto_control_stop(void) { ko_life_stop(); }

bool kineto_control_running(void) { return ko_life_listens(); }

/* ---- requests -------------------------------------------------------------------------------- */

kineto_status kineto_control_request(const char *config, uint64_t *ticket, kineto_error *err)
{
    if (!config)
        return kb_fail_null(err, __func__, "config", config);
    kineto_status status = ko_life_ensure(err);
    if (status)
        return status;
    ko_controller *c = ko_control_get();
    if (!c)
        return kb_fail(err, KINETO_E_BUSY, "busy: shutting down");
    status = ko_controller_request(c, kb_string(config), KO_FROM_ARGUMENT, ticket, err);
    ko_control_put();
    return status;
}

void kineto_control_cancel(void)
{
    ko_controller *c = ko_control_get();
    if (!c)
        return;
    ko_controller_cancel(c, "the program");
    ko_control_put();
}

/* ---- the ring -------------------------------------------------------------------------------- */

/* Waits for the end of a dump. Notes may arrive before its ticket is known, so the last ends are
 * kept. */
typedef struct waiting {
    pthread_mutex_t lock;
    pthread_cond_t came;
    struct {
        uint64_t ticket;
        bool written;
    } ends[8]; /* the last final stages, of any ticket */
    uint32_t count;
    char why[256];
} waiting;

/* ko_watch: records final stages of all tickets. */
static void note_dump_stage(void *context, const ko_stage_note *note)
{
    waiting *w = context;
    if (note->stage != KO_STAGE_WRITTEN && note->stage != KO_STAGE_FAILED)
        return;
    pthread_mutex_lock(&w->lock);
    uint32_t at = w->count++ % KB_COUNT(w->ends);
    KB_ASSERT(note->ticket);
    w->ends[at].ticket = note->ticket;
    w->ends[at].written = note->stage == KO_STAGE_WRITTEN;
    if (!w->ends[at].written)
        snprintf(w->why, sizeof w->why, "%s", note->text);
    pthread_cond_signal(&w->came);
    pthread_mutex_unlock(&w->lock);
}

/* Whether the dump was written; NULL: it has not ended. */
static const bool *find_dump_end(const waiting *w, uint64_t ticket)
{
    for (uint32_t i = 0; i < KB_MIN(w->count, KB_COUNT(w->ends)); i++)
        if (w->ends[i].ticket == ticket)
            return &w->ends[i].written;
    return NULL;
}

/* Every accepted dump has a final stage, so this ends. */
static kineto_status wait_for_dump(waiting *w, uint64_t ticket, kineto_error *err)
{
    const bool *written;
    pthread_mutex_lock(&w->lock);
    while (!(written = find_dump_end(w, ticket)))
        pthread_cond_wait(&w->came, &w->lock);
    kineto_status status =
        *written ? KINETO_OK : kb_fail(err, KINETO_E_IO, "the ring was not written: %s", w->why);
    pthread_mutex_unlock(&w->lock);
    return status;
}

/* Formats ACTIVITIES_LOG_FILE with a quoted value. False: it does not fit, or contains a newline.
 */
static bool format_path_request(const char *path, char *out, size_t bytes)
{
    size_t n = (size_t)snprintf(out, bytes, "ACTIVITIES_LOG_FILE=\"");
    for (const char *c = path; *c && n + 4 < bytes; c++) {
        if (*c == '"' || *c == '\\')
            out[n++] = '\\';
        out[n++] = *c;
    }
    if (n + 4 >= bytes || strchr(path, '\n'))
        return false;
    memcpy(out + n, "\"\n", 3);
    return true;
}

/* Watches before it requests the dump, so that no note is missed. */
static kineto_status dump_and_wait(ko_controller *c, const char *text, kineto_error *err)
{
    waiting w = {.lock = PTHREAD_MUTEX_INITIALIZER, .came = PTHREAD_COND_INITIALIZER};
    uint64_t ticket = 0;
    if (!ko_controller_watch(c, note_dump_stage, &w))
        return kb_fail(err, KINETO_E_LIMIT, "too many threads are waiting for dumps");
    kineto_status status = ko_controller_dump(c, kb_string(text), KO_FROM_ARGUMENT, &ticket, err);
    if (!status)
        status = wait_for_dump(&w, ticket, err);
    ko_controller_unwatch(c, note_dump_stage, &w);
    return status;
}

kineto_status kineto_control_dump(const char *path, kineto_error *err)
{
    char text[2 * KO_REQUEST_PATH_BYTES + 64] = "";
    if (path && !format_path_request(path, text, sizeof text))
        return kb_fail(err, KINETO_E_ARGUMENT, "kineto_control_dump: '%s' is not a valid path",
                       path);
    ko_controller *c = ko_control_get();
    if (!c)
        return kb_fail(err, KINETO_E_STATE,
                       "no ring records in this process; switch it on with CKINETO_RING");
    kineto_status status = dump_and_wait(c, text, err);
    ko_control_put();
    return status;
}
