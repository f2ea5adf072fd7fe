/* The command: a table of verbs, options from tables, and what verbs share. */
#ifndef KC_CLI_H
#define KC_CLI_H

#include "base/base.h"
#include <ckineto/trace.h>

#include <stdio.h>
#include <sys/types.h>

/* `record` passes the program's status, so its own failures have the numbers that env(1) uses. */
enum {
    KC_EXIT_FAILURE = 1, /* what was asked is so not: a gate, a trace that is not sound, an output not written */
    KC_EXIT_USAGE = 2,   /* it could not be asked: a mistake on the command line, a trace that cannot be read */
    KC_EXIT_OWN_FAILURE = 125,
    KC_EXIT_NOT_EXECUTABLE = 126,
    KC_EXIT_NOT_FOUND = 127
};

/* ---- opt.c --------------------------------------------------------------------------------------- */
typedef enum kc_option_type {
    KC_FLAG,
    KC_TEXT,
    KC_TEXTS,
    KC_NUMBER,
    KC_SIZE,
    KC_TS_UNIT,       /* ns, us, ms or s: the unit in ns */
    KC_OPTIONAL_SIZE, /* --name or --name=SIZE */
    KC_OPTIONAL_TEXT  /* --name or --name=TEXT */
} kc_option_type;

/* What an option that may be repeated was given, in order. */
typedef struct kc_texts {
    const char *data[64];
    size_t count;
} kc_texts;

/* An option that may be given alone: then `bytes` stays what it is. */
typedef struct kc_optional_size {
    bool given;
    uint64_t bytes;
} kc_optional_size;

typedef struct kc_optional_text {
    bool given;
    const char *text; /* NULL: alone */
} kc_optional_text;

/* One option: parsed into *value (bool, const char *, kc_texts, kc_optional_…; uint64_t
 * for numbers, and for sizes in bytes, with K, M or G behind them), and a line of the
 * help. */
typedef struct kc_option {
    const char *name; /* without the dashes */
    char letter;      /* 0: none */
    kc_option_type type;
    void *value;
    const char *argument; /* what the help calls it */
    const char *help;
} kc_option;

typedef struct kc_options {
    const char *verb, *usage, *about; /* usage: what follows "ckineto VERB" */
    const kc_option *list;
    size_t count;
    bool stop_at_operand; /* the rest is another program's command line */
} kc_options;

/** Parse argv[1..]; operands are moved to the front of argv+1.
 *  @param operands  receives how many there are.
 *  @return KINETO_OK; KINETO_E_NOT_FOUND after --help was answered; KINETO_E_ARGUMENT after the
 *          mistake was explained on stderr. */
kineto_status kc_parse(const kc_options *options, int argc, char **argv, int *operands);
/** Was the option with this value (kc_option.value) on the command line, with whatever number or text? */
bool kc_given(const void *value);
/** Where --help takes a verb's table instead of printing it; NULL: nowhere. */
extern void (*kc_help_taken_by)(const kc_options *options);
/** "ckineto VERB: message" and where to look, on stderr; returns KINETO_E_ARGUMENT. */
kineto_status kc_usage_error(const char *verb, const char *fmt, ...) KINETO_PRINTF(2, 3);
#if defined(__clang_analyzer__) || defined(KB_ANALYZED)
#define kc_usage_error(...) (kc_usage_error(__VA_ARGS__), KINETO_E_ARGUMENT)
#endif
/** "ckineto: message" on stderr. */
void kc_complain(const char *fmt, ...) KINETO_PRINTF(1, 2);
/** "ckineto: verb: what went wrong"; not that whoever read our output has seen enough. */
void kc_complain_of(const char *verb, const kineto_error *err);

/* ---- main.c: the table of verbs, which cmd_completion.c tells shells -------------------------------- */
typedef struct kc_verb {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *about; /* NULL: not in the list */
} kc_verb;
int kc_completion(int argc, char **argv, const kc_verb *verbs, size_t count);

/* ---- text.c: for human eyes ------------------------------------------------------------------------ */
kb_text kc_bytes(uint64_t bytes);
kb_text kc_count(uint64_t n); /* 20,222 */
/** "none", "5", or "an unknown number" if the end of the file is missing. */
kb_text kc_lost_words(uint64_t lost, bool is_cut);
kb_text kc_moment(int64_t ns); /* "2026-05-04 13:02:01 UTC"; empty: the calendar ends before */
/** The word that fits the number. */
const char *kc_noun(uint64_t count, const char *one, const char *many);
/** Name of other people's making: no control bytes, cut or padded to `columns` (0: as it is). */
void kc_put_name(FILE *out, kineto_string name, size_t columns);
/** A text with names of files in it, which strangers choose: lines and tabs stay, what would drive the
 *  terminal or change how a line reads is written as \xNN. */
