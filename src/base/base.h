/* The base library of all other folders of src: everything that is not about tracing. Strings are
 * in strings.h, atomics in atomic.h. Files marked [rt] are also part of libckineto-rt: they use
 * libc only and work before main. */
#ifndef KB_BASE_H
#define KB_BASE_H

#include <ckineto/base.h>

#include "base/atomic.h"
#include "base/strings.h"

#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>

#define KB_COUNT(array) (sizeof(array) / sizeof((array)[0]))
/** One of the arguments is evaluated twice: for calls with side effects or costs, and for memory that others write,
 *  there are the functions below. */
#define KB_MIN(a, b) ((a) < (b) ? (a) : (b))
#define KB_MAX(a, b) ((a) > (b) ? (a) : (b))
/** -1, 0 or 1, as comparison functions return it. Each argument is evaluated twice. */
#define KB_COMPARE(a, b) (((a) > (b)) - ((a) < (b)))
#define KB_MIN_MAX_FUNCTIONS(name, type)                                                           \
    static inline type kb_min_##name(type a, type b) { return a < b ? a : b; }                     \
    static inline type kb_max_##name(type a, type b) { return a > b ? a : b; }
KB_MIN_MAX_FUNCTIONS(u32, uint32_t)
KB_MIN_MAX_FUNCTIONS(u64, uint64_t)
KB_MIN_MAX_FUNCTIONS(i64, int64_t)
KB_MIN_MAX_FUNCTIONS(double, double)
#undef KB_MIN_MAX_FUNCTIONS

/* Units of time in nanoseconds. 64 bits wide, so that a product does not overflow. */
#define KB_MICROSECOND_NS INT64_C(1000)
#define KB_MILLISECOND_NS INT64_C(1000000)
#define KB_SECOND_NS      INT64_C(1000000000)
#define KB_MINUTE_NS      (60 * KB_SECOND_NS)
#define KB_HOUR_NS        (60 * KB_MINUTE_NS)
#define KB_DAY_NS         (24 * KB_HOUR_NS)

/** Ask for a line of memory that will be read and written soon. */
#define KB_PREFETCH(p) __builtin_prefetch((p), 1)

/** Binary search over the indices from `index` (an integer variable that holds the first one) to
 *  `end` (not included). `precedes` is an expression of `index`; it has to be true for the first
 *  indices and false for all others. Afterwards `index` is the first one for which it is false, or
 *  `end`. For rows that are sorted by `key`:
 *
 *      size_t i = 0;
 *      KB_LOWER_BOUND(i, count, rows[i].key < key);  the first row whose key is >= key
 *      KB_LOWER_BOUND(i, count, rows[i].key <= key); the first row whose key is > key
 */
#define KB_LOWER_BOUND(index, end, precedes)                                                       \
    do {                                                                                           \
        __typeof__(index) kb_low_ = (index), kb_high_ = (end);                                     \
        while (kb_low_ < kb_high_) {                                                               \
            (index) = kb_low_ + (kb_high_ - kb_low_) / 2;                                          \
            if (precedes)                                                                          \
                kb_low_ = (index) + 1;                                                             \
            else                                                                                   \
                kb_high_ = (index);                                                                \
        }                                                                                          \
        (index) = kb_low_;                                                                         \
    } while (0)

#if defined(__GNUC__)
#define KB_NOINLINE __attribute__((noinline))
#define KB_COLD __attribute__((noinline, cold))
#define KB_INLINE static inline __attribute__((always_inline))
#else
#define KB_NOINLINE
#define KB_COLD
#define KB_INLINE static inline
#endif

/** An invariant of this library's own code, never of its input. Checked in builds with
 *  CKINETO_ASSERTIONS (development, sanitizers, fuzzing, chaos): a false one is printed to stderr
 *  and aborts. In other builds the expression is compiled, but not evaluated. */
#ifdef CKINETO_ASSERTIONS
#define KB_ASSERT(x) (__builtin_expect(!!(x), 1) ? (void)0 : kb_assert_failed(#x, __FILE__, __LINE__))
#else
#define KB_ASSERT(x) ((void)sizeof(!(x)))
#endif
_Noreturn KB_COLD void kb_assert_failed(const char *expression, const char *file, int line);

static inline size_t kb_align(size_t n, size_t to) { return (n + to - 1) / to * to; }
/** end - start of times that come from files, saturated to the range of int64_t. */
static inline int64_t kb_length_ns(int64_t start_ns, int64_t end_ns)
{
    int64_t length;
    if (!__builtin_sub_overflow(end_ns, start_ns, &length))
        return length;
    return end_ns > start_ns ? INT64_MAX : INT64_MIN;
}

