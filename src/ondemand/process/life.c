/* The life of the controller of this process: it is started by the program, the environment or a
 * request, run by one thread, and stopped by the program or its end. A fork's child starts its own,
 * with the parent's settings, at its first step or session.
 *
 * `life.lock` serialises start and stop. Other threads use the controller through ko_control_get,
 * which counts users: withdraw_controller clears the pointer, and waits until the count is 0. Both
 * sides have a full fence between their write and their read, so a user either sees NULL or is
 * waited for. */
#include "base/thread_census.h"
#include "ondemand/capture/observers.h"
#include "ondemand/capture/ring.h"
#include "ondemand/process/process.h"
#include "profiler/profiler.h"
#include "record/record.h"

#include <sched.h>
#include <time.h>

static struct {
    pthread_mutex_t lock; /* for starting and stopping */
    ko_controller *controller;
    uint32_t users;  /* atomic: threads between ko_control_get and _put */
    uint32_t ending; /* atomic: the thread must end */
    uint32_t again;  /* atomic: in a fork's child whose parent was listening */
    pthread_t thread;
    bool listens, registered, looked;
    ko_settings settings;
} life = {.lock = PTHREAD_MUTEX_INITIALIZER};

static __thread uint32_t own_users; /* how many of the users are this thread's */
static __thread uint64_t this_step; /* during a step that starts the controller: its number + 1 */

/* ---- access ---------------------------------------------------------------------------------- */

ko_controller *ko_control_get(void)
{
    (void)kb_add_acqrel(&life.users, 1u);
    kb_fence_seqcst();
    ko_controller *c = kb_load_acquire(&life.controller);
    if (c)
        own_users++;
    else
        (void)kb_add_acqrel(&life.users, UINT32_MAX);
    return c;
}

void ko_control_put(void)
{
    KB_ASSERT(own_users > 0 && kb_load_relaxed(&life.users) >= own_users);
    own_users--;
    (void)kb_add_acqrel(&life.users, UINT32_MAX);
}

void ko_control_wake(void)
{
    ko_controller *c = ko_control_get();
    if (!c)
        return;
    ko_controller_wake(c);
    ko_control_put();
}

/* Removes the controller from `life` and waits until no other thread uses it. NULL: there was none.
 */
static ko_controller *withdraw_controller(void)
{
    ko_controller *none = NULL, *c = kb_exchange_acqrel(&life.controller, none);
    kb_fence_seqcst();
    while (kb_load_acquire(&life.users) > own_users)
        sched_yield();
    return c;
}

/* ---- hooks ----------------------------------------------------------------------------------- */

static void listen_again(void);

static int64_t realtime_ns(void) { return (int64_t)kb_clock_ns(CLOCK_REALTIME); }

/* The recent iterations: the time that was reported to the controller, and the ticks at which they
 * really began, a little earlier. Each entry is a seqlock: number is 0 while it is written. */
static struct {
    uint64_t number; /* from 1; 0: being written */
    int64_t ns;
    uint64_t ticks;
} step_times[KF_STEP_TIMES];

/* Entry i; false: empty, or being written. */
static bool read_iteration(size_t i, ko_iteration *out)
{
    uint64_t number = kb_load_acquire(&step_times[i].number);
    *out = (ko_iteration){.number = number - 1,
                          .reported_ns = kb_load_relaxed(&step_times[i].ns),
                          .ticks = kb_load_relaxed(&step_times[i].ticks)};
    kb_fence_seqcst();
    return number > 0 && kb_load_relaxed(&step_times[i].number) == number;
}

/* @return the time to report to the controller. */
static int64_t remember_iteration(uint64_t step, uint64_t ticks)
{
    size_t i = step % KF_STEP_TIMES;
    int64_t ns = realtime_ns();
    kb_store_relaxed(&step_times[i].number, UINT64_C(0));
    kb_fence_seqcst();
    kb_store_relaxed(&step_times[i].ns, ns);
    kb_store_relaxed(&step_times[i].ticks, ticks);
    kb_store_release(&step_times[i].number, step + 1);
    return ns;
}

/* An iteration that was reported longer ago than this is not the one that is asked for. */
#define LATE_NS INT64_C(1000000000)

bool ko_control_iteration_at(int64_t ns, ko_iteration *out)
{
    ko_iteration one;
    int64_t best_ns = ns - LATE_NS;
    for (size_t i = 0; i < KB_COUNT(step_times); i++)
        if (read_iteration(i, &one) && one.reported_ns <= ns && one.reported_ns > best_ns) {
            best_ns = one.reported_ns;
            *out = one;
        }
    return best_ns > ns - LATE_NS;
}

