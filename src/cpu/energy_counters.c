/* Finds the counters of energy in sysfs and reads them: by the PMU "power" (perf_event_open), or, where it is missing or
 * refused, by powercap. Values of the PMU have 64 bits and do not wrap; those of powercap wrap at a number that
 * it gives. */
#include "cpu/energy.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <linux/perf_event.h>
#include <math.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PMU      "/bus/event_source/devices/power/"
#define MAX_CPUS 8192

/* A part of a package, or the whole machine. Devices of the same number are one device. */
typedef struct ku_energy_domain {
    const char *event, *zone; /* names of the PMU and of powercap */
    const char *device, *name, *series;
    int32_t first_number; /* of devices: GPUs have smaller ones */
    bool is_of_machine;
} ku_energy_domain;

static const ku_energy_domain energy_domains[] = {
    {"energy-pkg", "package", "CPU package", "CPU energy", "energy [J]", 1000, false},
    {"energy-cores", "core", "CPU package", "CPU cores energy", "cores energy [J]", 1000, false},
    {"energy-gpu", "uncore", "CPU package", "CPU graphics energy", "graphics energy [J]", 1000, false},
    {"energy-ram", "dram", "DRAM of CPU package", "DRAM energy", "energy [J]", 2000, false},
    {"energy-psys", "psys", "Platform", "Platform energy", "energy [J]", 3000, true}};
#define DIE_NUMBERS 100

const char *ku_energy_name(const ku_energy_counter *c) { return c->domain->name; }
const char *ku_energy_series(const ku_energy_counter *c) { return c->domain->series; }

/* ---- reading --------------------------------------------------------------------------------- */

static bool read_energy_units(const ku_energy_counter *c, uint64_t *units)
{
    char text[32], *end;
    if (!c->is_text)
        return read(c->fd, units, sizeof *units) == (ssize_t)sizeof *units;
    ssize_t size = pread(c->fd, text, sizeof text - 1, 0);
    text[size > 0 ? size : 0] = '\0';
    *units = strtoull(text, &end, 10);
    return end != text;
}

bool ku_energy_read(ku_energy_counters *all, uint32_t i)
{
    ku_energy_counter *c = &all->list[i];
    uint64_t now;
    if (!read_energy_units(c, &now)) {
        all->failed_reads++;
        return false;
    }
    if (now >= c->last)
        c->units += now - c->last;
    else if (c->last <= c->range)
        c->units += c->range - c->last + now;
    c->last = now;
    return true;
}

uint32_t ku_energy_list(const ku_energy_counters *all, bool have_counted, char *text, size_t size)
{
    uint32_t count = 0;
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < all->count; i++) {
        const ku_energy_counter *c = &all->list[i];
        if ((c->units != 0) != have_counted)
            continue;
        if (used < size)
            used += (size_t)snprintf(text + used, size - used, "%s%s (%s)", count ? ", " : "",
                                     c->domain->name, c->device);
        count++;
    }
    return count;
}

/* ---- the list -------------------------------------------------------------------------------- */

static uint32_t count_of_domain(const ku_energy_counters *all, const ku_energy_domain *d, uint32_t package)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < all->count; i++)
        count += all->list[i].domain == d && (d->is_of_machine || all->list[i].package == package);
    return count;
}

/* Take over the descriptor, or the error of opening it. A package of several dies has as many counters of a
 * domain, machines one. */
static void add_energy_counter(ku_energy_counters *all, ku_energy_counter c)
{
    const ku_energy_domain *d = c.domain;
    uint32_t die = count_of_domain(all, d, c.package);
    char package[24] = "", of_die[24] = "";
    if (c.fd < 0) {
        all->is_refused |= errno == EACCES || errno == EPERM;
        return;
    }
    if ((d->is_of_machine && die) || all->count == KU_MAX_ENERGY_COUNTERS || !read_energy_units(&c, &c.last)) {
        close(c.fd);
        return;
    }
    if (!d->is_of_machine)
        snprintf(package, sizeof package, " %u", c.package);
    if (die)
        snprintf(of_die, sizeof of_die, ", die %u", die);
    snprintf(c.device, sizeof c.device, "%s%s%s", d->device, package, of_die);
    c.number = d->first_number + (int32_t)(die * DIE_NUMBERS + c.package);
    all->list[all->count++] = c;
}

void ku_energy_close(ku_energy_counters *all)
{
    for (uint32_t i = 0; i < all->count; i++)
        close(all->list[i].fd);
    all->count = 0;
}

/* An empty text: there is no such file. */
KINETO_PRINTF(3, 4)
static const char *read_sysfs(char *text, size_t size, const char *path_format, ...)
{
    char path[512];
    va_list args;
    va_start(args, path_format);
    int length = vsnprintf(path, sizeof path, path_format, args);
    va_end(args);
    text[0] = '\0';
    if (length > 0 && length < (int)sizeof path)
        (void)kb_os_read_file(path, text, size);
    return text;
}

/* ---- the PMU --------------------------------------------------------------------------------- */