/* ---- status.c [rt]: errors ------------------------------------------------------------------- */

/** Fill err (may be NULL) and return code, so that failing is one line. The message is cut, on a
 *  UTF-8 boundary, to what fits. */
kineto_status kb_fail(kineto_error *err, kineto_status code, const char *fmt, ...)
    KINETO_PRINTF(3, 4);
/** Same for a failed system call: appends ": " and strerror(os_error); code follows the errno. */
kineto_status kb_fail_os(kineto_error *err, int os_error, const char *fmt, ...) KINETO_PRINTF(3, 4);
/** KINETO_E_MEMORY with the one wording for it: "WHAT: out of memory".
 *  @param what  a path or a noun, as "trace"; NULL: "out of memory" alone. */
kineto_status kb_fail_memory(kineto_error *err, const char *what);
/** KINETO_E_ARGUMENT with the one wording for a pointer of a caller that must not be NULL:
 *  "FUNCTION: ARGUMENT must not be NULL". `names` are the public names of the pointers that follow,
 *  of which at least one is NULL; the first such is reported:
 *
 *      if (!t || !out)
 *          return kb_fail_null(err, __func__, "trace, out", t, out);
 */
#define kb_fail_null(err, function, names, ...)                                                    \
    kb_fail_first_null((err), (function), (names), (const void *const[]){__VA_ARGS__})
kineto_status kb_fail_first_null(kineto_error *err, const char *function, const char *names,
                                 const void *const *pointers);
/** Read an options struct that begins with its size and may be of another version: copies the
 *  members that both versions have from `given` to `known`, which holds the defaults and keeps its
 *  size. NULL: the defaults. Refused, with `what` in the message: a size that was not set, and
 *  members of a newer version that are not zero. */
kineto_status kb_options_read(void *known, size_t known_size, const void *given, const char *what,
                              kineto_error *err);
/** Does a struct that a caller passes have its size set? NULL is fine. For structs that are filled,
 *  and for functions that a caller offers, of which newer ones may have more. */
kineto_status kb_size_check(const void *given, const char *what, kineto_error *err);
#if defined(__clang_analyzer__) || defined(KB_ANALYZED) /* what analysers do not see: it never is KINETO_OK */
#define kb_fail(err, code, ...) (kb_fail(err, code, __VA_ARGS__), (code))
#define kb_fail_os(...)         (kb_fail_os(__VA_ARGS__), KINETO_E_IO)
#define kb_fail_memory(...)     (kb_fail_memory(__VA_ARGS__), KINETO_E_MEMORY)
#define kb_fail_first_null(...) (kb_fail_first_null(__VA_ARGS__), KINETO_E_ARGUMENT)
#endif

/* ---- kinds.c [rt]: kinds of activities and their names ----------------------------------------- */

/** One row of the kind table: every spelling of a kind that any tool uses. Append only: recordings
 *  store row numbers. */
typedef struct kb_kind_alias {
    const char *name;     /* lower case, as in ACTIVITY_TYPES and in a trace's "cat" */
    uint8_t kind;         /* neutral */
    int8_t plugin_number; /* in <ckineto/plugin.h>; -1 none */
    int8_t upstream_number; /* upstream libkineto's enum; -1 none */
} kb_kind_alias;
extern const kb_kind_alias kb_kind_aliases[];
extern const size_t kb_kind_alias_count;
/** Neutral kind of any spelling, case-insensitive; -1 if unknown. */
int kb_kind_parse(kineto_string name);
/** Row of a spelling, case-insensitive; -1 if unknown. */
int kb_kind_row(kineto_string name);
/** Neutral kind of a plug-in's number; -1 if unknown. */
int kb_kind_from_plugin(int32_t plugin_number);
/** kineto_kinds_parse. `own` returns the bits of a name that is not in the table; 0: unknown. */
kineto_status kb_kinds_parse(const char *list, uint64_t *mask, uint64_t (*own)(kineto_string name),
                             kineto_error *err);

/* ---- log.c [rt]: messages ----------------------------------------------------------------------
 * To stderr or the file of KINETO_LOG_FILE, never stdout; level from KINETO_LOG_LEVEL. */
void kb_log(kineto_log_level level, const char *fmt, ...) KINETO_PRINTF(2, 3);
/** Set by a command line; level < 0 and path NULL leave what is set. */
kineto_status kb_log_configure(int level, const char *path, kineto_error *err);
bool kb_log_enabled(kineto_log_level level);