bool ko_control_iteration(uint64_t number, ko_iteration *out)
{
    return read_iteration(number % KF_STEP_TIMES, out) && out->number == number;
}

/* kineto_rt_step_hook: on the program's thread, for every step. */
static void handle_step(uint64_t step, uint64_t ticks)
{
    if (KINETO_UNLIKELY(kb_load_relaxed(&life.again))) {
        this_step = step + 1;
        listen_again();
        this_step = 0;
    }
    ko_controller *c = ko_control_get();
    if (!c)
        return;
    ko_watchdog_step(c, step);
    ko_controller_step(c, remember_iteration(step, ticks));
    ko_control_put();
}

static void handle_preempt(bool begins)
{
    ko_controller *c = ko_control_get();
    if (!c)
        return;
    ko_controller_preempt(c, begins);
    ko_control_put();
}

static void handle_session_prepare(void)
{
    if (kb_load_relaxed(&life.again))
        listen_again();
}

/* ---- settings -------------------------------------------------------------------------------- */

static const char *own_text(const char *text, char *to, size_t bytes)
{
    if (!text)
        return NULL;
    if (text != to)
        snprintf(to, bytes, "%s", text);
    return to;
}

void ko_settings_own(ko_settings *s)
{
    kineto_control_options *o = &s->options;
    o->trigger_file = own_text(o->trigger_file, s->file, sizeof s->file);
    o->dump_path = own_text(o->dump_path, s->dump_path, sizeof s->dump_path);
}

static bool has_listeners(const ko_settings *s)
{
    const kineto_control_options *o = &s->options;
    return o->socket || o->daemon || o->signal || o->trigger_file || o->ring_seconds > 0;
}

/* ---- listeners ------------------------------------------------------------------------------- */

static ko_listener *create_socket_listener(const ko_settings *s, kineto_error *err)
{
    return s->options.socket ? ko_control_socket_create(kb_os_pid(), err) : NULL;
}

static ko_listener *create_daemon_listener(const ko_settings *s, kineto_error *err)
{
    return s->options.daemon ? ko_dyno_listener_create(s->poll_interval_ns, err) : NULL;
}

static ko_listener *create_signal_listener(const ko_settings *s, kineto_error *err)
{
    return s->options.signal ? ko_signal_listener_create(s->options.signal, err) : NULL;
}

static ko_listener *create_file_listener(const ko_settings *s, kineto_error *err)
{
    return s->options.trigger_file ? ko_file_listener_create(s->options.trigger_file, err) : NULL;
}

static ko_listener *create_watchdog_listener(const ko_settings *s, kineto_error *err)
{
    return s->options.ring_seconds > 0 ? ko_watchdog_create(&s->options, err) : NULL;
}

/* Each returns NULL without an error if its listener is not wanted. */
typedef ko_listener *maker(const ko_settings *s, kineto_error *err);
static maker *const makers[] = {create_socket_listener, create_daemon_listener,
                                create_signal_listener, create_file_listener,
                                create_watchdog_listener};

/* With `lenient`, listeners that fail are skipped with a warning. */
static kineto_status add_listeners(ko_controller *c, const ko_settings *s, bool lenient,
                                   kineto_error *err)
{
    for (size_t i = 0; i < KB_COUNT(makers); i++) {
        kineto_error why = {.code = KINETO_OK};
        ko_listener *l = makers[i](s, &why);
        if (l)
            ko_controller_listen(c, l);
        else if (why.code && !lenient)
            return kb_fail(err, why.code, "%s", why.message);
        else if (why.code)
            kb_log(KINETO_LOG_WARNING, "this process is not listened to: %s", why.message);
    }
    return KINETO_OK;
}

/* ---- the ring -------------------------------------------------------------------------------- */

static kineto_status start_ring(const ko_settings *s, kineto_error *err)
{
    if (!(s->options.ring_seconds > 0))
        return KINETO_OK;
    kineto_status status = ko_ring_start(&s->options, err);
    if (status || !s->options.dump_on_crash)
        return status;
    status = ko_crash_arm(&s->options, err);
    if (status)
        ko_ring_stop();
    return status;
}

static void stop_ring(void)
{
    if (!(life.settings.options.ring_seconds > 0))
        return;
    ko_crash_disarm();
    ko_ring_stop();
}

/* ---- the thread ------------------------------------------------------------------------------ */

