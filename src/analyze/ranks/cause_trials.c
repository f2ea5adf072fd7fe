/* Compares the parts of a window with their like, and replays it without what is beyond.
 *
 * A trial changes the lengths of one rank, or the transfers of one place, replays all ranks, and changes them back: trials
 * do not see one another.
 *
 * The excess of a row is by how many ns its part of the device, or of the host, is longer than what is
 * usual at its place (rank_usual.h). What a trial saves is the replayed length of the window as recorded,
 * minus its length after the change. */
#include "analyze/ranks/cause_trials.h"
#include "analyze/ranks/rank_host_excess.h"

#include <math.h>

/* ---- what is beyond -------------------------------------------------------------------------- */

/* A length minus what is usual, ns: negative if it is shorter. A length that is not known counts as usual. */
static double beyond_usual(double usual, int64_t now) { return now == KA_UNKNOWN_NUMBER ? 0 : (double)now - usual; }

static double device_beyond(const ka_trials *t, uint32_t row)
{
    return beyond_usual(ka_usual_work(&t->usual, row), t->replay.rows[row].work_ns);
}

/* A launch after a wait for the device is measured from the end of what was waited for (sync_ns), any other one from
 * the launch before (host_ns): the time in the wait itself is not the host's. */
static double host_beyond(const ka_trials *t, uint32_t row)
{
    const ka_replay_row *x = &t->replay.rows[row];
    uint32_t place = t->usual.place[row];
    return x->sync_row == KA_NONE ? beyond_usual(t->usual.host[place], x->host_ns)
                                  : beyond_usual(t->usual.sync[place], x->sync_ns);
}

static double beyond_of(const ka_trials *t, uint32_t row, bool of_host)
{
    return of_host ? host_beyond(t, row) : device_beyond(t, row);
}

/* ---- noise ----------------------------------------------------------------------------------- */

/* Of two ranks each part is compared with the shorter one, so that by noise each is beyond the other in some parts. As much as
 * the other one is beyond is noise, then; the smallest parts are taken for it. */

static double sum_of_rank(const ka_trials *t, uint32_t rank, bool of_host)
{
    double sum = 0;
    for (uint32_t row = t->m->base[rank]; row < t->m->base[rank + 1]; row++)
        if (t->usual.place[row] != KA_NONE)
            sum += fmax(beyond_of(t, row, of_host), 0);
    return sum;
}

/* Takes the smallest parts in which the rank is beyond for noise, until their sum is `noise_sum`, which is what the
 * other rank of the role is beyond. @return the largest part taken, ns: ka_row_excess counts only parts above it.
 * @param room for the rows of the rank. */
static double find_noise_of(const ka_trials *t, uint32_t rank, bool of_host, double noise_sum, double *room)
{
    size_t count = 0, i = 0;
    for (uint32_t row = t->m->base[rank]; row < t->m->base[rank + 1]; row++)
        if (t->usual.place[row] != KA_NONE && beyond_of(t, row, of_host) > 0)
            room[count++] = beyond_of(t, row, of_host);
    if (count)
        qsort(room, count, sizeof *room, kb_compare_doubles);
    for (double sum = 0; i < count && sum < noise_sum; i++)
        sum += room[i];
    return i ? room[i - 1] : 0;
}

/* Ranks of a role, and the last two of them. */
typedef struct role_ranks {
    uint32_t count, last[2];
} role_ranks;

static void list_roles(const ka_rank_model *m, role_ranks *roles)
{
    for (uint32_t r = 0; r < m->rank_count; r++)
        if (m->domain[r] != KA_NONE)
            roles[m->role[r]].last[roles[m->role[r]].count++ % 2] = r;
}

/* Thresholds of the device and the host, by rank. Only the two ranks of a role of two that have a device get one
 * ("Roles" in ranks.md); -INFINITY for all others lets every part count. False: out of memory. */
static bool find_noise(ka_trials *t)
{
    const ka_rank_model *m = t->m;
    role_ranks *roles = calloc((size_t)m->rank_count + 1, sizeof *roles);
    double *room = malloc(((size_t)m->row_count + 1) * sizeof *room);
    bool ok = roles && room;
    if (ok)
        list_roles(m, roles);
    for (uint32_t r = 0; ok && r < m->rank_count; r++)
        for (int of_host = 0; of_host < 2; of_host++) {
            const role_ranks *role = &roles[m->role[r]];
            bool is_pair = role->count == 2 && m->domain[r] != KA_NONE && !m->facts[r]->on_host;
            double sum = is_pair ? sum_of_rank(t, role->last[role->last[0] == r], of_host) : 0;
            t->noise[of_host][r] = is_pair ? find_noise_of(t, r, of_host, sum, room) : -INFINITY;
        }
    free(roles);
    free(room);
    return ok;
}