/* ---- lock.c [rt] ---------------------------------------------------------------------------------
 * For slow paths: it knows its holder, so that a fork's child can take over what its parent held. */
typedef struct kb_lock {
    uint64_t owner; /* pid << 32 | tid; 0: free */
} kb_lock;
/** @param self  the caller: kb_os_self(). @return false: this thread holds it already. */
bool kb_lock_take(kb_lock *lock, uint64_t self);
/** The same, giving up after a time: where the holder may be waiting for the caller. */
bool kb_lock_take_within(kb_lock *lock, uint64_t self, uint32_t limit_ms);
void kb_lock_drop(kb_lock *lock);

/* ---- settings.c: every environment variable, from settings.def --------------------------------- */
/** Text of a setting, NULL when unset or empty (and always in a set-id program). */
const char *kb_setting(const char *name);
typedef struct kb_setting_row {
    const char *name, *values, *initial, *text;
} kb_setting_row;
const kb_setting_row *kb_settings(size_t *count);

/* ---- os_linux.c [rt]: the whole dependency on the system --------------------------------------- */
size_t kb_os_page_bytes(void);
uint32_t kb_os_pid(void);
uint32_t kb_os_tid(void);
/** The calling thread, as locks know it: pid << 32 | tid. */
static inline uint64_t kb_os_self(void) { return (uint64_t)kb_os_pid() << 32 | kb_os_tid(); }
/** getenv, but NULL in a program that runs with raised privileges. */
const char *kb_os_getenv(const char *name);
/** Field 22 of /proc/PID/stat; 0: no such process. */
uint64_t kb_os_start_time(uint32_t pid);
uint32_t kb_os_parent(uint32_t pid);
/** Processors that this process may run on; at least 1. */
uint32_t kb_os_cpus(void);
/** Is the process with this start time still there (not a zombie)? */
bool kb_os_alive(uint32_t pid, uint64_t start_time);
/** Is /proc mounted, and of this process's own pid namespace? Otherwise nothing about
 *  other processes can be read there, and kb_os_alive uses only their number. */
bool kb_os_proc_is_ours(void);
/** Identity of the program image: differs after each exec. */
uint64_t kb_os_exec_id(void);
/** The same of another process, from the 16 bytes that its AT_RANDOM points to. */
uint64_t kb_os_exec_id_from(const uint8_t random[16]);
/** Into buf (NUL-terminated, cut): the process' short name, command line, a thread's name, boot id,
 *  host name. Returns bytes written without the NUL, 0 if unknown. */
size_t kb_os_process_name(uint32_t pid, char *buf, size_t size);
size_t kb_os_command_line(uint32_t pid, char *buf, size_t size);
size_t kb_os_thread_name(uint32_t pid, uint32_t tid, char *buf, size_t size);
#define KB_OS_THREAD_NAME_BYTES 16u /* of a thread's name with its NUL; the system cuts longer ones */
/** Of the calling thread, without opening a file. */
size_t kb_os_own_thread_name(char buf[KB_OS_THREAD_NAME_BYTES]);
size_t kb_os_boot_id(char *buf, size_t size);
/** A number that cannot be guessed. */
uint64_t kb_os_random(void);
/** Is this the boot id of the running system? */
bool kb_os_is_this_boot(const char *boot_id, size_t size);
size_t kb_os_host_name(char *buf, size_t size);
/** Identity of the caller's pid namespace (device and inode); zeros if /proc cannot be read.
 *  Async-signal-safe. */
void kb_os_pid_namespace(uint64_t id[2]);
/** Read a small file whole; returns bytes, 0 on failure. NUL-terminates. */
size_t kb_os_read_file(const char *path, char *buf, size_t size);
/** Is this library file shorter than its headers state? It would be mapped past its end, and
 *  reading there would raise SIGBUS. Other errors are left to dlopen. */
bool kb_os_library_is_cut_off(const char *path);
/** Zeroed private pages (NULL on failure), and pages that a fork's child sees zeroed. */
void *kb_os_map(size_t bytes);
void *kb_os_map_wiped_on_fork(size_t bytes);
void kb_os_unmap(void *p, size_t bytes);
#define KB_HUGE_BYTES ((size_t)2 << 20)
/** Ask for large pages where they fit whole, in memory that was not written yet: a fault for
 *  each small one costs more than what is written into it. Returns `memory`; NULL is fine. */
