/* Requests for traces: the text that dyno, unitrace or `ckineto trigger` sends, and configuration
 * files. Both are parsed with one table of keys (request_keys.def), which
 * docs/reference/requests.md is generated from. Also the configuration file (config_file.c) and the
 * paths that requests may write to (output_path.c). Nothing here has global state; all functions
 * may be called by any thread. */
#ifndef KO_REQUEST_H
#define KO_REQUEST_H

#include "base/base.h"

#define KO_REQUEST_ID_BYTES     128u
#define KO_REQUEST_PATH_BYTES   1024u
#define KO_REQUEST_CUSTOM_BYTES 1024u
#define KO_REQUEST_TEXT_BYTES   (1u << 20) /* longer texts are refused */

/* Numbers that were not given are -1, texts empty; ko_request_complete fills in the defaults. */
typedef struct ko_request {
    bool enabled;   /* ACTIVITIES_ENABLED; on as soon as a key asks for a trace */
    uint64_t kinds; /* ACTIVITY_TYPES; mask of KINETO_KIND_BIT; 0: the usual */
    char log_file[KO_REQUEST_PATH_BYTES];
    int64_t duration_ns; /* ACTIVITIES_DURATION_SECS and _MSECS; the last one counts */
    int64_t iterations;  /* ACTIVITIES_ITERATIONS; with them duration_ns stays -1 if not given */
    int64_t warmup_ns, warmup_iterations;
    int64_t start_time_ns; /* PROFILE_START_TIME, ns since 1970; 0: as soon as may be */
    int64_t start_iteration, start_iteration_roundup;
    int64_t max_buffer_bytes; /* ACTIVITIES_MAX_GPU_BUFFER_SIZE_MB */
    bool record_shapes, profile_memory, with_stack, with_flops, with_modules;
    bool memory_snapshot; /* PROFILE_MEMORY */
    int64_t memory_snapshot_ns;
    char trace_id[KO_REQUEST_ID_BYTES], group_id[KO_REQUEST_ID_BYTES];
    char custom[KO_REQUEST_CUSTOM_BYTES]; /* CUSTOM_CONFIG, and keys of sources: for plug-ins; each
                                             is a line KEY=VALUE with its end */
    /* Of configuration files only: */
    int64_t poll_interval_ns; /* ON_DEMAND_CONFIG_UPDATE_INTERVAL_SECS */
    int32_t use_daemon;       /* ENABLE_IPC_FABRIC: 0, 1 or -1 */
    int32_t log_level;        /* VERBOSE_LOG_LEVEL */
    uint64_t given;           /* bits of keys, by their row in the table */
} ko_request;

/** Where a text comes from, which determines what it may contain. */
typedef enum ko_request_source {
    KO_FROM_FILE = 0,    /* KINETO_CONFIG, /etc/libkineto.conf */
    KO_FROM_REQUEST = 1, /* another process: log files only where they are allowed */
    KO_FROM_ARGUMENT = 2 /* the program itself, or a command line */
} ko_request_source;

/** No key given. */
void ko_request_init(ko_request *r);
/** Parse a text into `r`: its keys replace those of `r`. All or nothing: on failure `r` is
 *  unchanged. Unknown keys are allowed: they are counted, and the first one is named in *unknown.
 *  Lines are KEY=VALUE; # begins a comment; a value in double quotes may hold =, # and spaces, with
 *  \" and \\ in it. Without quotes a value may hold =, too, where libkineto would refuse the line.
 *  @return KINETO_E_ARGUMENT with the number of the line, the key and what it wants instead;
 *           KINETO_E_LIMIT for texts that are too long. */
kineto_status ko_request_parse(ko_request *r, kineto_string text, ko_request_source source,
                               kb_text *unknown, uint32_t *unknown_count, kineto_error *err);
/** Check for contradictions (durations, iterations, start times more than 10 s before now_ns) and
 *  fill in the defaults of keys that were not given.
 *  @param now_ns  ns since 1970. */
kineto_status ko_request_complete(ko_request *r, int64_t now_ns, kineto_error *err);
/** Precedence: a request over a file, an argument over both. */
void ko_request_layer(ko_request *over, const ko_request *under);

/** One key, for help and documentation. */
typedef struct ko_request_key {
    const char *name, *alias, *values, *initial, *text;
    bool file_only; /* means nothing in a request */
} ko_request_key;
const ko_request_key *ko_request_keys(size_t *count);
/** Copy text from outside for a message: valid UTF-8 without control characters, "…" where it is
 *  truncated, NUL-terminated. @param size  of `out`, at least 8. */
void ko_request_show(kineto_string text, char *out, size_t size);

/* ---- config_file.c --------------------------------------------------------------------------- */
/** The configuration file of this process, read anew when it changed. */
typedef struct ko_config_file {
    char path[KO_REQUEST_PATH_BYTES]; /* of KINETO_CONFIG, else /etc/libkineto.conf */
    int64_t changed_ns;               /* when it was written, -1: it was not there */
    uint64_t size, inode;
    uint64_t text_hash;
    /* Modified just before it was read: with a coarse time stamp, the next change may not show. */
    bool young;
} ko_config_file;
void ko_config_file_init(ko_config_file *f);
/** @param changed  receives whether the text differs from last time; `r` then holds its keys, or is
 *                  as after ko_request_init if the file is gone.
 *  @return errors of reading and of ko_request_parse, with the path; `r` is unchanged then. */
kineto_status ko_config_file_load(ko_config_file *f, ko_request *r, bool *changed,
                                  kineto_error *err);

/* ---- output_path.c: where a request may write ------------------------------------------------ */
/** Offset in a file's name (without directories) at which the pid is inserted. */
size_t ko_request_output_pid_place(const char *name);
/** The path of this process' trace: what was asked for, with its pid put in as Kineto does (before
 *  the first ".pt.trace.json", else the first ".json", else before the ending that says its format,
 *  else at the end, so that no two processes share a file), or a default. From a request only
 *  beneath the allowed directory (KINETO_ONDEMAND_TRACE_DIR, else /tmp): no "..", no symbolic link
 *  on the way, resolved with openat2 where there is one.
 *  @return KINETO_E_PERMISSION, KINETO_E_ARGUMENT, with the path and why. */
kineto_status ko_request_output_path(const ko_request *r, ko_request_source source, uint32_t pid,
                                     char out[KO_REQUEST_PATH_BYTES], kineto_error *err);
/** The directory of a path that ko_request_output_path gave for a request, checked again as it was
 *  then: what is written relative to it stays there, whatever becomes of the path's other parts
 *  meanwhile.
 *  @param directory  receives a descriptor (O_PATH), to be closed.
 *  @param name       receives the file's name, the end of `path`.
 *  @return as ko_request_output_path. */
kineto_status ko_request_output_directory(const char *path, int *directory, const char **name,
                                          kineto_error *err);
/** A URL with the pid, put in as in a path, if it ends in the name of a file that says its format;
 * else as it is. */
kineto_status ko_request_output_url(const char *url, uint32_t pid, char out[KO_REQUEST_PATH_BYTES],
                                    kineto_error *err);
#endif