/* ---- a window -------------------------------------------------------------------------------- */

/* A ka_side_work. Savings are against the end of this run. */
static void replay_recorded(void *trials)
{
    ka_trials *t = trials;
    t->replayed_ns = ka_replay_run(&t->replay);
}

/* A ka_side_work: reads lengths, which a run does not change. The excess of hosts, and noise, are found by what is
 * usual, so that this comes first. */
static void find_what_is_beyond(void *trials)
{
    ka_trials *t = trials;
    t->has_usual = ka_find_usual(&t->replay, &t->usual) && ka_find_host_excess(&t->replay, &t->usual) &&
                   find_noise(t) && ka_find_slow_transfers(&t->replay, t->places, t->slow, t->use);
}

bool ka_open_trials(const ka_rank_model *m, const ka_link_places *places, ka_trials *t)
{
    *t = (ka_trials){.m = m, .places = places, .replay = t->replay};
    t->slow = calloc(m->instances.count + 1, sizeof *t->slow);
    t->use = calloc(m->groups.count + 1, sizeof *t->use);
    t->noise[0] = malloc(((size_t)m->rank_count + 1) * sizeof *t->noise[0]);
    t->noise[1] = malloc(((size_t)m->rank_count + 1) * sizeof *t->noise[1]);
    if (!t->slow || !t->use || !t->noise[0] || !t->noise[1] || !ka_replay_create(&t->replay, m))
        return false;
    ka_run_both(find_what_is_beyond, replay_recorded, t, m->row_count); /* what allocates memory is on this thread */
    return t->has_usual;
}

void ka_close_trials(ka_trials *t)
{
    ka_replay_free(&t->replay);
    ka_usual_free(&t->usual);
    free(t->slow);
    free(t->part[0]);
    free(t->part[1]);
    free(t->noise[0]);
    free(t->noise[1]);
    free(t->use);
}

/* Of the excess of a row, what is of its step only. */
static double step_part(const ka_trials *t, uint32_t row, bool of_host) { return t->part[of_host] ? t->part[of_host][row] : 0; }

/* Of the device it may be negative, so that shorter rows balance longer ones in the sum of a rank. Of the host only
 * what is longer counts. The part of a step that is set apart is tried by itself, and not counted again here. */
double ka_row_excess(const ka_trials *t, uint32_t row, bool of_host)
{
    if (t->usual.place[row] == KA_NONE)
        return 0;
    double beyond = of_host ? fmax(host_beyond(t, row), 0) : device_beyond(t, row);
    return (beyond > t->noise[of_host][t->m->rank_of[row]] ? beyond : 0) - step_part(t, row, of_host);
}

/* Excess is measured before any part is set: parts of the rank are zeros until then. */
bool ka_set_steps_apart(ka_trials *t, uint32_t rank, bool of_host, double least_ns, ka_step_list *steps)
{
    const ka_rank_model *m = t->m;
    uint32_t first = m->base[rank], count = m->base[rank + 1] - first;
    double *excess = malloc(((size_t)count + 1) * sizeof *excess);
    for (uint32_t i = 0; excess && i < count; i++)
        excess[i] = ka_row_excess(t, first + i, of_host);
    if (!t->part[of_host])
        t->part[of_host] = calloc((size_t)m->row_count + 1, sizeof *t->part[of_host]);
    bool ok = excess && t->part[of_host] && ka_find_step_parts(m, rank, excess, least_ns, t->part[of_host] + first, steps);
    free(excess);
    return ok;
}

double ka_step_excess_of(const ka_trials *t, const ka_trial_of *of)
{
    double sum = 0;
    for (uint32_t row = t->m->base[of->index]; row < t->m->base[of->index + 1]; row++)
        sum += ka_model_row(t->m, row)->step == of->step ? step_part(t, row, of->of_host) : 0;
    return sum;
}

/* ---- without it ------------------------------------------------------------------------------ */

/* By how much the part of a row gets shorter, ns. */
static double amount_of(const ka_trials *t, const ka_trial_of *of, uint32_t row, bool of_host)
{
    if (of->kind != KA_CAUSE_STEP)
        return fmax(ka_row_excess(t, row, of_host), 0);
    return ka_model_row(t->m, row)->step == of->step ? step_part(t, row, of_host) : 0;
}

/* Computation that a launch or a collective held up gets shorter by the same share as all of its row: late_rest_ns of
 * the row itself, then wait_ns of the collectives whose results it needed. */