void *kb_os_huge(void *memory, size_t bytes);
/** Shared memory: anonymous; or a new file (0600, O_EXCL, space reserved so that a full disk is an
 *  error here and not a SIGBUS later); or an existing file. */
void *kb_os_map_shared(size_t bytes, kineto_error *err);
void *kb_os_map_create(const char *path, size_t bytes, kineto_error *err);
void *kb_os_map_open(const char *path, size_t *bytes, kineto_error *err);
/** Does this kernel wipe pages on fork? If not, kb_os_map_wiped_on_fork gives ordinary pages. */
bool kb_os_wipe_supported(void);
/** May kb_os_barrier be used: a full memory barrier on every running thread of this process, so
 *  that the other side of a handshake needs none. */
bool kb_os_barrier_init(void);
void kb_os_barrier(void);
/** Make pages present and writable now; contents stay. */
void kb_os_prefault(void *p, size_t bytes);
/** The same descriptor, but none of the first three: a program may print to those. -1 with errno,
 *  also that of the caller for fd -1. */
int kb_os_clear_of_standard(int fd);
/** Make a file that must not exist; `flags` as of open. It has exactly this mode, whatever the
 *  umask is: for files that other processes of this user have to open. @return a descriptor, or -1
 *  with errno. */
int kb_os_create(int directory, const char *path, int flags, uint32_t mode);
/** mkdir and mkdtemp with exactly this mode, 0700. @return 0, or -1 with errno. */
int kb_os_make_own_directory(const char *path);
int kb_os_make_own_temporary(char *template);
/** mkdir -p: also those above it. Another process may make the same directories at the same time. */
kineto_status kb_os_make_directories(const char *directory, kineto_error *err);
/** A closed pipe and the file-size limit raise signals that kill by default (SIGPIPE, SIGXFSZ):
 *  between these two calls they are blocked for this thread. `raised`: a write failed, and the
 *  signal that it raised is consumed, unless one was pending before. Both preserve errno.
 *  @return the signal that was consumed; 0: none. */
typedef struct kb_quiet {
    sigset_t ours, before, pending;
} kb_quiet;
void kb_os_quiet_begin(kb_quiet *q);
int kb_os_quiet_end(const kb_quiet *q, bool raised);
/** One write(2) that never raises SIGPIPE or SIGXFSZ: its result, with errno set. */
ssize_t kb_os_write_quiet(int fd, const void *data, size_t bytes);
/** Reserve space of a file, so that a full disk is an error here and not a SIGBUS when it is
 *  mapped. Raises no SIGXFSZ. @return 0 or an errno. */
int kb_os_reserve(int fd, off_t offset, size_t bytes);

/* ---- thread.c ---------------------------------------------------------------------------------- */
/** Start one of the library's own threads. It blocks all signals, which are for the program's
 *  threads. @return 0 or an errno. */
int kb_thread_start(pthread_t *thread, void *(*run)(void *), void *argument);
/** CPU time of all such threads of this process and this copy of the library, ended ones too, in
 *  ns. */
uint64_t kb_threads_cpu_ns(void);

/* ---- clock.c [rt]: reading ------------------------------------------------------------------- */
typedef struct kb_clock_snapshot {
    uint64_t ticks; /* middle of the bracket */
    int64_t monotonic_ns, monotonic_raw_ns, realtime_ns, boottime_ns;
    uint64_t width_ticks; /* of the bracket: the uncertainty */
} kb_clock_snapshot;
enum kb_ticks_clock { KB_TICKS_TSC = 1, KB_TICKS_CNTVCT = 2, KB_TICKS_MONOTONIC_RAW = 3 };
/** Which clock the recorder uses on this machine (TSC only if invariant and the kernel's own). */
uint32_t kb_ticks_clock(void);
uint64_t kb_clock_ns(int clock_id);
/** Now, on CLOCK_MONOTONIC: for timeouts and durations. */
static inline uint64_t kb_monotonic_ns(void) { return kb_clock_ns(CLOCK_MONOTONIC); }
KB_INLINE uint64_t kb_ticks_hw(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    uint64_t t;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(t));
    return t;
#else
    return 0;
#endif
}
/** Read all clocks in a bracket of ticks, the tightest of several tries. */
void kb_clock_snapshot_take(uint32_t ticks_clock, kb_clock_snapshot *out);
uint64_t kb_ticks(uint32_t ticks_clock);

