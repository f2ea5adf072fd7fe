/* From ticks to nanoseconds since the Unix epoch: one straight line for a whole recording.
 *
 * The rate comes from CLOCK_MONOTONIC_RAW, which no time daemon bends, over the longest distance
 * there is; the epoch is CLOCK_REALTIME at the first snapshot. Later steps of the wall clock do not
 * move events, they are reported. All arithmetic that reaches a time stamp is in integers. */
#include "base/base.h"

#include <time.h>

typedef __int128 wide;
typedef unsigned __int128 uwide;

/* Two snapshots closer than this are not enough for a rate. */
#define MIN_BASELINE_NS (2 * KB_MILLISECOND_NS)

static int64_t clamp_ns(wide v)
{
    if (v > INT64_MAX)
        return INT64_MAX;
    return v < INT64_MIN ? INT64_MIN : (int64_t)v;
}

/* ---- rate -------------------------------------------------------------------------------------
 */

static uint64_t ticks_between(const kb_clock_snapshot *a, const kb_clock_snapshot *b)
{
    return b->ticks > a->ticks ? b->ticks - a->ticks : 0;
}
static uint64_t raw_between(const kb_clock_snapshot *a, const kb_clock_snapshot *b)
{
    return b->monotonic_raw_ns > a->monotonic_raw_ns
               ? (uint64_t)b->monotonic_raw_ns - (uint64_t)a->monotonic_raw_ns
               : 0;
}

/* mult / 2^shift = ns / ticks, with mult in [2^61, 2^62): then a product with any distance in ticks
 * fits into 127 bits, and rounding stays below a nanosecond for centuries. */
static bool set_rate(kb_clock_fit *fit, uint64_t ns, uint64_t ticks)
{
    if (ns == 0 || ticks == 0 || ns / 1000000 > ticks || ticks / 1000000 > ns)
        return false; /* no counter is a million times faster or slower than a nanosecond */
    for (uint32_t shift = 40; shift < 84; shift++) {
        /* ns and ticks below 2^63; the whole part first, so that nothing overflows. */
        uwide quotient = (((uwide)ns << 62) / ticks);
        uwide mult = shift >= 62 ? quotient << (shift - 62) : quotient >> (62 - shift);
        if (mult >= (uwide)1 << 62)
            return false;
        if (mult < (uwide)1 << 61)
            continue;
        if (shift > 62) { /* the bits that the first division cut off */
            uwide rest = ((uwide)ns << 62) % ticks;
            mult += (rest << (shift - 62)) / ticks;
        }
        fit->mult = (uint64_t)mult;
        fit->shift = shift;
        fit->ns_per_tick = (double)ns / (double)ticks;
        return true;
    }
    return false;
}

/* Are the ticks themselves CLOCK_MONOTONIC_RAW? */
static bool ticks_are_raw(const kb_clock_snapshot *s)
{
    int64_t distance = (int64_t)(s->ticks - (uint64_t)s->monotonic_raw_ns);
    return distance < 1000 && distance > -1000;
}

/* There is only one snapshot: compare it with now, which is valid if it is of this machine and
 * boot. If it was just taken, wait a few milliseconds. */
static bool rate_from_now(kb_clock_fit *fit, const kb_clock_snapshot *s)
{
    const struct timespec wait = {0, 5 * KB_MILLISECOND_NS};
    kb_clock_snapshot now;
    for (int i = 0; i < 4; i++) {
        kb_clock_snapshot_take(kb_ticks_clock(), &now);
        if (raw_between(s, &now) >= MIN_BASELINE_NS)
            break;
        nanosleep(&wait, NULL);
    }
    return set_rate(fit, raw_between(s, &now), ticks_between(s, &now));
}

/* There is only one snapshot, of another boot: both clocks started with that boot, apart from the
 * time before its kernel started, so their quotient is a rough rate. */
static bool rate_from_boot(kb_clock_fit *fit, const kb_clock_snapshot *s)
{
    fit->rate_is_rough = true;
    return (s->monotonic_raw_ns > 0 && set_rate(fit, (uint64_t)s->monotonic_raw_ns, s->ticks)) ||
           set_rate(fit, 1, 1);
}

/* `here`: the snapshots are of this machine and boot, so that more can be taken now. */
static bool find_rate(kb_clock_fit *fit, const kb_clock_snapshot *snapshots, size_t count,
                      bool here)
{
    const kb_clock_snapshot *first = &snapshots[0], *last = &snapshots[count - 1];
    if (ticks_are_raw(first) && ticks_are_raw(last))
        return set_rate(fit, 1, 1);
    if (raw_between(first, last) >= MIN_BASELINE_NS &&
        set_rate(fit, raw_between(first, last), ticks_between(first, last)))
        return true;
    if (here && rate_from_now(fit, first))
        return true;
    return set_rate(fit, raw_between(first, last), ticks_between(first, last)) ||
           (!here && rate_from_boot(fit, first));
}

/* ---- quality ----------------------------------------------------------------------------------
 */

static double largest_residual(const kb_clock_fit *fit, const kb_clock_snapshot *snapshots,
                               size_t count)
{
    double worst = 0;
    for (size_t i = 0; i < count; i++) {
        wide by_ticks = (wide)kb_clock_fit_ns(fit, snapshots[i].ticks) - fit->ns0;
        wide by_raw = (wide)snapshots[i].monotonic_raw_ns - snapshots[0].monotonic_raw_ns;
        double distance = (double)(by_ticks - by_raw);
        worst = KB_MAX(worst, distance < 0 ? -distance : distance);
    }
    return worst;
}