void kc_put_text(FILE *out, const char *text);
void kc_print(FILE *out, const char *fmt, ...) KINETO_PRINTF(2, 3);
/** Columns of the terminal that this is; 0: it is none, or does not tell. */
size_t kc_terminal_columns(FILE *out);
/** A path behind `used` columns of one line of a terminal: of a long one the end. */
void kc_put_path(FILE *out, const char *path, size_t used);
/** Bytes of the character at `at`; 0 where it must not reach a terminal as it is. */
size_t kc_printable(kineto_string s, size_t at);
/** Columns that such a character takes, near enough. */
size_t kc_columns(const char *character, size_t size);
/** Close enough to be a typing mistake? */
size_t kc_distance(const char *a, const char *b);
/** A JSON value and the end of a line, to a file, or to stdout. */
typedef void kc_json_writer(kb_json *j, const void *what);
kineto_status kc_save_json(const char *path, kc_json_writer *put, const void *what,
                           kineto_error *err);
kineto_status kc_put_json(kc_json_writer *put, const void *what, kineto_error *err);
/** For how a verb ended that reads traces; `is_read`: it could, so what failed came later. */
int kc_exit_of(kineto_status status, bool is_read);
/** Flush stdout; a closed pipe is no news, a full disk is. @return the exit status. */
int kc_finish_stdout(const char *verb, int status);

/* ---- summary.c: what is in a trace, in short --------------------------------------------------------- */
#define KC_TOP 10u