/* ---- ticks_to_ns.c: ticks → ns since the epoch ---------------------------------------------------- */
typedef struct kb_clock_fit {
    uint64_t ticks0;      /* origin */
    int64_t ns0;          /* Unix epoch ns at the origin */
    uint64_t mult;        /* ns per tick, 32.32 scaled by `shift` */
    uint32_t shift;
    double ns_per_tick;
    bool rate_is_rough;   /* of one moment of another boot */
    double residual_ns;   /* worst distance of a snapshot from the fit */
    int64_t realtime_step_ns; /* largest jump of CLOCK_REALTIME against the fit: it was set */
    int64_t realtime_minus_raw_ns, realtime_minus_monotonic_ns, realtime_minus_boottime_ns; /* at origin */
    int64_t slew_raw_ns, slew_monotonic_ns; /* a span of MONOTONIC, and its ns of MONOTONIC_RAW */
} kb_clock_fit;
/** Fit count >= 1 snapshots in time order: rate from MONOTONIC_RAW, one epoch constant. Snapshots
 *  that are too close together are compared with now, so they have to be of this machine. */
kineto_status kb_clock_fit_make(const kb_clock_snapshot *snapshots, size_t count,
                                kb_clock_fit *fit, kineto_error *err);
/** The same for snapshots of any machine and time, without comparing them with now. */
kineto_status kb_clock_fit_again(const kb_clock_snapshot *snapshots, size_t count,
                                 kb_clock_fit *fit);
/** Exact integer conversion; monotone. */
int64_t kb_clock_fit_any_ns(const kb_clock_fit *fit, uint64_t ticks);
/** The same, the usual case in place: rates up to 8 GHz, from the origin on. */
KB_INLINE int64_t kb_clock_fit_ns(const kb_clock_fit *fit, uint64_t ticks)
{
    __extension__ typedef unsigned __int128 wide;
    uint64_t since = ticks - fit->ticks0;
    uint32_t shift = fit->shift - 1;
    if (KINETO_UNLIKELY(since >> 62 != 0 || fit->ns0 >> 62 != 0 || shift > 63))
        return kb_clock_fit_any_ns(fit, ticks);
    wide ns = ((wide)since * fit->mult + (UINT64_C(1) << shift)) >> (shift & 63) >> 1;
    return KINETO_LIKELY(ns >> 62 == 0) ? fit->ns0 + (int64_t)(uint64_t)ns
                                        : kb_clock_fit_any_ns(fit, ticks);
}
/** MONOTONIC, MONOTONIC_RAW, BOOTTIME or REALTIME (CLOCK_… ids) ns → Unix epoch ns on the same
 *  line: the slew of the time daemon between the first and last snapshot is reversed. */
int64_t kb_clock_fit_from_clock(const kb_clock_fit *fit, int clock_id, int64_t ns);

/* ---- allocation.c: growing arrays, and memory that is freed in one call ------------------------- */
/** A growing array. kb_vec_push(&v, item) → false when out of memory. */
#define KB_VEC(type) struct { type *data; size_t count, capacity; }
bool kb_vec_grow(void **data, size_t *capacity, size_t need, size_t item_bytes);
/** malloc and calloc for arrays that may be large: those get large pages. Freed by free. */
void *kb_array(size_t count, size_t item_bytes);
void *kb_array_zeroed(size_t count, size_t item_bytes);
#define kb_vec_reserve(v, n)                                                                       \
    ((n) <= (v)->capacity ||                                                                       \
     kb_vec_grow((void **)&(v)->data, &(v)->capacity, (n), sizeof(*(v)->data)))
#define kb_vec_push(v, ...)                                                                        \
    (kb_vec_reserve((v), (v)->count + 1) ? ((v)->data[(v)->count++] = (__VA_ARGS__), true) : false)
#define kb_vec_free(v) (free((v)->data), (v)->data = NULL, (v)->count = (v)->capacity = 0)

/** Memory that is freed in one call. */
typedef struct kb_arena {
    struct kb_arena_block *head;
    size_t used_bytes, next_block_bytes;
} kb_arena;
void *kb_arena_alloc(kb_arena *a, size_t bytes, size_t align); /* NULL: out of memory */
char *kb_arena_copy(kb_arena *a, const void *data, size_t bytes); /* NUL-terminated copy */
void kb_arena_free(kb_arena *a);

/** For qsort; NaN compares equal to everything. */
static inline int kb_compare_doubles(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return a < b ? -1 : a > b;
}
static inline int kb_compare_int64(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return a < b ? -1 : a > b;
}

