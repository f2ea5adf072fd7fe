/* Buffers of records as a test writes them, and a host that stores what it receives. */
#ifndef TESTS_CUDA_WRITTEN_H
#define TESTS_CUDA_WRITTEN_H

#include "../../unit/unit.h"

#include "../../helpers/cuda_records.h"

/* ---- buffers --------------------------------------------------------------------------------------- */

typedef struct written {
    uint32_t version;
    size_t used;
    _Alignas(8) uint8_t bytes[1 << 20];
} written;

written *written_new(uint32_t version);
/** A record of zeros but for its kind. */
uint8_t *written_add(written *w, uint32_t kind);
/** Hand it over as CUPTI does, and begin anew. */
void written_read(written *w, cp_decoder *d);

/** A kernel on (device 0, context 1), stream `stream`. */
uint8_t *write_kernel(written *w, const char *name, uint32_t correlation, uint32_t stream);
uint8_t *write_call(written *w, uint32_t kind, uint32_t cbid, uint32_t correlation);
void write_operator(written *w, uint32_t correlation, uint64_t id);

/* ---- host ------------------------------------------------------------------------------------------- */

enum { KEPT_MOST = 70000, SETS_MOST = 256, LINES_MOST = 32, ROWS_MOST = 32, ARGS_BYTES = 1200 };

typedef struct kept {
    KinetoPlugin_Activity a; /* its pointers are not to be followed */
    char name[128];
    char *args; /* " device=0 stream=7", what a set has first */
} kept;

typedef struct line {
    char reason[128];
    uint64_t count;
    int32_t is_loss;
    char detail[128];
} line;

typedef struct keeping_host {
    KinetoPlugin_TraceBuilder builder;
    bool refuses, has_no_sets;
    kept *list;
    uint32_t count;
    char *sets[SETS_MOST];
    uint32_t set_count, sets_asked;
    line lines[LINES_MOST];
    uint32_t line_count;
    char rows[ROWS_MOST][64]; /* "device/row name" */
    uint32_t row_count;
    uint64_t requested, dropped;
} keeping_host;

/** The one host, empty. */
keeping_host *host_new(void);
void host_free(void);
/** The n-th activity of this name; NULL: there are fewer. */
const kept *host_find(const char *name, uint32_t n);
uint32_t host_count(const char *name);
/** Value of an arg as text, "" if there is none. Static storage. */
const char *arg(const kept *k, const char *key);
uint64_t host_line(const char *reason);
/** Its other lines; "" if there is no such line. */
const char *host_line_detail(const char *reason);
bool host_has_row(const char *row);

#define assert_arg(kept, key, text) assert_string_equal(arg(kept, key), text)

/** Decoder on the host; all kinds, times in ns. */
void decoder_new(cp_decoder *d, uint32_t version);

#endif