typedef struct kc_stat {
    uint32_t name_id;
    uint64_t count;
    int64_t total_ns, min_ns, max_ns;
} kc_stat;
typedef KB_VEC(kc_stat) kc_stat_list;
typedef struct kc_device {
    uint32_t process;
    uint64_t count; /* kernels, copies and memsets: what analyses count as work of devices */
    int64_t busy_ns, busy_until_ns;
    int64_t from_ns, to_ns; /* what it is busy in: its trace's window and all work of it */
} kc_device;
/* A category that is no spelling of a kind: a plug-in's own, or another tool's. */
typedef struct kc_category {
    uint32_t name_id;
    uint64_t count;
} kc_category;
typedef struct kc_summary {
    int64_t start_ns, end_ns;  /* window */
    int64_t first_ns, last_ns; /* of that and all activities: some reach over it */
    uint64_t activities, steps, kinds[KINETO_KIND_COUNT + 1], flows[8], dangling_flows;
    kc_stat_list host, kernels, other_device; /* longest total first */
    kc_stat_list python; /* the same; times without what a function calls */
    KB_VEC(kc_device) devices;
    KB_VEC(kc_category) categories;
} kc_summary;
/** Times come from files: sums and lengths end at what a number holds. */
static inline int64_t kc_sum_ns(int64_t a, int64_t b)
{
    int64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

kineto_status kc_summary_make(const kineto_trace *trace, kc_summary *out, kineto_error *err);
/** The mean, rounded to the nearest nanosecond. */
int64_t kc_mean_ns(const kc_stat *s);
void kc_summary_free(kc_summary *s);
/** The part that `record` shows: window, devices, top tables, ledger. */
void kc_summary_print(const kc_summary *s, const kineto_trace *trace, FILE *out);
/** Its tables and devices only. */
void kc_summary_tables(const kc_summary *s, const kineto_trace *trace, FILE *out);
/** Ledger lines; only those that tell of losses or trouble unless `all`. */
void kc_ledger_print(const kineto_trace *trace, bool all, FILE *out);
/** The same if events, or those of processes, are missing; else nothing. */
void kc_losses_print(const kineto_trace *trace, FILE *out);
/** "device 0 python (GPU 0), rank 1". */
void kc_put_process(FILE *out, const kineto_trace *trace, uint32_t process);
double kc_busy_percent(const kc_device *device);

/* ---- counters.c: what was sampled --------------------------------------------------------------------- */
/* One series of one counter of one process or device. */
typedef struct kc_counter {
    uint32_t process, name_id;
    size_t number;                   /* as they came */
    kineto_string key, series, unit; /* key "power [W]": series "power", unit "W" */
    uint64_t samples;                /* those that are numbers */
    double min, max, mean, last;     /* of the finite ones */
    uint64_t finite;
} kc_counter;
typedef struct kc_counters {
    KB_VEC(kc_counter) list; /* by process, then by number */
    kb_map by_key;
    kb_arena keys;
} kc_counters;
kineto_status kc_counters_make(const kineto_trace *trace, kc_counters *out, kineto_error *err);
void kc_counters_free(kc_counters *c);
void kc_counters_print(const kc_counters *c, const kineto_trace *trace, FILE *out);
void kc_counters_json(const kc_counters *c, const kineto_trace *trace, kb_json *j);

/* ---- memory.c: what was allocated ---------------------------------------------------------------------- */
/* The memory of one device (or the CPU's), as one process used it. Estimates are what the events
 * stand for, if they are a sample; else the same as the sums. */
typedef struct kc_memory_place {
    uint32_t process;
    int64_t device_type, device; /* PyTorch's numbers; -1: the only one */
    uint64_t allocations, releases, largest_bytes;
    double allocated_bytes, released_bytes;
    double allocations_estimate, allocated_bytes_estimate;
    double releases_estimate, released_bytes_estimate;
    bool has_totals;
    int64_t peak_bytes, last_total_bytes;
} kc_memory_place;
typedef struct kc_memory {
    KB_VEC(kc_memory_place) places; /* as they came */
    kb_map by_key;
    uint64_t sampling_bytes; /* 0 or 1: not sampled */
} kc_memory;
kineto_status kc_memory_make(const kineto_trace *trace, kc_memory *out, kineto_error *err);
void kc_memory_free(kc_memory *m);
void kc_memory_print(const kc_memory *m, const kineto_trace *trace, FILE *out);
void kc_memory_json(const kc_memory *m, const kineto_trace *trace, kb_json *j);

/* ---- places.c: where our own files are ----------------------------------------------------------------- */
/** Absolute path of a plug-in by file name. */
bool kc_find_plugin(const char *file, char *buf, size_t size);
/** Absolute path of libckineto-rt.so. */
bool kc_find_rt(char *buf, size_t size);
/** The directory of plug-ins that others installed, whether or not it is there. */
bool kc_plugins_directory(char *buf, size_t size);

/* ---- enter.c: how recording gets into a program ---------------------------------------------------------- */
typedef enum kc_shape { KC_LIST, KC_SLOT } kc_shape;
typedef struct kc_interface {
    const char *source, *variable, *plugin;
    kc_shape shape; /* LIST: ours is appended; SLOT: a first owner keeps it */
    char separator;
} kc_interface;
extern const kc_interface kc_interfaces[];
extern const size_t kc_interface_count;

typedef struct kc_entry_options {
    const char *pool_path, *log_file;
    int log_level; /* < 0: leave */
    bool preload;
    bool python;           /* Python programs import our package: PyTorch's operators, modules */
    bool python_functions; /* and record functions of Python */
    bool memory;           /* the allocator hook */
    uint64_t memory_bytes; /* mean bytes between its samples */
    const char
        *plugins; /* what the program is to load: "path" or "path,rev=…" in lines; "": none */
    bool plugins_required; /* the user named them: if they cannot get in, that is an error */
} kc_entry_options;
#define KC_NO_PYTHON "ckineto's Python package" /* in the ledger */
/** Tells of what could not be entered. */
typedef void kc_entry_note(void *context, const char *source, const char *reason,
                           const char *detail);
/** Set the environment that the program will inherit. */
kineto_status kc_enter(const kc_entry_options *options, kc_entry_note *note, void *context,
                       kineto_error *err);

/* ---- child.c: running the program ------------------------------------------------------------------------ */
typedef struct kc_child {
    pid_t pid;
    int status; /* as from waitpid, when done */
    bool done;
    bool with_children; /* set before: it is done when all that it started is */
    bool ended;         /* the program itself has */
    void (*ending)(void *context, pid_t pid); /* it has ended, its times can still be asked for */
    void *context;
} kc_child;
/** From here on the recorder lives through what ends its program. */
void kc_signals_prepare(void);
/** @return KINETO_OK; else err->os_error tells why exec failed. */
kineto_status kc_child_start(char **argv, kc_child *child, kineto_error *err);
/** Wait at most `ns`, passing on what was sent to us. */
void kc_child_wait(kc_child *child, uint64_t ns);
/** For loops that wait for more than that: a descriptor that is readable when kc_child_look has
 * something to do. @return -1 with the reason. */
int kc_child_signals(kineto_error *err);
void kc_child_look(kc_child *child, int signals);
/** "the program was killed by signal 11 (…)", "… ended with status 1", "the program ended". */
#define KC_CHILD_END_BYTES 128u
void kc_child_describe_end(const kc_child *child, char text[KC_CHILD_END_BYTES]);
/** As a shell tells it: 0..255, 128 + signal. */
int kc_child_exit_status(const kc_child *child);

/* ---- verbs -------------------------------------------------------------------------------------------------- */
int kc_record(int argc, char **argv);
int kc_info(int argc, char **argv);
int kc_verify(int argc, char **argv);
int kc_convert(int argc, char **argv);
int kc_export(int argc, char **argv);
int kc_doctor(int argc, char **argv);
int kc_recover(int argc, char **argv);
int kc_repair(int argc, char **argv);
int kc_plugin(int argc, char **argv);
int kc_slice(int argc, char **argv);
int kc_scrub(int argc, char **argv);
int kc_sql(int argc, char **argv);
int kc_table(int argc, char **argv);
int kc_report(int argc, char **argv);
int kc_view(int argc, char **argv);
int kc_analyze(int argc, char **argv);
int kc_diff_verb(int argc, char **argv);
int kc_daemon(int argc, char **argv);
int kc_ps(int argc, char **argv);
int kc_trigger(int argc, char **argv);
/** `ckineto plugin check`: argv[0] is "check". */
int kc_plugin_check(int argc, char **argv);
#endif