/* ---- map.c: uint64 → uint64 hash table -------------------------------------------------------- */
typedef struct kb_map {
    struct kb_map_slot *slots;
    size_t capacity, count;
} kb_map;
/** Value of key, or NULL. */
uint64_t *kb_map_find(const kb_map *m, uint64_t key);
/** Value of key, created as `initial` if absent; NULL: out of memory. *created may be NULL. */
uint64_t *kb_map_insert(kb_map *m, uint64_t key, uint64_t initial, bool *created);
void kb_map_free(kb_map *m);
uint64_t kb_hash(const void *data, size_t bytes); /* stable across runs and machines */
uint64_t kb_hash_seeded(uint64_t seed, const void *data, size_t bytes);
/** A random number of the process, for tables whose keys come from untrusted files, so that a file
 *  cannot be made to collide. The order of such a table must never be visible. */
uint64_t kb_hash_secret(void);

/* ---- siphash.c: a keyed hash that cannot be inverted without the key ------------------------- */
uint64_t kb_siphash(const uint64_t key[2], const void *data, size_t bytes);

/* ---- intern.c: bytes → dense ids from 0 ------------------------------------------------------- */
typedef struct kb_intern {
    kb_arena arena;
    KB_VEC(kineto_string) strings; /* by id */
    uint64_t *table;               /* half a hash:32 | id + 1:32, or 0 */
    size_t table_size;
} kb_intern;
#define KB_INTERN_NONE UINT32_MAX
/** Id of the bytes; KB_INTERN_NONE when out of memory. Id 0 is always "". */
uint32_t kb_intern_id(kb_intern *in, kineto_string s);
static inline kineto_string kb_intern_get(const kb_intern *in, uint32_t id)
{
    return id < in->strings.count ? in->strings.data[id] : (kineto_string){"", 0};
}
void kb_intern_free(kb_intern *in);

/* ---- utf8.c ------------------------------------------------------------------------------------ */
/** Bytes of the longest prefix that is valid UTF-8 (no surrogates, no overlong forms). */
size_t kb_utf8_valid_prefix(const char *s, size_t bytes);
/** Bytes of the valid sequence at s; 0 if there is none. */
size_t kb_utf8_length(const char *s, size_t bytes);
/** Bytes to skip at an invalid position: the maximal subpart that one U+FFFD replaces (Unicode
 *  3.9, as Python's errors="replace" does). */
size_t kb_utf8_bad_length(const char *s, size_t bytes);
/** The next piece of a text for writers of UTF-8: the valid prefix, or U+FFFD for an invalid part,
 *  counted in *replaced (may be NULL). Empty at the end. */
kineto_string kb_utf8_next(kineto_string *rest, uint64_t *replaced);
/** The longest prefix of at most `most` bytes that does not end within a character. */
kineto_string kb_utf8_cut(kineto_string s, size_t most);
/** The whole text that way, into at least 3 * size bytes; returns the end. */
char *kb_utf8_clean(char *out, kineto_string s, uint64_t *replaced);
/** Pass a text to `put`, escaped for XML and HTML between tags or in quotes: `&<>"` as entities;
 *  invalid UTF-8, U+FFFE and U+FFFF as U+FFFD; control characters, which XML forbids, as '?'. */
void kb_xml_put(kineto_string text, void (*put)(void *to, const char *bytes, size_t size), void *to);

/* ---- c_locale.c: numbers as text, independent of the locale --------------------------------------- */
/** strtod, vsnprintf and snprintf with a decimal point, also where the program's locale has a
 *  comma: the contents of files must not depend on the program that writes or reads
 *  them. */
double kb_strtod(const char *text, char **end);
int kb_vsnprintf(char *text, size_t size, const char *fmt, va_list args) KINETO_PRINTF(3, 0);
int kb_snprintf(char *text, size_t size, const char *fmt, ...) KINETO_PRINTF(3, 4);
/** "<built-in method split of re.Pattern object at 0x7f2a>" without the address, in the buffer; other names, and those
 *  that do not fit, as they are. */
kineto_string kb_drop_address(kineto_string name, char *buffer, size_t size);
typedef struct kb_text {
    char s[64];
} kb_text;
kb_text kb_duration(int64_t ns); /* "1.234 ms", "2.500 days" */
kb_text kb_bytes(uint64_t bytes); /* "1.5 MB": powers of 1000 */
kb_text kb_short_duration(int64_t ns); /* four digits: "1.234 ms", "176.3 ms" */

