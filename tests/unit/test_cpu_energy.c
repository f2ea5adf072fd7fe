/* Counters of energy in a made sysfs: their packages, units and wraps, and what is not such a counter. Events of the
 * made PMU are the kernel's clock of a CPU, which counts everywhere, or its event that counts nothing. */
#include "unit.h"

#include "cpu/energy.h"

#include <ftw.h>
#include <linux/perf_event.h>
#include <sys/stat.h>

#define RANGE UINT64_C(262143328850)

static char root[256];

static void put(const char *path, const char *text)
{
    char whole[512];
    snprintf(whole, sizeof whole, "%s/%s", root, path);
    for (char *slash = whole + strlen(root) + 1; (slash = strchr(slash, '/')) != NULL; slash++) {
        *slash = '\0';
        (void)mkdir(whole, 0777);
        *slash = '/';
    }
    FILE *f = fopen(whole, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void put_zone(const char *zone, const char *name, uint64_t energy)
{
    char path[128], text[64];
    snprintf(path, sizeof path, "class/powercap/%s/name", zone);
    snprintf(text, sizeof text, "%s\n", name);
    put(path, text);
    snprintf(path, sizeof path, "class/powercap/%s/max_energy_range_uj", zone);
    snprintf(text, sizeof text, "%llu\n", (unsigned long long)RANGE);
    put(path, text);
    snprintf(path, sizeof path, "class/powercap/%s/energy_uj", zone);
    snprintf(text, sizeof text, "%llu\n", (unsigned long long)energy);
    put(path, text);
}

#define EVENTS "bus/event_source/devices/power/events/"

static void put_pmu(uint32_t type, const char *mask)
{
    char text[32];
    snprintf(text, sizeof text, "%u\n", type);
    put("bus/event_source/devices/power/type", text);
    put("bus/event_source/devices/power/cpumask", mask);
}

static void put_event(const char *name, uint32_t config, const char *scale, const char *unit)
{
    char path[128], text[32];
    snprintf(path, sizeof path, EVENTS "%s", name);
    snprintf(text, sizeof text, "event=0x%02x\n", config);
    put(path, text);
    snprintf(path, sizeof path, EVENTS "%s.scale", name);
    put(path, scale);
    snprintf(path, sizeof path, EVENTS "%s.unit", name);
    put(path, unit);
}

static int make_root(void **state)
{
    (void)state;
    return make_directory(root, sizeof root) ? 0 : -1;
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

static int remove_root(void **state)
{
    (void)state;
    return nftw(root, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

static const ku_energy_counter *find_counter(const ku_energy_counters *all, const char *device, const char *series)
{
    for (uint32_t i = 0; i < all->count; i++)
        if (strcmp(all->list[i].device, device) == 0 && strcmp(ku_energy_series(&all->list[i]), series) == 0)
            return &all->list[i];
    fail_msg("no counter '%s' of '%s'", series, device);
    return NULL;
}

static void read_all(ku_energy_counters *all)
{
    for (uint32_t i = 0; i < all->count; i++)
        assert_true(ku_energy_read(all, i));
}

/* False: the kernel does not let this user count on a CPU. */
static bool open_pmu_counters(ku_energy_counters *all)
{
    kineto_error err;
    kineto_status status = ku_energy_open(root, all, &err);
    if (status == KINETO_E_PERMISSION)
        return false;
    assert_int_equal(status, KINETO_OK);
    return true;
}

/* ---- powercap -------------------------------------------------------------------------------- */

static void test_zones_of_two_packages_count_in_microjoules(void **state)
{
    (void)state;
    ku_energy_counters all;
    put_zone("intel-rapl:0", "package-0", 1000000);
    put_zone("intel-rapl:0:0", "core", 5);
    put_zone("intel-rapl:0:1", "dram", 7);
    put_zone("intel-rapl:1", "package-1", 2000000);
    put_zone("intel-rapl:1:0", "dram", 9);
    put_zone("intel-rapl:2", "psys", 11);
    put_zone("intel-rapl-mmio:0", "package-0", 1000000);
    put_zone("intel-rapl:3", "something-else", 1);
    assert_int_equal(ku_energy_open(root, &all, NULL), KINETO_OK);
    assert_int_equal(all.count, 6);
    put_zone("intel-rapl:0", "package-0", 3500000);
    put_zone("intel-rapl:1", "package-1", 2000001);
    put_zone("intel-rapl:1:0", "dram", 10);
    read_all(&all);
    const ku_energy_counter *first = find_counter(&all, "CPU package 0", "energy [J]");
    assert_int_equal(first->units, 2500000);
    assert_true(first->joules == 1e-6);
    assert_int_equal(find_counter(&all, "CPU package 1", "energy [J]")->units, 1);
    assert_int_equal(find_counter(&all, "DRAM of CPU package 1", "energy [J]")->units, 1);
    assert_int_equal(find_counter(&all, "DRAM of CPU package 0", "energy [J]")->units, 0);
    assert_int_equal(find_counter(&all, "CPU package 0", "cores energy [J]")->number, first->number);
    assert_int_equal(find_counter(&all, "Platform", "energy [J]")->units, 0);
    char text[400];
    assert_int_equal(ku_energy_list(&all, true, text, sizeof text), 3);
    assert_string_equal(text, "CPU energy (CPU package 0), CPU energy (CPU package 1), DRAM energy (DRAM of CPU package 1)");
    assert_int_equal(ku_energy_list(&all, true, text, 8), 3);
    assert_string_equal(text, "CPU ene");
    ku_energy_close(&all);
}

static void test_a_reading_that_falls_has_wrapped(void **state)
{
    (void)state;
    ku_energy_counters all;
    put_zone("intel-rapl:0", "package-0", RANGE - 10);
    assert_int_equal(ku_energy_open(root, &all, NULL), KINETO_OK);
    put_zone("intel-rapl:0", "package-0", 30);
    read_all(&all);
    assert_int_equal(all.list[0].units, 40);
    put_zone("intel-rapl:0", "package-0", RANGE);
    read_all(&all);
    put_zone("intel-rapl:0", "package-0", 5);
    read_all(&all);
    assert_int_equal(all.list[0].units, RANGE + 15);
    ku_energy_close(&all);
}

static void test_dies_of_a_package_are_devices_of_their_own(void **state)
{
    (void)state;
    ku_energy_counters all;
    put_zone("intel-rapl:0", "package-1-die-0", 1);
    put_zone("intel-rapl:1", "package-1-die-1", 1);
    put_zone("intel-rapl:1:0", "dram", 1);
    assert_int_equal(ku_energy_open(root, &all, NULL), KINETO_OK);
    assert_int_equal(all.count, 3);
    int32_t first = find_counter(&all, "CPU package 1", "energy [J]")->number;
    assert_int_not_equal(find_counter(&all, "CPU package 1, die 1", "energy [J]")->number, first);
    (void)find_counter(&all, "DRAM of CPU package 1", "energy [J]");
    ku_energy_close(&all);
}

static void test_readings_that_fail_are_counted(void **state)
{
    (void)state;
    ku_energy_counters all;
    put_zone("intel-rapl:0", "package-0", 100);
    assert_int_equal(ku_energy_open(root, &all, NULL), KINETO_OK);
    put("class/powercap/intel-rapl:0/energy_uj", "");
    assert_false(ku_energy_read(&all, 0));
    put("class/powercap/intel-rapl:0/energy_uj", "none\n");
    assert_false(ku_energy_read(&all, 0));
    assert_int_equal(all.failed_reads, 2);
    put_zone("intel-rapl:0", "package-0", 130);
    read_all(&all);
    assert_int_equal(all.list[0].units, 30);
    ku_energy_close(&all);
}

/* ---- the PMU --------------------------------------------------------------------------------- */

static void test_events_have_their_unit_and_package(void **state)
{
    (void)state;
    ku_energy_counters all;
    bool has_two = kb_os_cpus() > 1;
    put_pmu(PERF_TYPE_SOFTWARE, has_two ? "0-1\n" : "0\n");
    put("devices/system/cpu/cpu1/topology/physical_package_id", "1\n");
    put_event("energy-pkg", PERF_COUNT_SW_CPU_CLOCK, "1.0e-9\n", "Joules\n");
    put_event("energy-psys", PERF_COUNT_SW_DUMMY, "2.3283064365386962890625e-10\n", "Joules\n");
    put_zone("intel-rapl:0", "package-0", 100);
    chmod(root, 0755);
    if (!open_pmu_counters(&all) || all.list[0].is_text) /* refused: powercap is read */
        skip();
    assert_int_equal(all.count, has_two ? 3 : 2);
    usleep(2000);
    read_all(&all);
    const ku_energy_counter *package = find_counter(&all, "CPU package 0", "energy [J]");
    assert_true(package->units >= 2000000);
    assert_true(package->joules == 1e-9);
    if (has_two)
        assert_true(find_counter(&all, "CPU package 1", "energy [J]")->units >= 2000000);
    const ku_energy_counter *platform = find_counter(&all, "Platform", "energy [J]");
    assert_int_equal(platform->units, 0);
    assert_true(platform->joules == 1.0 / 4294967296.0);
    ku_energy_close(&all);
}

static void test_what_is_no_event_of_energy_is_left_out(void **state)
{
    (void)state;
    static const char *const scales[] = {"0\n", "-1\n", "nan\n", "inf\n", "\n", "x\n"};
    static const char *const masks[] = {"0\n", "", "-\n", "x", "0-\n", "0,\n", ",", "999999999999999999999-1\n"};
    ku_energy_counters all;
    for (size_t i = 0; i < KB_COUNT(masks); i++) {
        put_pmu(PERF_TYPE_SOFTWARE, masks[i]);
        put_event("energy-cores", PERF_COUNT_SW_CPU_CLOCK, scales[i % KB_COUNT(scales)], "Joules\n");
        put_event("energy-pkg", PERF_COUNT_SW_CPU_CLOCK, "1e-9\n", "Watts\n");
        put(EVENTS "energy-ram", "umask=0x3\n");
        kineto_error err = {0};
        assert_int_equal(ku_energy_open(root, &all, &err), KINETO_E_NOT_FOUND);
        assert_non_null(strstr(err.message, "no counters of energy"));
        ku_energy_close(&all);
    }
}

static void test_powercap_stands_in_for_the_pmu(void **state)
{
    (void)state;
    ku_energy_counters all;
    put_pmu(UINT32_MAX, "0\n"); /* there is no such PMU */
    put_event("energy-pkg", 2, "1e-9\n", "Joules\n");
    put_zone("intel-rapl:0", "package-0", 100);
    assert_int_equal(ku_energy_open(root, &all, NULL), KINETO_OK);
    assert_int_equal(all.count, 1);
    assert_true(all.list[0].is_text);
    ku_energy_close(&all);
}

static void test_without_permission_the_error_says_what_to_do(void **state)
{
    (void)state;
    ku_energy_counters all;
    char path[320];
    kineto_error err = {0};
    put_zone("intel-rapl:0", "package-0", 100);
    snprintf(path, sizeof path, "%s/class/powercap/intel-rapl:0/energy_uj", root);
    chmod(path, 0);
    if (geteuid() == 0)
        skip();
    assert_int_equal(ku_energy_open(root, &all, &err), KINETO_E_PERMISSION);
    assert_non_null(strstr(err.message, "record as root"));
}

#define WITH_ROOT(test) cmocka_unit_test_setup_teardown(test, make_root, remove_root)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_ROOT(test_zones_of_two_packages_count_in_microjoules),
        WITH_ROOT(test_a_reading_that_falls_has_wrapped),
        WITH_ROOT(test_dies_of_a_package_are_devices_of_their_own),
        WITH_ROOT(test_readings_that_fail_are_counted),
        WITH_ROOT(test_events_have_their_unit_and_package),
        WITH_ROOT(test_what_is_no_event_of_energy_is_left_out),
        WITH_ROOT(test_powercap_stands_in_for_the_pmu),
        WITH_ROOT(test_without_permission_the_error_says_what_to_do),
    };
    return RUN_TESTS(tests);
}