/* From the environment: the control thread starts the ring, since sessions must not be started from
 * within a constructor. */
static bool ring_waits;
static bool main_watched; /* base/thread_census.c will report the end of the main thread */

#define LOOK_NS           INT64_C(10000000000) /* poll interval without such a report */
#define LOOK_AFTER_END_NS INT64_C(200000000)

/* How long the control thread may wait: it must notice the end of the program soon. */
static int64_t loop_wait_ns(void)
{
    if (kb_main_thread_ended())
        return LOOK_AFTER_END_NS;
    return main_watched ? -1 : LOOK_NS;
}

/* All threads but the library's have ended, so the program is over: writes what was collected and
 * ends this thread, with which the process ends. */
static bool end_with_program(ko_controller *c)
{
    if ((main_watched && !kb_main_thread_ended()) || !kb_only_library_threads_left())
        return false;
    if (pthread_mutex_trylock(&life.lock) != 0)
        return false;
    bool ours = withdraw_controller() == c;
    if (ours) {
        ko_controller_destroy(c);
        stop_ring();
        kb_store_relaxed(&life.listens, false);
        (void)pthread_detach(pthread_self());
    }
    pthread_mutex_unlock(&life.lock);
    return ours;
}

/* The control thread. */
static void *run_control_thread(void *controller)
{
    kineto_error why;
    (void)pthread_setname_np(pthread_self(), KB_THREAD_CONTROL);
    if (ring_waits && start_ring(&life.settings, &why))
        kb_log(KINETO_LOG_WARNING, "the ring is off: %s", why.message);
    while (!kb_load_acquire(&life.ending)) {
        bool more = ko_process_tend();
        ko_controller_turn(controller, more ? 0 : loop_wait_ns());
        if (end_with_program(controller))
            break;
    }
    return NULL;
}

/* ---- start and stop, with the lock ----------------------------------------------------------- */

static void stop_control_at_exit(void);
static void forget_parent_control(void);

/* The session hook is for fork's children that never step. */
static void register_process_hooks(void)
{
    if (life.registered)
        return;
    life.registered = true;
    (void)atexit(stop_control_at_exit);
    (void)pthread_atfork(NULL, NULL, forget_parent_control);
    ks_session_hook(handle_session_prepare);
}

/* With its watchers and listeners; *out is valid on success only. */
static kineto_status create_controller(const ko_settings *s, bool lenient, ko_controller **out,
                                       kineto_error *err)
{
    ko_driver driver;
    bool ring = s->options.ring_seconds > 0;
    ko_process_driver(&driver);
    if (ring) {
        driver.dump = ko_ring_dump;
        driver.can_dump = ko_ring_can_dump;
    }
    ko_controller_options options = {.pid = kb_os_pid(),
                                     .host = "process",
                                     .ring = ring,
                                     .dump_path = s->options.dump_path,
                                     .iterations =
                                         this_step ? this_step - 1 : kineto_rt_steps(NULL)};
    kineto_status status = ko_controller_create(&options, &driver, out, err);
    if (status)
        return status;
    (void)ko_controller_watch(*out, ko_observers_watch, NULL);
    (void)ko_controller_watch(*out, ko_log_watch, NULL);
    status = add_listeners(*out, s, lenient, err);
    if (status)
        ko_controller_destroy(*out);
    return status;
}

/* Order: no new users, thread, controller, ring. */
static void stop_control(void)
{
    kp_preempt_set_hook(NULL);
    ko_controller *c = withdraw_controller();
    if (!c)
        return;
    KB_ASSERT(!pthread_equal(pthread_self(), life.thread));
    kb_store_release(&life.ending, 1u);
    ko_controller_wake(c);
    pthread_join(life.thread, NULL);
    ko_controller_destroy(c);
    stop_ring();
    kb_store_relaxed(&life.listens, false);
}

/* Order: ring, controller, thread; then it becomes visible to users and hooks are installed. */
static kineto_status start_control(const ko_settings *s, bool lenient, kineto_error *err)
{
    ko_controller *c;
    register_process_hooks();
    kineto_status status = lenient ? KINETO_OK : start_ring(s, err);
    if (status)
        return status;
    if (s->options.dump_on_crash)
        ko_crash_stack();
    KB_ASSERT(!life.controller);
    life.settings = *s;
    ko_settings_own(&life.settings);
    ring_waits = lenient;
    status = create_controller(&life.settings, lenient, &c, err);
    if (status) {
        stop_ring();
        return status;
    }
    kb_store_release(&life.ending, 0u);
    main_watched = kb_main_thread_watch(ko_control_wake);
    int failed = kb_thread_start(&life.thread, run_control_thread, c);
    if (failed) {
        ko_controller_destroy(c);
        stop_ring();
        return kb_fail_os(err, failed, "cannot start a thread that listens for requests");
    }
    kb_store_relaxed(&life.listens, has_listeners(s));
    kb_store_release(&life.controller, c);
    kineto_rt_step_hook(handle_step);
    kp_preempt_set_hook(handle_preempt);
    return KINETO_OK;
}