/* ---- sink.c, sink_file.c, compress.c: where bytes go; errors stick and reach the caller ----------- */
/* The free part of the buffer; the rest is private to sink.c. */
typedef struct kb_sink {
    char *at, *end;
} kb_sink;
typedef enum kb_compression { KB_COMPRESS_NONE, KB_COMPRESS_GZIP, KB_COMPRESS_ZSTD } kb_compression;
/** By file name: .gz, .zst, else none. */
kb_compression kb_compression_of(const char *path);
/** A file that appears whole or not at all: written under a temporary name, fsynced, renamed at
 *  close. Follows no symlink in its own temporary name; keeps an existing file until the rename.
 *  "-" is stdout; a FIFO or device is written directly. */
kineto_status kb_sink_open_file(const char *path, kb_compression c, kb_sink **out,
                                kineto_error *err);
/** The same for files that can be made again, and whose readers see whether they are whole: without waiting for the
 *  disk, so that after a crash of the machine the file may be empty. */
kineto_status kb_sink_open_remakeable_file(const char *path, kb_sink **out, kineto_error *err);
/** The same relative to a directory, without following any link: an existing entry of that name is
 *  replaced. The descriptor, which may be O_PATH, is copied.
 *  @param name   without "/".
 *  @param shown  the path for messages.
 *  @param mode   of the new file: 0600. */
kineto_status kb_sink_open_file_at(int directory, const char *name, const char *shown, mode_t mode,
                                   kb_compression c, kb_sink **out, kineto_error *err);
/** Grows in memory; take the bytes with kb_sink_take before close. */
kineto_status kb_sink_open_memory(kb_compression c, kb_sink **out, kineto_error *err);
/** Counts bytes and discards them. */
kineto_status kb_sink_open_discard(kb_sink **out, kineto_error *err);
#define KB_SINK_RESERVE_BYTES 65536u /* most that can be reserved at once */
void kb_sink_write_slow(kb_sink *s, const void *data, size_t bytes);
char *kb_sink_flush(kb_sink *s); /* empties the buffer; returns where it begins */
/** Buffered write. After the first failure everything is ignored; close reports it. */
KB_INLINE void kb_sink_write(kb_sink *s, const void *data, size_t bytes)
{
    if (KINETO_UNLIKELY(bytes > (size_t)(s->end - s->at))) {
        kb_sink_write_slow(s, data, bytes);
        return;
    }
    if (bytes > 0) /* NULL has no bytes to copy, and may not be passed to memcpy */
        memcpy(s->at, data, bytes);
    s->at += bytes;
}
KB_INLINE void kb_sink_write_z(kb_sink *s, const char *text)
{
    kb_sink_write(s, text, strlen(text));
}
/** The same, escaped as by kb_xml_put. */
void kb_sink_write_xml(kb_sink *s, kineto_string text);
/** At least `bytes` (<= KB_SINK_RESERVE_BYTES) of contiguous room in the buffer; write there, then
 *  advance. Never NULL, also after a failure. */
KB_INLINE char *kb_sink_reserve(kb_sink *s, size_t bytes)
{
    return KINETO_LIKELY(bytes <= (size_t)(s->end - s->at)) ? s->at : kb_sink_flush(s);
}
KB_INLINE void kb_sink_advance(kb_sink *s, size_t bytes) { s->at += bytes; }
/** Make the sink fail as if writing had failed: for errors of the writer itself. */
void kb_sink_fail(kb_sink *s, kineto_status code, const char *fmt, ...) KINETO_PRINTF(3, 4);
uint64_t kb_sink_bytes(const kb_sink *s); /* uncompressed bytes so far */
bool kb_sink_failed(const kb_sink *s);
/** Memory sinks: flush and return the bytes, NUL-terminated; the caller frees. */
kineto_status kb_sink_take(kb_sink *s, char **data, size_t *bytes, kineto_error *err);
/** Flush, finish, rename; frees the sink in any case. On any failure the final name is untouched
 *  and the temporary file is gone. */
kineto_status kb_sink_close(kb_sink *s, kineto_error *err);
/** The same; @param written  receives the bytes that left the sink, after compression. */
kineto_status kb_sink_close_counted(kb_sink *s, uint64_t *written, kineto_error *err);
/** Discard the output: the file does not appear. */
void kb_sink_abort(kb_sink *s);

/** compress_block.c: single blocks, each of which becomes a zstd frame. One thread at a time.
 *  kb_has_block_compressor is false where this was built without zstd; then open returns NULL. */
