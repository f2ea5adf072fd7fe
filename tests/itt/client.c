/* A program that reports to ITT, for test_record.py, which knows what it calls. */
#include "static_part.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static ci_domain *domain, *other;

static void sleep_ms(long ms)
{
    struct timespec t = {0, ms * 1000000};
    (void)nanosleep(&t, NULL);
}

static ci_string *text(const char *s) { return itt_string_handle_create(s); }

static void begin(const char *name) { itt_task_begin(domain, no_id, no_id, text(name)); }
static void end(void) { itt_task_end(domain); }

static void handles(void)
{
    if (itt_domain_create("library") != domain || text("a") != text("a") ||
        text("a") == text("b") || strcmp(domain->name, "library") != 0 || !domain->flags ||
        strcmp(text("a")->text, "a") != 0)
        exit(3);
    const char *setting = getenv("CKINETO_ITT");
    if ((itt_api_version != NULL) != (setting != NULL))
        exit(6);
    if (itt_heap_function_create) /* not provided: calls end in the program */
        exit(4);
}

static void tasks(void)
{
    begin("outer");
    for (int i = 0; i < 100; i++) {
        begin("inner");
        end();
    }
    itt_task_begin(other, no_id, no_id, text("crossing"));
    end(); /* "outer" ends while "crossing" is open */
    itt_task_end(other);
    itt_task_begin(domain, make_id(7, 8), make_id(5, 6), text("with ids"));
    itt_task_end(domain);
    itt_task_begin_fn(domain, no_id, no_id, (void *)(uintptr_t)&getpid);
    itt_task_end(domain);
    itt_task_begin_ex(domain, NULL, 12345, no_id, no_id, text("with a time"));
    itt_task_end(domain);
    itt_task_end(domain); /* without a begin */
    ci_domain foreign = {.flags = 1, .name = "library"};
    ci_string name = {.text = "foreign"};
    itt_task_begin(&foreign, no_id, no_id, &name);
    itt_task_end(domain);
}

static void *worker(void *unused)
{
    (void)unused;
    itt_thread_set_name("itt worker");
    itt_task_end_overlapped(domain, make_id(1, 1));
    itt_frame_end_v3(domain, NULL);
    for (int i = 0; i < 50; i++) {
        begin("on a thread");
        end();
    }
    return NULL;
}

static void spans(void)
{
    pthread_t thread;
    itt_task_begin_overlapped(domain, make_id(1, 1), no_id, text("overlapped"));
    itt_region_begin(domain, make_id(2, 2), no_id, text("region"));
    itt_frame_begin_v3(domain, NULL);
    if (pthread_create(&thread, NULL, worker, NULL) || pthread_join(thread, NULL))
        exit(5);
    itt_region_end(domain, make_id(2, 2));
    itt_region_end(domain, make_id(2, 2)); /* once more */
    for (int i = 0; i < 5; i++) {
        unsigned long long start = itt_get_timestamp();
        sleep_ms(2);
        itt_frame_submit_v3(other, NULL, start, itt_get_timestamp());
    }
    int event = itt_event_create("user event and more", 10);
    itt_event_start(event);
    itt_event_end(event);
}

static void moments(void)
{
    itt_marker(domain, no_id, text("marker"), 3);
    itt_mark(itt_mark_create("mark"), "parameter");
    itt_task_group(domain, make_id(9, 9), no_id, text("group"));
}

static void metadata(void)
{
    int64_t one = -5, list[] = {1, 2, 3};
    double number = 1.5, numbers[] = {0.5, 0.25};
    uint16_t small = 65535;
    begin("with metadata");
    itt_metadata_add(domain, no_id, text("one"), CI_TYPE_S64, 1, &one);
    itt_metadata_add(domain, no_id, text("list"), CI_TYPE_S64, 3, list);
    itt_metadata_add(domain, no_id, text("number"), CI_TYPE_DOUBLE, 1, &number);
    itt_metadata_add(domain, no_id, text("numbers"), CI_TYPE_DOUBLE, 2, numbers);
    itt_metadata_add(domain, no_id, text("small"), CI_TYPE_U16, 1, &small);
    itt_metadata_add(domain, no_id, text("unknown"), 99, 1, &one);
    itt_metadata_str_add(domain, no_id, text("text"), "cut here", 3);
    itt_metadata_str_add(domain, no_id, text("whole"), "whole", (size_t)-1);
    itt_formatted_metadata_add(domain, text("shape %d x %d, %s"), 3, 4, "f32");
    itt_relation_add_to_current(domain, 5, make_id(42, 0));
    end();
    itt_metadata_str_add(domain, make_id(9, 9), text("name of a group"), "g", (size_t)-1);
}

static void counters(void)
{
    double level = 2.5;
    uint64_t whole = 1000;
    void *bytes = itt_counter_create("bytes", "library");
    void *degrees = itt_counter_create_typed("degrees", "library", CI_TYPE_DOUBLE);
    void *third = itt_counter_create_v3(domain, "third", CI_TYPE_U64);
    itt_counter_inc(bytes);
    itt_counter_inc_delta(bytes, 10);
    itt_counter_dec_delta(bytes, 4);
    itt_counter_set_value(degrees, &level);
    itt_counter_set_value_v3(third, &whole);
    itt_counter_inc_delta_v3(domain, text("named"), 3);
    itt_counter_inc_delta_v3(domain, text("named"), 3);
    ci_histogram *histogram = itt_histogram_create(domain, "histogram", CI_TYPE_U64, CI_TYPE_U64);
    for (int i = 0; i < 3; i++)
        itt_histogram_submit(histogram, 1, &whole, &whole);
}

static void waits(void)
{
    int object = 0, fast = 0;
    itt_sync_create(&object, "mutex", "the lock", 0);
    itt_sync_prepare(&object);
    sleep_ms(5);
    itt_sync_acquired(&object);
    itt_sync_prepare(&fast);
    itt_sync_cancel(&fast);
    itt_sync_acquired(&fast);
}

static void pauses(void)
{
    begin("before the pause");
    itt_pause();
    begin("during the pause");
    itt_marker(domain, no_id, text("during the pause"), 3);
    end();
    itt_resume();
    end();
    begin("after the pause");
    end();
}

static void children(void)
{
    begin("around a fork");
    pid_t child = fork();
    if (child == 0) {
        end(); /* the parent's: not recorded here */
        begin("in the child");
        end();
        exit(0);
    }
    (void)waitpid(child, NULL, 0);
    end();
}

int main(void)
{
    if (!itt_load(getenv("INTEL_LIBITTNOTIFY64")))
        return 77;
    domain = itt_domain_create("library");
    other = itt_domain_create("other");
    handles();
    tasks();
    spans();
    moments();
    metadata();
    counters();
    waits();
    pauses();
    children();
    return 0;
}