static void shorten_device(ka_trials *t, const ka_trial_of *of)
{
    ka_replay_row *rows = t->replay.rows;
    uint32_t first = t->m->base[of->index], end = t->m->base[of->index + 1];
    for (uint32_t row = first; row < end; row++) {
        double amount = amount_of(t, of, row, false), now = (double)rows[row].work_ns;
        if (!(amount > 0) || !(now > 0))
            continue;
        rows[row].work_ns = (int64_t)fmax(now - amount, 0);
        rows[row].late_rest_ns = (int64_t)((double)rows[row].late_rest_ns * (double)rows[row].work_ns / now);
    }
    for (uint32_t row = first; row < end; row++) {
        if (rows[row].wait_row == KA_NONE)
            continue;
        uint32_t to = rows[row].wait_row;
        double now = (double)ka_model_row(t->m, to)->work_ns, by = now > 0 ? (double)rows[to].work_ns / now : 1;
        rows[row].wait_ns = (int64_t)((double)rows[row].wait_ns * fmin(by, 1));
    }
}

/* Down to what is usual, but by `most` only. */
static int64_t shorten_to(int64_t now, double usual, int64_t most)
{
    return KB_MIN(now, KB_MAX((int64_t)usual, now - most));
}

/* Down to what is usual and `part`, if it is beyond by more than `noise`. */
static int64_t shorten_beyond(int64_t now, double usual, double noise, int64_t part)
{
    return (double)now - usual > noise ? KB_MIN(now, (int64_t)usual + part) : now;
}

/* A pause of the host may lie in both ways to a launch, and make later rows late that wait for it, too. */
static void shorten_host_row(const ka_trials *t, const ka_trial_of *of, uint32_t row, uint32_t place)
{
    const ka_usual *u = &t->usual;
    ka_replay_row *x = &t->replay.rows[row];
    int64_t part = (int64_t)step_part(t, row, true);
    double noise = t->noise[1][of->index];
    bool is_step = of->kind == KA_CAUSE_STEP;
    if (is_step && ka_model_row(t->m, row)->step != of->step)
        return;
    x->host_ns = is_step ? shorten_to(x->host_ns, u->host[place], part) : shorten_beyond(x->host_ns, u->host[place], noise, part);
    x->sync_ns = is_step ? shorten_to(x->sync_ns, u->sync[place], part) : shorten_beyond(x->sync_ns, u->sync[place], noise, part);
    if (x->late_ns != KA_UNKNOWN_NUMBER && (is_step || !part))
        x->late_ns = shorten_beyond(x->late_ns, u->late[place], noise, 0);
}

/* Rows that are not compared keep their lengths. */
static void shorten_host(ka_trials *t, const ka_trial_of *of)
{
    for (uint32_t row = t->m->base[of->index]; row < t->m->base[of->index + 1]; row++)
        if (t->usual.place[row] != KA_NONE)
            shorten_host_row(t, of, row, t->usual.place[row]);
}

/* `sign`: -1 makes the slow transfers of a place shorter, 1 undoes it. */
static void change_link(ka_trials *t, uint32_t place, int64_t sign)
{
    for (size_t i = 0; i < t->m->instances.count; i++) {
        const ka_instance *x = &t->m->instances.data[i];
        bool is_here = t->slow[i] > 0 && ka_place_has_group(t->places, place, x->group);
        for (uint32_t k = 0; is_here && k < x->count; k++)
            t->replay.rows[t->m->members[x->first + k]].transfer_ns += sign * (int64_t)t->slow[i];
    }
}

/* Changes lengths, replays, and restores them, so that each trial begins with the lengths of the trace. The result may
 * be 0 although the excess is large: then the part fills a gap, and no rank waits for it. */
int64_t ka_try_without(ka_trials *t, const ka_trial_of *of, ka_replay_shift *shifts)
{
    bool is_host = of->kind == KA_CAUSE_HOST || (of->kind == KA_CAUSE_STEP && of->of_host);
    t->replay.shift = shifts;
    if (of->kind == KA_CAUSE_LINK)
        change_link(t, of->index, -1);
    else if (is_host)
        shorten_host(t, of);
    else
        shorten_device(t, of);
    int64_t saved = t->replayed_ns - ka_replay_run(&t->replay);
    if (shifts)
        ka_replay_take_shifts(&t->replay, shifts);
    t->replay.shift = NULL;
    if (of->kind == KA_CAUSE_LINK)
        change_link(t, of->index, 1);
    else
        ka_replay_reset_rank(&t->replay, of->index);
    return saved;
}