/* A time daemon may slew CLOCK_REALTIME by 500 ppm; a larger difference, beyond the uncertainty of
 * the two readings, means that the clock was set. @return the whole jump, 0 if there is none. */
static int64_t realtime_step_between(const kb_clock_fit *fit, const kb_clock_snapshot *a,
                                     const kb_clock_snapshot *b)
{
    wide raw = (wide)b->monotonic_raw_ns - a->monotonic_raw_ns;
    wide jump = (wide)b->realtime_ns - a->realtime_ns - raw;
    double doubt = (double)(a->width_ticks + b->width_ticks) * fit->ns_per_tick;
    wide allowed = (raw < 0 ? -raw : raw) / 2000 + (wide)doubt + 1000;
    return jump > allowed || -jump > allowed ? clamp_ns(jump) : 0;
}

static int64_t largest_realtime_step(const kb_clock_fit *fit, const kb_clock_snapshot *snapshots,
                                     size_t count)
{
    int64_t largest = 0;
    for (size_t i = 1; i < count; i++) {
        int64_t step = realtime_step_between(fit, &snapshots[i - 1], &snapshots[i]);
        uint64_t size = step < 0 ? 0 - (uint64_t)step : (uint64_t)step;
        if (size > (largest < 0 ? 0 - (uint64_t)largest : (uint64_t)largest))
            largest = step;
    }
    return largest;
}

/* ---- public -----------------------------------------------------------------------------------
 */

/* CLOCK_MONOTONIC and its relatives are slewed by the time daemon; the line between first and last
 * snapshot reverses that. Implausible readings leave the two clocks parallel. */
static void find_slew(kb_clock_fit *fit, const kb_clock_snapshot *first,
                      const kb_clock_snapshot *last)
{
    uint64_t raw = raw_between(first, last);
    wide slewed = (wide)last->monotonic_ns - first->monotonic_ns;
    wide off = slewed > (wide)raw ? slewed - (wide)raw : (wide)raw - slewed;
    fit->slew_raw_ns = fit->slew_monotonic_ns = 1;
    if (raw < MIN_BASELINE_NS || raw > INT64_MAX || off > (wide)(raw / 500))
        return;
    fit->slew_raw_ns = (int64_t)raw;
    fit->slew_monotonic_ns = (int64_t)slewed;
}

static kineto_status fit_snapshots(const kb_clock_snapshot *snapshots, size_t count, bool here,
                                   kb_clock_fit *fit, kineto_error *err)
{
    if (!snapshots || count == 0)
        return kb_fail(err, KINETO_E_ARGUMENT, "no clock snapshot to fit");
    const kb_clock_snapshot *first = &snapshots[0];
    *fit = (kb_clock_fit){.ticks0 = first->ticks, .ns0 = first->realtime_ns};
    if (!find_rate(fit, snapshots, count, here))
        return kb_fail(
            err, KINETO_E_FORMAT,
            "the clock snapshots of the recording contradict each other: no time stamps");
    fit->realtime_minus_raw_ns = clamp_ns((wide)first->realtime_ns - first->monotonic_raw_ns);
    fit->realtime_minus_monotonic_ns = clamp_ns((wide)first->realtime_ns - first->monotonic_ns);
    fit->realtime_minus_boottime_ns = clamp_ns((wide)first->realtime_ns - first->boottime_ns);
    find_slew(fit, first, &snapshots[count - 1]);
    fit->residual_ns = largest_residual(fit, snapshots, count);
    fit->realtime_step_ns = largest_realtime_step(fit, snapshots, count);
    return KINETO_OK;
}

kineto_status kb_clock_fit_make(const kb_clock_snapshot *snapshots, size_t count, kb_clock_fit *fit,
                                kineto_error *err)
{
    return fit_snapshots(snapshots, count, true, fit, err);
}

kineto_status kb_clock_fit_again(const kb_clock_snapshot *snapshots, size_t count,
                                 kb_clock_fit *fit)
{
    return fit_snapshots(snapshots, count, false, fit, NULL);
}

/* Signed, so that ticks before the origin get times before it; half rounds up everywhere, so that
 * order is kept across the origin. */
int64_t kb_clock_fit_any_ns(const kb_clock_fit *fit, uint64_t ticks)
{
    wide product = (wide)(int64_t)(ticks - fit->ticks0) * (wide)fit->mult;
    wide half = fit->shift > 0 ? (wide)1 << (fit->shift - 1) : 0;
    return clamp_ns((wide)fit->ns0 + ((product + half) >> fit->shift));
}

int64_t kb_clock_fit_from_clock(const kb_clock_fit *fit, int clock_id, int64_t ns)
{
    wide after; /* the origin, in the clock's own nanoseconds */
    switch (clock_id) {
    case CLOCK_MONOTONIC_RAW:
        return clamp_ns((wide)ns + fit->realtime_minus_raw_ns);
    case CLOCK_MONOTONIC:
        after = (wide)ns + fit->realtime_minus_monotonic_ns - fit->ns0;
        break;
    case CLOCK_BOOTTIME:
        after = (wide)ns + fit->realtime_minus_boottime_ns - fit->ns0;
        break;
    default: /* CLOCK_REALTIME */
        after = (wide)ns - fit->ns0;
        break;
    }
    if (fit->slew_monotonic_ns > 0)
        after = (wide)clamp_ns(after) * fit->slew_raw_ns / fit->slew_monotonic_ns;
    return clamp_ns((wide)fit->ns0 + after);
}