typedef struct kb_block_compressor kb_block_compressor;
bool kb_has_block_compressor(void);
kb_block_compressor *kb_block_compressor_open(void); /* NULL: out of memory, or no zstd */
/** Room for the frame of a block of `bytes`. */
size_t kb_block_bound(size_t bytes);
/** The bytes of the frame in `out`; 0: it failed. */
size_t kb_block_compress(kb_block_compressor *c, char *out, size_t room, const char *data, size_t bytes);
void kb_block_compressor_close(kb_block_compressor *c); /* NULL is fine */

/* For writers that need a file of their own, as databases do: the same as a file sink, but the
 * caller writes to the path of the temporary file, which is there and empty. */
typedef struct kb_atomic_file kb_atomic_file;
/** @return KINETO_E_UNSUPPORTED if it is not a regular file. */
kineto_status kb_atomic_file_open(const char *path, kb_atomic_file **out, kineto_error *err);
const char *kb_atomic_file_path(const kb_atomic_file *beside);
/** Sync, and rename to the final name. Frees in any case; on failure nothing remains. */
kineto_status kb_atomic_file_commit(kb_atomic_file *beside, kineto_error *err);
void kb_atomic_file_abort(kb_atomic_file *beside);

/* ---- json.c, json_number.c, json_escape.c: the one JSON writer ------------------------------------ */
typedef struct kb_json {
    kb_sink *sink;
    uint64_t replaced_bytes; /* invalid UTF-8 sequences that became U+FFFD */
    uint32_t depth;
    uint8_t state[65]; /* per depth: has items, after key, … */
} kb_json;
void kb_json_init(kb_json *j, kb_sink *sink);
void kb_json_object_begin(kb_json *j);
void kb_json_object_end(kb_json *j);
/** Begin the object of a whole document: its first member is "schema", such as "ckineto.info/1". Each schema is
 *  published as docs/NAME.schema.json. */
void kb_json_document_begin(kb_json *j, const char *schema);
void kb_json_array_begin(kb_json *j);
void kb_json_array_end(kb_json *j);
void kb_json_key(kb_json *j, kineto_string key);
void kb_json_key_z(kb_json *j, const char *key);
void kb_json_string(kb_json *j, kineto_string s);
void kb_json_string_z(kb_json *j, const char *s);
void kb_json_int(kb_json *j, int64_t v);
void kb_json_uint(kb_json *j, uint64_t v);
/** Shortest text that reads back as the same double; NaN and infinities become the strings "nan",
 *  "inf", "-inf". */
void kb_json_double(kb_json *j, double v);
/** Nanoseconds as microseconds, see kb_json_format_us. */
void kb_json_us(kb_json *j, int64_t ns);
void kb_json_bool(kb_json *j, bool v);
void kb_json_null(kb_json *j);
/** Verbatim text that is already one valid JSON value. */
void kb_json_raw(kb_json *j, kineto_string value);
/** A key and its value in one call. */
void kb_json_put_int(kb_json *j, const char *key, int64_t value);
void kb_json_put_uint(kb_json *j, const char *key, uint64_t value);
void kb_json_put_double(kb_json *j, const char *key, double value);
void kb_json_put_us(kb_json *j, const char *key, int64_t ns);
void kb_json_put_bool(kb_json *j, const char *key, bool value);
void kb_json_put_string(kb_json *j, const char *key, kineto_string value);
/** Line break between items, for readability; never inside a value. */
void kb_json_newline(kb_json *j);

/* For writers that assemble events by hand, at full speed: */
/** Escaped bytes with quotes, appended to a buffer of at least 6 * size + 2; returns the end. */
char *kb_json_escape(char *out, kineto_string s, uint64_t *replaced);
/** The same without quotes, into at least 6 * size bytes. */
char *kb_json_escape_body(char *out, kineto_string s, uint64_t *replaced);
char *kb_json_format_uint(char *out, uint64_t v); /* at most 20 bytes */
char *kb_json_format_int(char *out, int64_t v);   /* at most 20 bytes */
char *kb_json_format_double(char *out, double v); /* at most 32 bytes */
/** Nanoseconds as microseconds with three decimals: 1234567 → 1234.567; at most 24 bytes. */
char *kb_json_format_us(char *out, int64_t ns);
/* ---- json_check.c ---------------------------------------------------------------------------------- */
/** Is the text exactly one valid JSON value (RFC 8259, depth <= 128, valid UTF-8)? */
bool kb_json_valid(kineto_string text);
#endif