/* A controller that was started only for a request of the program is replaced, unless a request is
 * under way. */
static kineto_status replace_idle_controller(kineto_error *err)
{
    const char *why;
    if (life.listens)
        return kb_fail(err, KINETO_E_STATE,
                       "this process is listening already; call kineto_control_stop first");
    if (life.controller && !ko_controller_can_accept(life.controller, &why))
        return kb_fail(err, KINETO_E_STATE, "a trace is under way: %s", why);
    stop_control();
    return KINETO_OK;
}

kineto_status ko_life_start(const ko_settings *settings, bool lenient, kineto_error *err)
{
    pthread_mutex_lock(&life.lock);
    kb_store_release(&life.again, 0u);
    kineto_status status = replace_idle_controller(err);
    if (!status && has_listeners(settings))
        status = start_control(settings, lenient, err);
    pthread_mutex_unlock(&life.lock);
    return status;
}

static void start_from_environment(void)
{
    ko_settings *s = life.looked ? NULL : calloc(1, sizeof *s);
    life.looked = true;
    if (!s)
        return;
    ko_environment_add(s);
    kineto_error why;
    if (!life.controller && has_listeners(s) && start_control(s, true, &why))
        kb_log(KINETO_LOG_WARNING, "this process is not listened to: %s", why.message);
    free(s);
}

void ko_life_start_from_environment(void)
{
    pthread_mutex_lock(&life.lock);
    start_from_environment();
    pthread_mutex_unlock(&life.lock);
}

kineto_status ko_life_ensure(kineto_error *err)
{
    kineto_status status = KINETO_OK;
    listen_again();
    pthread_mutex_lock(&life.lock);
    start_from_environment();
    if (!life.controller) {
        ko_settings *none = calloc(1, sizeof *none);
        status =
            none ? start_control(none, false, err) : kb_fail_memory(err, NULL);
        free(none);
    }
    pthread_mutex_unlock(&life.lock);
    return status;
}

void ko_life_stop(void)
{
    if (own_users > 0)
        return; /* called from a callback: it would wait for itself */
    pthread_mutex_lock(&life.lock);
    kb_store_release(&life.again, 0u);
    life.looked = true;
    if (life.controller && !pthread_equal(pthread_self(), life.thread))
        stop_control();
    pthread_mutex_unlock(&life.lock);
}

bool ko_life_listens(void)
{
    listen_again();
    return kb_load_acquire(&life.controller) && kb_load_relaxed(&life.listens);
}

/* ---- the end of the program, and forks ------------------------------------------------------- */

/* atexit: writes what was collected. */
static void stop_control_at_exit(void) { ko_life_stop(); }

/* atfork, in the child: the control thread does not exist here, and the listeners belong to the
 * parent. */
static void forget_parent_control(void)
{
    ko_controller *none = NULL, *c = kb_exchange_acqrel(&life.controller, none);
    pthread_mutex_init(&life.lock, NULL);
    kb_store_release(&life.users, own_users);
    /* a child that has not restarted yet passes the request on to its own children */
    bool listened = c || kb_load_relaxed(&life.again);
    kb_store_release(&life.again, listened && life.listens);
    ko_observers_forked();
    ko_process_forked();
    if (own_users == 0)
        ko_controller_forked(c);
}

/* Restarts the controller in a fork's child, once. A child that only executes another program never
 * gets here. */
static void listen_again(void)
{
    kineto_error why;
    uint32_t yes = 1;
    if (KINETO_LIKELY(!kb_load_relaxed(&life.again)) || !kb_cas_acqrel(&life.again, &yes, 0u))
        return;
    pthread_mutex_lock(&life.lock);
    ko_settings *s = life.controller ? NULL : malloc(sizeof *s);
    if (s) {
        *s = life.settings;
        ko_settings_own(s);
        if (start_control(s, true, &why))
            kb_log(KINETO_LOG_WARNING, "the child does not listen for requests: %s", why.message);
    }
    free(s);
    pthread_mutex_unlock(&life.lock);
}