/* How an event is opened, and how many joules its unit is. False: it is not there. */
static bool read_energy_event(const char *sysfs, const char *event, uint64_t *config, double *joules)
{
    char text[64];
    if (sscanf(read_sysfs(text, sizeof text, "%s" PMU "events/%s", sysfs, event), "event=%" SCNx64, config) != 1 ||
        strncmp(read_sysfs(text, sizeof text, "%s" PMU "events/%s.unit", sysfs, event), "Joules", 6) != 0)
        return false;
    *joules = kb_strtod(read_sysfs(text, sizeof text, "%s" PMU "events/%s.scale", sysfs, event), NULL);
    return isfinite(*joules) && *joules > 0;
}

/* All counters that are read on this CPU; of whatever runs there, so the process is -1. */
static void open_events_of_cpu(ku_energy_counters *out, const char *sysfs, uint32_t type, int cpu)
{
    char text[32];
    long package = strtol(read_sysfs(text, sizeof text, "%s/devices/system/cpu/cpu%d/topology/physical_package_id",
                                     sysfs, cpu), NULL, 10);
    for (size_t i = 0; i < KB_COUNT(energy_domains); i++) {
        struct perf_event_attr a = {.type = type, .size = sizeof a};
        ku_energy_counter c = {.domain = &energy_domains[i],
                               .package = (uint32_t)KB_MAX(0, KB_MIN(package, INT16_MAX))};
        uint64_t config;
        if (!read_energy_event(sysfs, c.domain->event, &config, &c.joules))
            continue;
        a.config = config;
        c.fd = (int)syscall(SYS_perf_event_open, &a, (pid_t)-1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
        add_energy_counter(out, c);
    }
}

/* The mask has one CPU of each package or die: "0,18" or "0-1". */
static void open_pmu(ku_energy_counters *out, const char *sysfs)
{
    char type[32], mask[1024], *end;
    if (!*read_sysfs(type, sizeof type, "%s" PMU "type", sysfs))
        return;
    for (const char *at = read_sysfs(mask, sizeof mask, "%s" PMU "cpumask", sysfs); kb_is_digit(*at);
         at = *end == ',' ? end + 1 : end) {
        long first = strtol(at, &end, 10), last = *end == '-' ? strtol(end + 1, &end, 10) : first;
        for (long cpu = first; cpu <= KB_MIN(last, MAX_CPUS); cpu++)
            open_events_of_cpu(out, sysfs, (uint32_t)strtoul(type, NULL, 10), (int)cpu);
    }
}

/* ---- powercap -------------------------------------------------------------------------------- */

/* The number in the name of the package, "package-1" or "package-1-die-0", of which the zone is, or is a part:
 * "intel-rapl:1:0" is a part of "intel-rapl:1". */
static uint32_t read_package_of_zone(const char *zone)
{
    char name[64];
    unsigned package;
    const char *colon = strchr(strrchr(zone, '/'), ':'), *part = colon ? strchr(colon + 1, ':') : NULL;
    int size = part ? (int)(part - zone) : (int)strlen(zone);
    read_sysfs(name, sizeof name, "%.*s/name", size, zone);
    return sscanf(name, "package-%u", &package) == 1 && package <= INT16_MAX ? package : 0;
}

static void open_zone(ku_energy_counters *out, char *path)
{
    char name[64], range[32];
    int fd = open(path, O_RDONLY | O_CLOEXEC), os_error = errno;
    *strrchr(path, '/') = '\0';
    read_sysfs(name, sizeof name, "%s/name", path);
    ku_energy_counter c = {.package = read_package_of_zone(path), .fd = fd, .is_text = true, .joules = 1e-6};
    c.range = strtoull(read_sysfs(range, sizeof range, "%s/max_energy_range_uj", path), NULL, 10);
    for (size_t i = 0; i < KB_COUNT(energy_domains); i++)
        if (strncmp(name, energy_domains[i].zone, strcspn(name, "-\n")) == 0)
            c.domain = &energy_domains[i];
    errno = os_error;
    if (c.domain && *name)
        add_energy_counter(out, c);
    else if (fd >= 0)
        close(fd);
}

/* Also on AMD's processors. The zones of "intel-rapl-mmio" are the same once more. */
static void open_powercap(ku_energy_counters *out, const char *sysfs)
{
    char pattern[512];
    glob_t found = {0};
    if (snprintf(pattern, sizeof pattern, "%s/class/powercap/intel-rapl:*/energy_uj", sysfs) < (int)sizeof pattern &&
        glob(pattern, 0, NULL, &found) == 0)
        for (size_t i = 0; i < found.gl_pathc; i++)
            open_zone(out, found.gl_pathv[i]);
    globfree(&found);
}

kineto_status ku_energy_open(const char *sysfs, ku_energy_counters *out, kineto_error *err)
{
    *out = (ku_energy_counters){.count = 0};
    open_pmu(out, sysfs);
    if (!out->count)
        open_powercap(out, sysfs);
    if (out->count)
        return KINETO_OK;
    if (out->is_refused)
        return kb_fail(err, KINETO_E_PERMISSION,
                       "no permission to read the processor's counters of energy: record as root, with CAP_PERFMON, "
                       "or with kernel.perf_event_paranoid at 0 or less");
    return kb_fail(err, KINETO_E_NOT_FOUND,
                   "no counters of energy: %.200s has neither events of the PMU 'power' nor zones "
                   "'intel-rapl' of powercap",
                   sysfs);
}
