/* The source "energy": a thread of the recorder reads the counters, and writes a record for each reading. A counter has
 * no records until it has counted something: some of virtual machines stay 0. */
#include "cpu/energy.h"
#include "cpu/writer.h"

#include <ckineto/plugin.h>
#include <ckineto/record.h>

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define INTERVAL_MS  50
#define PATIENCE_NS  ((uint64_t)KB_SECOND_NS) /* what has counted nothing by then is not read any more */
#define SAMPLE_WORDS 7u

typedef struct energy_row {
    uint32_t site; /* 0: not written yet */
    bool is_growing, is_given_up;
} energy_row;

struct ku_energy {
    ku_energy_counters counters;
    energy_row rows[KU_MAX_ENERGY_COUNTERS];
    ku_writer writer;
    const kf_pool *pool;
    uint64_t start_ticks, start_ns;
    pthread_t thread;
    int wake; /* an eventfd */
    bool is_running;
};

/* ---- records --------------------------------------------------------------------------------- */

static uint32_t add_named_entry(const kf_pool *pool, kf_entry_type type, const void *head, size_t bytes,
                                const char *first, const char *second)
{
    uint32_t sizes[] = {(uint32_t)strlen(first), (uint32_t)strlen(second)};
    kf_part parts[] = {{head, bytes},
                       {&sizes[0], sizeof sizes[0]},
                       {first, sizes[0]},
                       {&sizes[1], sizeof sizes[1]},
                       {second, sizes[1]}};
    return kf_dictionary_add(pool, type, parts, KB_COUNT(parts));
}

/* The device, which several counters may share, and the counter. @return its site; 0: the dictionary is full. */
static uint32_t announce_energy_counter(const ku_energy *e, const ku_energy_counter *c)
{
    kf_device_entry device = {.source = e->writer.source, .device = c->number, .sort_index = c->number};
    struct {
        kf_site_entry entry;
        uint8_t type;
    } site = {{.kind = KINETO_KIND_COUNTER, .arg_count = 1}, KINETO_ARG_DOUBLE};
    _Static_assert(sizeof site == sizeof(kf_site_entry) + 1, "no padding");
    return add_named_entry(e->pool, KF_ENTRY_DEVICE, &device, sizeof device, c->device, "CPU")
               ? add_named_entry(e->pool, KF_ENTRY_SITE, &site, sizeof site, ku_energy_name(c), ku_energy_series(c))
               : 0;
}

static void write_energy_sample(ku_energy *e, uint32_t i, uint64_t ticks, uint64_t units)
{
    const ku_energy_counter *c = &e->counters.list[i];
    uint32_t *site = &e->rows[i].site;
    double joules = (double)units * c->joules;
    if (!(kb_load_relaxed(&e->pool->control->gate) & KINETO_KIND_BIT(KINETO_KIND_COUNTER)))
        return;
    ku_writer_count(&e->writer, KF_REASON_REQUESTED, 1);
    if (!*site && !(*site = announce_energy_counter(e, c))) {
        ku_writer_count(&e->writer, KF_REASON_DICTIONARY_FULL, 1);
        return;
    }
    uint64_t *at = ku_writer_begin(&e->writer, SAMPLE_WORDS);
    if (!at)
        return;
    at[1] = at[2] = ticks;
    at[3] = 0;
    at[4] = kf_pair((uint32_t)c->number, 0);
    at[5] = kf_device_word(0, 0, false, e->writer.source, 0);
    memcpy(at + 6, &joules, sizeof joules);
    uint32_t aux = kf_device_aux(KINETO_KIND_COUNTER, KINETO_PLUGIN_CLOCK_TICKS, KF_DEVICE_SITE);
    ku_writer_commit(&e->writer, at, kf_header(KF_DEVICE, SAMPLE_WORDS, aux, *site));
    ku_writer_count(&e->writer, KF_REASON_DELIVERED, 1);
}

/* ---- the thread ------------------------------------------------------------------------------ */

static void sample_energy_counter(ku_energy *e, uint32_t i)
{
    energy_row *row = &e->rows[i];
    uint64_t before = kb_ticks(e->writer.ticks_clock);
    if (row->is_given_up || !ku_energy_read(&e->counters, i))
        return;
    uint64_t after = kb_ticks(e->writer.ticks_clock), units = e->counters.list[i].units;
    if (!units) {
        row->is_given_up = kb_monotonic_ns() - e->start_ns >= PATIENCE_NS;
        return;
    }
    if (!row->is_growing)
        write_energy_sample(e, i, e->start_ticks, 0);
    row->is_growing = true;
    write_energy_sample(e, i, before + (after - before) / 2, units);
}

static void *run_energy_thread(void *context)
{
    ku_energy *e = context;
    struct pollfd wake = {.fd = e->wake, .events = POLLIN};
    (void)pthread_setname_np(pthread_self(), "ckineto energy");
    ku_writer_init(&e->writer, e->pool, "energy");
    for (bool is_over = false; !is_over;) {
        is_over = poll(&wake, 1, INTERVAL_MS) > 0;
        for (uint32_t i = 0; i < e->counters.count; i++)
            sample_energy_counter(e, i);
    }
    ku_writer_finish(&e->writer);
    return NULL;
}

kineto_status ku_energy_create(const char *sysfs, const kf_pool *pool, ku_energy **out, kineto_error *err)
{
    ku_energy *e = calloc(1, sizeof *e);
    *out = NULL;
    if (!e)
        return kb_fail_memory(err, "source 'energy'");
    e->pool = pool;
    e->wake = eventfd(0, EFD_CLOEXEC);
    int failed = e->wake < 0 ? errno : 0;
    kineto_status status = failed ? KINETO_OK : ku_energy_open(sysfs, &e->counters, err);
    e->start_ticks = kb_ticks(pool->control->ticks_clock);
    e->start_ns = kb_monotonic_ns();
    if (!failed && !status)
        failed = kb_thread_start(&e->thread, run_energy_thread, e);
    if (failed)
        status = kb_fail_os(err, failed, "cannot start a thread that reads the counters of energy");
    e->is_running = status == KINETO_OK;
    if (status)
        ku_energy_destroy(e);
    else
        *out = e;
    return status;
}

const ku_energy_counters *ku_energy_finish(ku_energy *e)
{
    if (e->is_running) {
        (void)eventfd_write(e->wake, 1);
        pthread_join(e->thread, NULL);
        e->is_running = false;
    }
    return &e->counters;
}

void ku_energy_destroy(ku_energy *e)
{
    if (!e)
        return;
    (void)ku_energy_finish(e);
    ku_energy_close(&e->counters);
    if (e->wake >= 0)
        close(e->wake);
    free(e);
}
