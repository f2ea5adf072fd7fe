/* The layout of everything recorded, and the one decoder for it.
 *
 * Nouns:
 *   pool     one mapping shared by all recorded processes of a recording and its collector:
 *            control page | chunk descriptors | dictionary | chunks
 *            (in all versions: after its end, in its file, lines "PID NAME" of processes that
 *            cannot read its layout)
 *   chunk    KF_CHUNK_BYTES of records, owned by one thread at a time
 *   word     8 bytes, native endian; every record is a whole number of words
 *   record   header word + payload; the header is stored last (release): a zero word is the end
 *   segment  the records from one KEYFRAME to the next (or the chunk's end): one cursor's, in order
 *   cursor   a writer: a thread's main one, or its second one for signal handlers
 *   site     a dictionary entry that describes a place in the program
 *   spool    a file of frames {dictionary bytes, chunks} that a collector writes; same contents
 *
 * No pointer is ever stored. Every segment decodes alone: its KEYFRAME is followed by a REOPEN copy
 * of each range that was open. A chunk keeps room for the END of every open range, so that an END
 * is never lost; a BEGIN that finds no room drops its whole range (counted once).
 * Everything read from a pool or a spool is untrusted: see the decoder at the end.
 */
#ifndef KF_FORMAT_H
#define KF_FORMAT_H

#include "base/base.h"
#include <ckineto/function.h>

#define KF_MAGIC UINT64_C(0x314c4f4f504b43) /* "CKPOOL1" as a little-endian word: shows endianness */
#define KF_VERSION 11u

#define KF_CHUNK_BYTES 16384u
#define KF_CHUNK_WORDS (KF_CHUNK_BYTES / 8u)
#define KF_MAX_RECORD_WORDS 1023u
#define KF_MAX_DEPTH 256u       /* deeper ranges are dropped and counted */
#define KF_MAX_INLINE_NAME 1024u /* longer run-time names go into the dictionary */
#define KF_MAX_STRING 2048u     /* longer string arguments go into the dictionary */
#define KF_MAX_CHUNKS (1u << 20)
#define KF_MAX_WINDOWS 32u
#define KF_MAX_SOURCES 32u
#define KF_MAX_SNAPSHOTS 64u
#define KF_RING_BATCH 64u
#define KF_EVICTED_SLOTS 1024u

/* ---- records ---------------------------------------------------------------------------------
 * Fields of a word are listed from the low bits up, here and everywhere below.
 * Header word: type:6 | words:10 | aux:16 | id:32.  words counts the header.
 * END is the exception, one word: type:6 | depth:10 | ticks:48 (low bits).                       */
typedef enum kf_type {
    KF_NONE = 0,
    KF_PAD = 1,         /* skip */
    KF_KEYFRAME = 2,    /* id = cursor serial; [1] ticks [2] pid:32|tid:32 [3] process:32|seq:32
                           [4] flags:32|reopen count:32 */
    KF_BEGIN = 3,       /* id = site; aux = depth:8|props:8; [1] ticks; [props] [args] */
    KF_REOPEN = 4,      /* as BEGIN, repeated in a later segment; ticks are the original's */
    KF_END = 5,         /* see above */
    KF_INSTANT = 6,     /* as BEGIN; depth unused */
    KF_ASYNC_BEGIN = 7, /* as BEGIN, with an extra word [2] = caller's id */
    KF_ASYNC_END = 8,   /* as ASYNC_BEGIN */
    KF_COUNTER = 9,     /* id = site; [1] ticks [args] */
    KF_ARGS = 10,   /* id = site, or 0: loose; aux = depth; [1] ticks [args]: more args of an open
                           range */
    KF_FLOW = 11,   /* id = 0; aux = type:8|start:1<<8; [1] ticks [2] flow id */
    KF_MEMORY = 12, /* [1] ticks [2] address [3] bytes [4] allocated [5] reserved
                           [6] device type:32|device index:32; aux = 1: there was no memory */
    KF_DEVICE = 13, /* id = name (string id); aux = kind:6|clock:4|props:6;
                           [1] start [2] end [3] correlation [4] device:32|resource:32
                           [5] flow id:32|flow type:8|flow start:8|source:8|spelling:8
                           [external id] [set] [loose args, or args of a site] */
    KF_CLOCK_SAMPLE = 14, /* id = clock; [1] ticks before [2] ticks after [3] device time */
    KF_THREAD_NAME =
        15, /* id = string id; aux = 1: as the system has it, not as the program gave it
                             by kineto_thread_set_name; [1] ticks */
    KF_THREAD_EXIT = 16, /* [1] ticks */
    KF_OUTPUTS = 17, /* aux = depth; [1] ticks [2…] a part as of KF_PROP_FUNCTION: outputs of an
                             open operator */
    KF_RANGE = 18,   /* a complete range, recorded at its end: as BEGIN, depth unused, with an
                             extra word [2] = ticks of its end */
    KF_THROTTLED = 19,    /* [1] ticks of the first [2] count of this cursor's ranges that were throttled
                             in this segment; the count is incremented in place */
    /* The next three are written by a recorder about other processes' threads. [3] pid:32|tid:32 of
     * the thread, [4] process:32|see below. */
    KF_THREAD_RUN = 20, /* a thread had a CPU: id = CPU; aux = KF_RUN_…; [1] ticks [2] ticks of its end;
                             with WOKEN [5] ticks when it was woken before [6] by pid:32|tid:32 */
    KF_STACK_SAMPLE = 21, /* id = CPU; aux = KF_SAMPLE_…; [1] ticks [2] ns of CPU time since the thread's
                             last sample, with FAULT how many faults [4] how many addresses are of the kernel:32; [addresses],
                             innermost first: where the thread was, then return addresses */
    KF_THREAD_LIFE = 22, /* aux = KF_LIFE_…; [1] ticks when it was created [2] and when it ended, or was
                            last seen [4] tid of its creator:32 */
    KF_OPEN_CALL = 23, /* a call that had not ended when its thread's chunk was copied, made from
                          the chunk's kf_open_call: as BEGIN; aux = KF_CALL_…|props:8; [1] ticks
                          [2] ticks of the last moment at which it was known to be open [3] ns: it is
                          dropped if it is shorter */
    KF_TYPE_COUNT = 24
} kf_type;

/* props bits of BEGIN, REOPEN, INSTANT, ASYNC_*: which optional parts follow, in this order. */
#define KF_PROP_CORRELATION 1u /* one word */
#define KF_PROP_EXTERNAL 2u    /* one word */
#define KF_PROP_NAME 4u        /* a text: replaces the site's name */
#define KF_PROP_ARGS 8u        /* the site's args, packed by its types */
#define KF_PROP_ARGS_LOST 16u  /* args or name did not fit into the copy */
#define KF_PROP_FUNCTION 32u   /* an operator: see KF_FUNCTION_…; stands before the args */
/* props bits of DEVICE */
#define KF_DEVICE_EXTERNAL 1u
#define KF_DEVICE_LOOSE 2u /* loose args follow to the record's end */
#define KF_DEVICE_SITE 4u  /* id is a site, which names it; its args follow, packed by its types */
#define KF_DEVICE_SET 8u   /* one word: id of an ARGS entry, whose args come before the loose ones; not
                              with SITE */
/* kind of DEVICE: a neutral one, or one of the control page's own kinds. spelling: 1 + row of
 * kb_kind_aliases, the category as its vendor writes it; 0: the kind's own name. */

/* aux of THREAD_RUN, STACK_SAMPLE, THREAD_LIFE */
#define KF_RUN_PREEMPTED 1u /* at its end the thread could have gone on */
#define KF_RUN_OPEN_END 2u  /* it has not ended */
#define KF_RUN_GOES_ON 8u   /* in the record that begins where this one ends */
#define KF_RUN_WOKEN 16u    /* who woke it, and when, is known; 0 as tid: an interrupt */
#define KF_RUN_WORDS 5u     /* without WOKEN */
#define KF_RUN_POLLED 4u    /* from counters of /proc: on which CPU is not known */
#define KF_SAMPLE_CUT 1u     /* more callers could not be found */
#define KF_SAMPLE_BLOCKED 2u /* at these ticks the thread lost its CPU, because it had to wait */
/* aux of OPEN_CALL */
#define KF_CALL_DEAD 1u /* its thread died at [2] */
#define KF_CALL_WORDS 4u /* before its args */
#define KF_SAMPLE_FAULT 4u   /* a page fault, one of so many */
#define KF_SAMPLE_MAJOR 8u   /* for which something was read */
#define KF_LIFE_OPEN_START 1u /* it was there before it was watched */
#define KF_LIFE_OPEN_END 2u   /* it has not ended */
#define KF_STACK_SAMPLE_WORDS 5u /* before its addresses */

/* Packed args (types from the site), each a whole number of words:
 *   INT UINT DOUBLE BOOL  one word
 *   STRING JSON           text
 *   INTS                  count, then that many words
 *   STRINGS               count, then that many texts
 *   SHAPES                count of shapes, then ranks (four 16-bit per word), then all dims
 * A text: word size:32|string id:32; with id 0 the bytes follow, zero-padded to a word; else the
 * bytes are the dictionary's and size is their full length.
 * Loose args: for each a word key string id:32|type:8|inline:24, then the value packed as above. A
 * STRING or JSON with inline > 0 has inline - 1 bytes, which follow without a text word; INTS with
 * inline > 0 have inline - 1 items, which follow without their count. */

/* The part that makes a range an operator:
 *   word    parts:12 | input count:12 | words:16 of this part | thread's number:24
 *   parts   in the order of their bits, each a word; STACK: a count and its addresses; ARGS: a count of
 *           words and loose args
 *   inputs  one after the other until the part's end: a word tag:8 | flags:8 | count:16 | dtype:8 |
 *           device type:8 | device index:16, and what the tag says:
 *     TENSOR          count = rank; the sizes; with STRIDES the strides; with IDS tensor id, storage
 *                     id, storage offset. Sizes and strides are a word each, or with SMALL four to a
 *                     word
 *     TENSORS         count tensors follow, each as above
 *     INT DOUBLE BOOL a word
 *     INTS DOUBLES BOOLS  count words; with UNSAID none: the list was long, or is not wanted
 *     others          nothing */
#define KF_FUNCTION_SEQUENCE 1u /* number in the autograd graph */
#define KF_FUNCTION_FORWARD 2u  /* logical thread of the forward operator */
#define KF_FUNCTION_DEBUG 4u    /* debug handle */
#define KF_FUNCTION_INPUTS 8u   /* inputs were wanted: input count of them follow */
#define KF_FUNCTION_VALUES 16u  /* with INPUTS: those of scalars were wanted */
#define KF_FUNCTION_STACK 32u   /* return addresses, innermost first */
#define KF_FUNCTION_CUT 64u     /* there were more inputs */
#define KF_FUNCTION_ARGS 128u   /* further args */
#define KF_FUNCTION_IDS 256u    /* tensors among the inputs have ids */
#define KF_INPUT_SMALL 1u
#define KF_INPUT_STRIDES 2u
#define KF_INPUT_IDS 4u
#define KF_INPUT_NOT_RECORDED      8u /* the value was not recorded */
#define KF_MAX_INPUTS 255u
#define KF_MAX_RANK 64u

static inline uint64_t kf_function_word(uint32_t parts, uint32_t inputs, uint32_t words,
                                        uint32_t thread)
{
    return (uint64_t)(parts & 0xfff) | (uint64_t)(inputs & 0xfff) << 12 |
           (uint64_t)(words & 0xffff) << 24 | (uint64_t)(thread & 0xffffff) << 40;
}
static inline uint32_t kf_function_words(uint64_t word) { return (uint32_t)(word >> 24 & 0xffff); }
static inline uint64_t kf_input_word(uint32_t tag, uint32_t flags, uint32_t count)
{
    return (uint64_t)tag | (uint64_t)flags << 8 | (uint64_t)(count & 0xffff) << 16;
}

static inline uint64_t kf_header(kf_type type, uint32_t words, uint32_t aux, uint32_t id)
{
    return (uint64_t)type | (uint64_t)words << 6 | (uint64_t)aux << 16 | (uint64_t)id << 32;
}
static inline uint32_t kf_header_type(uint64_t h) { return (uint32_t)(h & 63); }
static inline uint32_t kf_header_words(uint64_t h)
{
    return kf_header_type(h) == KF_END ? 1u : (uint32_t)(h >> 6 & 1023);
}
static inline uint32_t kf_header_aux(uint64_t h) { return (uint32_t)(h >> 16 & 0xffff); }
static inline uint32_t kf_header_id(uint64_t h) { return (uint32_t)(h >> 32); }

/* An END has only the low bits of its ticks; readers complete them from the previous record.
 * Writers put a record with full ticks before an END when the previous one is hours old. */
#define KF_END_TICK_BITS 48
#define KF_END_TICK_MASK ((UINT64_C(1) << KF_END_TICK_BITS) - 1)
static inline uint64_t kf_end(uint32_t depth, uint64_t ticks)
{
    return (uint64_t)KF_END | (uint64_t)depth << 6 | (ticks & KF_END_TICK_MASK) << 16;
}

#define KF_KEYFRAME_WORDS 5u
#define KF_NAME_OF_SYSTEM 1u /* aux of THREAD_NAME */
#define KF_CURSOR_SIGNAL 1u /* KEYFRAME flag: second cursor, used inside signal handlers */

/* Payload words: */
static inline uint64_t kf_pair(uint32_t first, uint32_t second)
{
    return (uint64_t)first | (uint64_t)second << 32;
}
static inline uint64_t kf_text_word(uint32_t size, uint32_t string_id)
{
    return (uint64_t)size | (uint64_t)string_id << 32;
}
static inline uint64_t kf_loose_word(uint32_t key, uint32_t type, uint32_t inline_size_1)
{
    return (uint64_t)key | (uint64_t)(type & 0xff) << 32 | (uint64_t)inline_size_1 << 40;
}
static inline uint32_t kf_loose_type(uint64_t word) { return (uint32_t)(word >> 32 & 0xff); }
static inline uint32_t kf_loose_inline(uint64_t word) { return (uint32_t)(word >> 40); }
static inline uint64_t kf_device_word(uint32_t flow_id, uint32_t flow_type, bool flow_start,
                                      uint32_t source, uint32_t spelling)
{
    return (uint64_t)flow_id | (uint64_t)(flow_type & 0xff) << 32 | (uint64_t)flow_start << 40 |
           (uint64_t)(source & 0xff) << 48 | (uint64_t)(spelling & 0xff) << 56;
}
/* aux of DEVICE */
static inline uint32_t kf_device_aux(uint32_t kind, uint32_t clock, uint32_t props)
{
    return (kind & 63) | (clock & 15) << 6 | (props & 63) << 10;
}

/* ---- dictionary ------------------------------------------------------------------------------
 * Append-only. An id is the entry's offset in words (never 0). Entry: header word
 * type:8 | words:24 | size:32, stored last (release), then the payload. size counts payload bytes. */
typedef enum kf_entry_type {
    KF_ENTRY_NONE = 0,
    KF_ENTRY_STRING = 1,   /* bytes */
    KF_ENTRY_SITE = 2,     /* kf_site_entry, arg types (u8 each), then texts: name, arg names,
                              overload (may be missing): each u32 size + bytes, unpadded */
    KF_ENTRY_PROCESS = 3,  /* kf_process_entry, then texts: name, command line */
    KF_ENTRY_PROCESS_NAME = 4, /* u32 process, then text: name given by the program */
    KF_ENTRY_SOURCE = 5,   /* kf_source_entry, then text: name */
    KF_ENTRY_CLOCK = 6,    /* kf_clock_entry, then text: name */
    KF_ENTRY_DEVICE = 7,   /* kf_device_entry, then texts: name, label */
    KF_ENTRY_RESOURCE = 8, /* kf_resource_entry, then text: name */
    KF_ENTRY_DEVICE_PROPS = 9, /* kf_device_entry (sort unused), then loose args (word aligned) */
    KF_ENTRY_META = 10,    /* kf_meta_entry, then texts: key, JSON value */
    KF_ENTRY_LEDGER = 11,  /* kf_ledger_entry, then texts: source, reason, detail: one ledger line */
    KF_ENTRY_MODULE = 12, /* kf_module_entry, then texts: path, build id: code that stacks go through */
    KF_ENTRY_ARGS = 13, /* loose args (word aligned): a set that many events share */
    KF_ENTRY_THREAD_NAME = 14, /* kf_thread_entry, then text: name as the system has it; the last counts */
    KF_ENTRY_WATCHED_PROCESS = 15, /* as PROCESS; written by a recorder that watches it from outside */
    KF_ENTRY_TYPE_COUNT = 16
} kf_entry_type;

static inline uint64_t kf_entry_header(kf_entry_type type, uint32_t words, uint32_t size)
{
    return (uint64_t)type | (uint64_t)words << 8 | (uint64_t)size << 32;
}

static inline uint32_t kf_entry_header_type(uint64_t h) { return (uint32_t)(h & 0xff); }
static inline uint32_t kf_entry_header_words(uint64_t h) { return (uint32_t)(h >> 8 & 0xffffff); }
static inline uint32_t kf_entry_header_size(uint64_t h) { return (uint32_t)(h >> 32); }

typedef struct kf_site_entry {
    uint8_t kind, scope, arg_count, spare;
} kf_site_entry;
typedef struct kf_process_entry {
    uint32_t pid, ppid;
    uint64_t start_time; /* field 22 of /proc/PID/stat: with pid, unique per boot */
    uint64_t exec_id;    /* hash of AT_RANDOM: differs after each exec */
    uint64_t ticks;      /* at attach */
} kf_process_entry;
typedef struct kf_thread_entry {
    uint32_t pid, tid;
} kf_thread_entry;
typedef struct kf_source_entry {
    uint32_t process, source; /* source: index into the counters */
} kf_source_entry;
typedef struct kf_clock_entry {
    uint32_t process, clock;
} kf_clock_entry;
typedef struct kf_device_entry {
    uint32_t process, source;
    int64_t device, sort_index;
} kf_device_entry;
typedef struct kf_resource_entry {
    uint32_t process, source;
    int32_t device, resource, order;
    uint32_t spare;
} kf_resource_entry;

typedef struct kf_module_entry {
    uint32_t process;
    uint32_t is_gone; /* the file at path was replaced or removed since it was mapped */
    uint64_t start, end, file_offset;
} kf_module_entry;

/* A ledger line that has no counter: processes that were not attached, a full disk … */
typedef struct kf_ledger_entry {
    uint32_t process, is_loss; /* process 0: the collector's */
    uint64_t count;
    uint64_t ticks; /* the line is for the windows that include this time; 0: for all */
} kf_ledger_entry;

typedef struct kf_meta_entry {
    uint32_t process, spare; /* process 0: the collector's */
    uint64_t ticks;          /* it is for the windows that include this time; 0: for all */
} kf_meta_entry;

/* ---- ledger counters, per source ------------------------------------------------------------- */
typedef enum kf_reason {
#define X(name, text, is_loss) KF_REASON_##name,
#include "format/loss_reasons.def"
#undef X
    KF_REASON_COUNT
} kf_reason;
#define KF_REASON_SLOTS 32
#define KF_SOURCE_API 0u /* records of the program itself */

/* ---- pool ------------------------------------------------------------------------------------ */

/* One recording request. Written by its owner, state last. Its states:
 *   FREE → CLAIMED (compare-and-swap) → OPEN → CLAIMED → FREE   by its owner
 *   any → FREE                       by a sweeper that took away the pid of an owner that has
 * died */
typedef struct kf_window {
    uint32_t state; /* KF_WINDOW_… */
    uint32_t owner_pid;
    uint64_t owner_start_time;
    uint64_t kinds; /* recorded now: `held`, or 0 while it is paused */
    uint64_t held;
    uint64_t start_ticks, end_ticks; /* end 0: open */
    uint32_t keep_newest; /* wants a ring; otherwise its contents must not be overwritten */
    uint32_t wants;       /* KF_WANT_… */
    /* A window limited by iterations of a process, see kf_window_limit:
     *   WAITING → INSIDE → OVER, or WAITING → OVER if it was skipped; by compare-and-swap, so that one
     *   of several threads that step at once moves it on. */
    uint32_t step_state; /* KF_STEPS_… */
    uint32_t step_pid;
    uint64_t from_step, until_step;   /* until 0: it ends when it is paused or closed */
    uint64_t from_ticks, until_ticks; /* when they began; 0: not yet */
} kf_window;
enum { KF_STEPS_NONE = 0, KF_STEPS_WAITING = 1, KF_STEPS_INSIDE = 2, KF_STEPS_OVER = 3 };
/* What to record of operators. In the upper half a bit for each scope. */
#define KF_WANT_INPUTS 1u      /* sizes, strides and types */
#define KF_WANT_VALUES 2u      /* of scalar inputs */
#define KF_WANT_IDS 4u         /* of tensors, and outputs */
#define KF_WANT_STACK 8u       /* native call stacks */
#define KF_WANT_TEXTS        16u      /* stacks and modules that the program passes as text */
#define KF_WANT_CORRELATION 32u /* ids are passed on to plug-ins */
#define KF_WANT_ALL_THREADS 64u /* also of threads that joined no profiler */
#define KF_WANT_COUNTERS 128u  /* hardware counters */
#define KF_WANT_BOTH         256u  /* a native stack also where the program passes one */
#define KF_WANT_SLOW (KF_WANT_STACK | KF_WANT_COUNTERS)
#define KF_WANT_SCOPE(scope) (UINT32_C(1) << (16 + (scope)))
#define KF_WANT_SCOPES (((UINT32_C(1) << KINETO_NUM_SCOPES) - 1) << 16)
#define KF_WANT_USUAL (KF_WANT_CORRELATION | KF_WANT_ALL_THREADS | KF_WANT_TEXTS | KF_WANT_SCOPES)

enum { KF_WINDOW_FREE = 0, KF_WINDOW_CLAIMED = 1, KF_WINDOW_OPEN = 2 };

/* A kind that a plug-in announced. Its number is KINETO_KIND_OWN_FIRST + index. */
#define KF_OWN_NAME 40u
typedef struct kf_own_kind {
    uint32_t state; /* 0 free → 1 being written → 2 valid, which never changes again */
    uint8_t like, by_default, spare[2];
    char name[KF_OWN_NAME];
} kf_own_kind;

/** Find or add: name is 1 to KF_OWN_NAME - 1 bytes of a-z, 0-9, _. Lock-free.
 *  @return its kind; 0: the name is not valid, or the table is full. */
uint32_t kf_own_kind_add(kf_own_kind *table, kineto_string name, uint32_t like, bool by_default);
/** The entry of a kind if it is valid (any process can write the table): its name is terminated and
 *  `like` is a neutral kind. NULL otherwise. */
const kf_own_kind *kf_own_kind_at(const kf_own_kind *table, uint32_t kind);
/** Kind of a name (any case); 0: unknown. */
uint32_t kf_own_kind_find(const kf_own_kind *table, kineto_string name);
/** Does the mask include this kind, neutral or own? */
bool kf_kind_wanted(const kf_own_kind *table, uint64_t mask, uint32_t kind);

/* The iterations of one process (kineto_step_mark). Iteration i began at ticks[i % KF_STEP_TIMES]. */
#define KF_STEP_TIMES 64u
#define KF_STEP_SLOTS 16u
typedef struct kf_steps {
    uint32_t pid; /* 0: free; claimed by compare-and-swap */
    uint32_t spare;
    uint64_t start_time; /* of the process: with pid, unique per boot */
    uint64_t count;      /* that began; stored after the time */
    uint64_t ticks[KF_STEP_TIMES];
} kf_steps;

/* A process with sources that have to be started and stopped as windows open and close, although
 * its program is not aware of them: see follow.c. */
#define KF_FOLLOWERS 64u
typedef struct kf_follower {
    uint32_t pid;  /* 0: free; claimed by compare-and-swap */
    uint32_t seen; /* the value of window_changes that it has carried out */
    uint64_t start_time;
} kf_follower;

/* ---- self-cost: the cost of recording to the programs, and throttling to reduce it ------------- */

/* Records are not timed one by one: every program measures their unit costs when it attaches. */
typedef enum kf_unit {
    KF_UNIT_PAIR = 0,   /* a range, begin and end */
    KF_UNIT_SINGLE = 1, /* any other record */
    KF_UNIT_WORD = 2,   /* each word that a record has beyond the minimum */
    KF_UNIT_MUTED = 3,  /* a range of a throttled site */
    KF_UNIT_COUNT = 4
} kf_unit;
#define KF_UNIT_PARTS 64u /* unit costs are in 1/64 of a tick */

/* Work that is slow enough to be timed each time. */
#define KF_COST_MAP(X)                                                                             \
    X(ATTACH, "attaching")                                                                         \
    X(CHUNK, "changing chunks")                                                                    \
    X(STACK, "call stacks")                                                                        \
    X(COUNTERS, "hardware counters")                                                               \
    X(SOURCE, "calls of sources")                                                                  \
    X(SAMPLE, "interruptions for CPU samples")
typedef enum kf_cost {
#define KF_X(name, text) KF_COST_##name,
    KF_COST_MAP(KF_X)
#undef KF_X
    KF_COST_COUNT
} kf_cost;

/* What is dropped now to stay within the budget. Written only by the collector. */
typedef struct kf_throttle {
    uint64_t kinds;       /* the gate is closed for them */
    uint64_t wants;       /* KF_WANT_… that no window gets */
    uint64_t mute;        /* kinds whose frequent and short ranges are dropped, site by site */
    uint32_t short_ticks; /* a site is short if the mean of its ranges is below this */
    uint32_t epoch;       /* changes when sites have to be chosen anew */
} kf_throttle;

/* What writers do when no chunk is free. */
enum { KF_FULL_DROP = 0, KF_FULL_RING = 1 };

typedef struct kf_control {
    uint64_t magic;
    uint32_t version, header_bytes; /* header_bytes = sizeof(kf_control) */
    uint64_t pool_bytes;
    uint64_t descriptors_offset, maps_offset, dictionary_offset, chunks_offset;
    uint32_t chunk_bytes, chunk_count; /* chunk_count: mapped */
    uint32_t dictionary_bytes, ticks_clock; /* kb_ticks_clock() */
    uint32_t collector_pid, external; /* external: a collector copies sealed chunks out */
    uint64_t collector_start_time;
    uint8_t boot_id[40];
    char spool_path[1024], output_path[1024];

    char custom_config[1024]; /* for plug-ins: the last one that a window set */
    kf_own_kind own_kinds[KINETO_KIND_OWN_COUNT];

    _Alignas(64) uint64_t gate; /* OR of the open windows' kinds: read by every site */
    uint64_t wants;             /* OR of what they want */
    uint64_t function_ids;      /* of operators, last handed out */
    _Alignas(64) uint32_t full_policy;
    uint32_t chunk_limit;       /* chunks that may be claimed now, <= chunk_count */
    uint32_t window_lock; /* pid of the process that edits windows; never taken by recorders */
    uint32_t dictionary_used;   /* words, including entries not yet committed */
    uint32_t cursor_serial;     /* last handed out */
    uint32_t source_count;
    uint32_t ring_hand; /* next of ring_oldest to overwrite */
    uint32_t snapshot_count;
    uint32_t chunk_high;         /* chunks that were ever claimable: no thread wrote above them */
    uint64_t forgotten_ticks;    /* greatest last_ticks of the chunks that were freed */
    uint64_t ring_protect_ticks; /* policy RING: chunks sealed from then on are not overwritten; 0:
                                    all may be */
    uint64_t
        window_ticks; /* start of the earliest open window: losing older events is not counted */
    /* Policy RING: the chunks to overwrite next, as of the last search: 1 + index, and
     * last_ticks. */
    uint64_t ring_oldest[KF_RING_BATCH];
    uint64_t ring_oldest_ticks[KF_RING_BATCH];
    uint32_t step_limits;    /* a bit for each window that an iteration may begin or end */
    uint32_t watched;        /* windows open and close while programs run: see kf_follow_… */
    uint32_t window_changes; /* number of changes; a futex if it is watched */
    uint32_t followed;       /* changes that followers have carried out; a futex */
    uint32_t collects;       /* how often sources were requested to deliver what they have */
    kf_follower followers[KF_FOLLOWERS];
    kf_window windows[KF_MAX_WINDOWS];
    kb_clock_snapshot snapshots[KF_MAX_SNAPSHOTS];
    uint32_t unit_costs[KF_UNIT_COUNT]; /* of the last process that attached; 0: not known */
    kf_throttle throttled;
    uint64_t
        pid_namespace[2]; /* the collector's, if external: it cannot use pids of another one. 0:
                                  not known */
    _Alignas(64) uint64_t cost_ticks[KF_COST_COUNT]; /* of all processes together; ATTACH: ns
                                                        of CPU */
    uint64_t cost_calls[KF_COST_COUNT];
    _Alignas(64) kf_steps steps[KF_STEP_SLOTS]; /* in the order in which processes first stepped */
    _Alignas(64) uint64_t counters[KF_MAX_SOURCES][KF_REASON_SLOTS];
    /* Policy RING: how many of the events that were overwritten ended when, in periods of
     * 1 << evicted_shift ticks; 0: not counted. A slot is period:24 | events:40. */
    uint32_t evicted_shift;
    uint64_t evicted[KF_EVICTED_SLOTS];
} kf_control;

typedef enum kf_chunk_state {
    KF_CHUNK_FREE = 0,
    KF_CHUNK_LIVE = 1,   /* a thread writes */
    KF_CHUNK_SEALED = 2, /* full: the collector's */
    KF_CHUNK_PARTIAL = 3 /* its thread ended: any thread may continue in it */
} kf_chunk_state;

/* The call in which the owner of a LIVE chunk may be blocked: it becomes a record only if it does
 * not end before the chunk is read. Written by the owner: ticks first, header last (release); the
 * header is 0 once the call has ended and its record, if any, is in the chunk. The chunk has room
 * for its OPEN_CALL record at word `at`, where the owner's records ended then. If there is another
 * record by now, the call has ended, or was left by a jump. A reader reads it before the chunk. */
#define KF_CALL_ARGS 2u
typedef struct kf_open_call {
    uint64_t header;     /* of its OPEN_CALL record; 0: none */
    uint64_t ticks;      /* when it began */
    uint64_t place;      /* at:32|us:32, it is dropped if it is shorter */
    uint64_t args[KF_CALL_ARGS]; /* of the site, single words */
} kf_open_call;
static inline uint32_t kf_open_call_at(const kf_open_call *call) { return (uint32_t)call->place; }

/* Chunk descriptor. `claim` holds in one word the owner of the chunk, its state, and a count of
 * changes, so that one compare-and-swap decides which thread gets it next. The transitions
 * (chunks.c):
 *
 *   FREE, PARTIAL → LIVE     kf_chunk_claim: by the thread that wins the compare-and-swap
 *   SEALED → LIVE            kf_chunk_claim with policy RING: the oldest, when no other is left
 *   any but FREE → LIVE      kf_chunk_inherit: by the collector, or for an owner that died
 *   LIVE → SEALED            kf_chunk_seal: by its owner
 *   LIVE → PARTIAL           kf_chunk_leave: by its owner
 *   LIVE → FREE              kf_chunk_return: by its owner, after zeroing it
 *   FREE → FREE              kf_chunk_hold and _unhold: with an owner it cannot be claimed
 *
 *   63      46 45        24 23         2 1      0
 *   | changes |    pid     |    tid     | state  |     Linux has no pid or tid of more than 22 bits
 */
typedef struct kf_descriptor {
    uint64_t claim;
    uint32_t used;   /* words, when SEALED or PARTIAL */
    uint32_t serial; /* counts contents: distinguishes a recycled chunk from its earlier contents */
    uint64_t last_ticks; /* when sealed */
    kf_open_call call;   /* of the owner, when LIVE */
} kf_descriptor;

#define KF_CLAIM_ID_BITS 22u
#define KF_CLAIM_ID_MASK ((UINT64_C(1) << KF_CLAIM_ID_BITS) - 1)
static inline uint32_t kf_claim_state(uint64_t claim) { return (uint32_t)(claim & 3); }
/** pid << 32 | tid of the owner, or of the last one (SEALED); 0: none. */
static inline uint64_t kf_claim_owner(uint64_t claim)
{
    uint64_t tid = claim >> 2 & KF_CLAIM_ID_MASK;
    return (claim >> (2 + KF_CLAIM_ID_BITS) & KF_CLAIM_ID_MASK) << 32 | tid;
}
/** The claim after its owner has sealed the chunk. */
static inline uint64_t kf_claim_sealed(uint64_t claim)
{
    return (claim & ~UINT64_C(3)) | KF_CHUNK_SEALED;
}
static inline uint32_t kf_chunk_state_of(const kf_descriptor *d)
{
    return kf_claim_state(kb_load_acquire(&d->claim));
}

/* A mapped pool: pointers into it, bounds already checked. */
typedef struct kf_pool {
    kf_control *control;
    kf_descriptor *descriptors;
    uint64_t *free_map, *partial_map; /* a bit per chunk: hints, the descriptor decides */
    uint64_t *dictionary;
    uint64_t *chunks;
    size_t bytes;
    uint32_t chunk_count, dictionary_words; /* copies, so that a hostile peer cannot move bounds */
} kf_pool;

/** Bytes that a pool of `buffer_bytes` of chunks needs in all. */
size_t kf_pool_size(size_t buffer_bytes, size_t dictionary_bytes);

/** Lay out a zeroed mapping of kf_pool_size() bytes. */
void kf_pool_format(void *map, size_t buffer_bytes, size_t dictionary_bytes);

/** In a copy of a pool's control page: make it that of a pool with the first `chunk_count` chunks
 *  only, which begin at the same sections' new offsets. Async-signal-safe. */
void kf_pool_shorten(kf_control *copy, uint32_t chunk_count);

/** Check a mapping's header and set up pointers. Every kf_pool comes from here, so that its bounds
 *  are valid.
 *  @return KINETO_E_FORMAT with the reason in err. */
kineto_status kf_pool_open(void *map, size_t bytes, kf_pool *pool, kineto_error *err);

static inline uint64_t *kf_pool_chunk(const kf_pool *pool, uint32_t index)
{
    return pool->chunks + (size_t)index * KF_CHUNK_WORDS;
}

/** Claim a chunk for owner = pid << 32 | tid: a partial one with enough room, else the lowest free
 *  one below chunk_limit, else (policy RING) the oldest sealed one, zeroed. Lock-free,
 *  async-signal-safe.
 *  @param words  receives the words already used in it (0 for a fresh one).
 *  @return index, or UINT32_MAX: none. */
uint32_t kf_chunk_claim(const kf_pool *pool, uint64_t owner, uint32_t *words);
/** The owner gives up a chunk: full (SEALED), or its thread ended (PARTIAL). */
void kf_chunk_seal(const kf_pool *pool, uint32_t index, uint32_t words, uint64_t last_ticks);
void kf_chunk_leave(const kf_pool *pool, uint32_t index, uint32_t words, uint64_t last_ticks);
static inline uint64_t kf_chunk_claim_of(const kf_pool *pool, uint32_t index)
{
    return kb_load_acquire(&pool->descriptors[index].claim);
}
/** Collector or owner of the data: zero the used words and free. Only for SEALED and PARTIAL
 *  chunks, and for LIVE ones that are the caller's or a dead owner's.
 *  @param claim  its value when that was checked. @return false: it changed since, nothing was
 *  done. */
bool kf_chunk_free(const kf_pool *pool, uint32_t index, uint64_t claim);
/** The same by its owner: `words` of it were used, the last at `last_ticks` (0: no loss to
 *  record). */
void kf_chunk_return(const kf_pool *pool, uint32_t index, uint32_t words, uint64_t last_ticks);

/** Take a chunk over from an owner that died, or one without an owner. False: it is free, or
 *  `claim` is out of date. The winner has to seal, return or free it. */
bool kf_chunk_inherit(const kf_pool *pool, uint32_t index, uint64_t claim);

/** Is the process certainly dead? If it cannot be looked up (for example without a free file
 *  descriptor) it counts as alive. */
bool kf_owner_is_dead(uint32_t pid, uint64_t start_time);

/** The owner's open call, as it is at one moment; header 0: none. */
kf_open_call kf_open_call_read(const kf_descriptor *d);
/** Append the OPEN_CALL record of `call` to a chunk with `words` words, if it is still open then.
 *  `until`: when it was last known to be open. @return the words of the chunk then. */
uint32_t kf_open_call_append(const kf_open_call *call, uint64_t until, uint32_t flags,
                             uint64_t *chunk, uint32_t words);

/** Words of a chunk that are committed: up to the first zero header. */
uint32_t kf_committed_words(const uint64_t *chunk, uint32_t limit);

/** Hold a FREE chunk so that no thread claims it (false: it is not free), and release it. */
bool kf_chunk_hold(const kf_pool *pool, uint32_t index);
void kf_chunk_unhold(const kf_pool *pool, uint32_t index);

/** Open a window: claims a slot, recomputes the gate. Sweeps slots of dead owners first.
 *  @return slot, or UINT32_MAX if all are taken. Not for signal handlers. */
uint32_t kf_window_open(kf_control *control, uint64_t kinds, uint64_t start_ticks);
/** Close the windows of owners that died, which would never be closed otherwise. Not for signal
 *  handlers. */
void kf_windows_sweep(kf_control *control);
/** Set what the window wants of operators; at first KF_WANT_USUAL. */
void kf_window_want(kf_control *control, uint32_t slot, uint32_t wants);
/** Drop these from now on; NULL: nothing. */
void kf_throttle_set(kf_control *control, const kf_throttle *throttled);
/** Change its kinds; pause it, which keeps `held`, or continue; close it. All recompute the
 *  gate. */
void kf_window_set_kinds(kf_control *control, uint32_t slot, uint64_t kinds);
void kf_window_pause(kf_control *control, uint32_t slot, bool paused);
/** OR of what the open windows hold, paused ones too. */
uint64_t kf_held_kinds(kf_control *control);
void kf_window_close(kf_control *control, uint32_t slot, uint64_t end_ticks);
/* ---- steps.c [rt]: iterations ---- */
/** Record only from the beginning of iteration `from_step` of process `pid` until iteration
 *  `until_step` begins (0: until it is paused or closed). The process itself begins and ends the
 *  window, in its kineto_step_mark, so that it is exact even if its owner is late; until then `kinds` is
 *  0 and `held` has what it will record. If the iteration has begun already, the window begins with
 *  the next one. step_state, from_ticks and until_ticks show its progress. */
void kf_window_limit(kf_control *control, uint32_t slot, uint32_t pid, uint64_t from_step,
                     uint64_t until_step);
/** An iteration of process `pid` began: windows with limits begin and end. */
void kf_windows_step(kf_control *control, uint32_t pid, uint64_t step, uint64_t ticks);
/** The slot of a process, made if it has none; NULL: all are taken by living ones. */
kf_steps *kf_steps_claim(kf_control *control, uint32_t pid);
/** The slot of a process; pid 0: of the living one that stepped first. NULL: none has a slot. */
kf_steps *kf_steps_of(kf_control *control, uint32_t pid);
/** Iterations that began, and when the last of them did, at index i % KF_STEP_TIMES. Bounds hold
 *  whatever the page says. */
uint64_t kf_steps_read(const kf_steps *steps, uint64_t ticks[KF_STEP_TIMES]);
/* ---- follow.c [rt]: processes that follow the windows ---- */
/** Windows changed: wake the followers. */
void kf_windows_changed(kf_control *control);
/** The process' place, claimed if it has none. NULL: all places are claimed by living processes. */
kf_follower *kf_follow_begin(kf_control *control, uint32_t pid);
void kf_follow_end(kf_follower *f);
/** The process runs another program now (exec), which may have no follower: free its place. */
void kf_follow_forget(kf_control *control, uint32_t pid);
/** Report that change `seen` was carried out, and wake kf_followers_wait. */
void kf_follow_report(kf_control *control, kf_follower *f, uint32_t seen);
/** Sleep until window_changes differs from `seen`; may return earlier. */
void kf_follow_wait(kf_control *control, uint32_t seen);
/** Request that sources deliver what they have; counts as a change. */
void kf_followers_collect(kf_control *control);
/** Wait until all living followers have carried out the current change, at most timeout_ns.
 *  @return how many have not. */
uint32_t kf_followers_wait(kf_control *control, uint64_t timeout_ns);

/* ---- pool.c [rt]: what is appended to a pool ---- */
/** Append a snapshot; when full, the middle is thinned so that first and last stay. */
void kf_snapshot_add(kf_control *control, const kb_clock_snapshot *snapshot);
/** Append a dictionary entry: parts are concatenated. Lock-free.
 *  @return id, or 0 when the dictionary is full. */
typedef struct kf_part {
    const void *data;
    size_t bytes;
} kf_part;
uint32_t kf_dictionary_add(const kf_pool *pool, kf_entry_type type, const kf_part *parts,
                           uint32_t part_count);
/** Is there room for names that can be done without? The last quarter is for the others. */
static inline bool kf_dictionary_has_room(const kf_pool *pool)
{
    return kb_load_relaxed(&pool->control->dictionary_used) < pool->dictionary_words / 4 * 3;
}
/** Take counters for a source, and name them. @param process  its entry; 0: the recorder's.
 *  @return KF_SOURCE_API: none are left, its losses are counted with the program's own. */
uint32_t kf_source_add(const kf_pool *pool, uint32_t process, kineto_string name);

/* ---- evict.c [rt]: end times of overwritten events ---- */
/** Begin to count for a ring of length_ticks, unless the counters already serve a longer one. */
void kf_evicted_prepare(kf_control *control, uint64_t length_ticks);
/** Events that ended at `ticks` or later and were overwritten. The resolution is the ring's length
 *  divided by KF_EVICTED_SLOTS / 2: events that ended up to that much earlier count as well. */
uint64_t kf_evicted_since(const kf_control *control, uint64_t ticks);

const char *kf_reason_text(uint32_t reason);
bool kf_reason_is_drop(uint32_t reason);

/* ---- spool ------------------------------------------------------------------------------------
 * kf_spool_header, then frames: kf_frame + payload of `bytes` (a multiple of 8). A CONTROL frame
 * is a kf_control (the one with the greatest serial wins; the first two frames of a spool are the
 * two places where it is rewritten in turn); DICTIONARY carries words [first, first + bytes/8), and a
 * later frame replaces an earlier one; CHUNK carries one chunk's used words, perhaps with zero words
 * after them; FREE is unused space.                                                             */
#define KF_SPOOL_MAGIC UINT64_C(0x314c4f4f5053434b) /* "KCSPOOL1" */
typedef struct kf_spool_header {
    uint64_t magic;
    uint32_t version, header_bytes; /* header_bytes = sizeof(kf_spool_header) */
    uint32_t control_bytes, chunk_bytes, dictionary_bytes, collector_pid;
    uint64_t collector_start_time;
    uint8_t boot_id[40];
    char pool_path[1024]; /* the pool this spool belongs to */
} kf_spool_header;
typedef struct kf_frame {
    uint32_t type; /* KF_FRAME_… */
    uint32_t bytes;
    uint32_t first; /* DICTIONARY: word offset; CHUNK: index */
    uint32_t serial;
} kf_frame;
enum { KF_FRAME_CONTROL = 1, KF_FRAME_DICTIONARY = 2, KF_FRAME_CHUNK = 3, KF_FRAME_FREE = 4 };

/* ---- decoder (libckineto only) ----------------------------------------------------------------
 * Takes a dictionary and chunks in any order, validates, orders segments by (cursor, seq), pairs
 * begins with ends across segments and calls back. Never trusts: a bad record ends its segment and
 * is counted; the rest goes on.                                                                 */

/* A decoded dictionary entry of type SITE, or what stands for a missing one. */
typedef struct kf_site {
    kineto_string name;
    uint32_t index; /* dense, in order of first use; 0: the placeholder */
    uint8_t kind, scope, arg_count;
    bool known;      /* false: a placeholder, its args cannot be read */
    bool fixed_args; /* all args are single words */
    kineto_string overload; /* of an operator; empty: none */
    uint8_t arg_types[KINETO_SITE_MAX_ARGS];
    kineto_string arg_names[KINETO_SITE_MAX_ARGS];
} kf_site;

typedef enum kf_event_form {
    KF_FORM_RANGE,   /* start..end on a thread */
    KF_FORM_ASYNC,   /* start..end, id; ended possibly elsewhere */
    KF_FORM_INSTANT,
    KF_FORM_COUNTER,
    KF_FORM_MEMORY,
    KF_FORM_DEVICE
} kf_event_form;

#define KF_EVENT_OPEN_START 1u /* began before what was kept */
#define KF_EVENT_OPEN_END 2u   /* no end was recorded; end is the last known moment */
#define KF_EVENT_ARGS_LOST 4u
#define KF_EVENT_NO_MEMORY  16u /* MEMORY: the allocation failed */
#define KF_EVENT_STILL_OPEN 8u  /* with OPEN_END: it may not have ended at all */

/* Words of packed args together with their types. */
typedef struct kf_args {
    const uint64_t *words; /* NULL: none */
    uint32_t word_count;
    const kf_site *site;   /* types and names; NULL: loose args */
} kf_args;

typedef struct kf_event {
    kf_event_form form;
    uint32_t flags;  /* KF_EVENT_… */
    uint32_t kind;
    uint32_t clock;  /* KINETO_PLUGIN_CLOCK_…: of start and end */
    uint32_t process; /* dictionary id of the PROCESS entry, 0 unknown */
    uint32_t pid, tid;
    uint32_t cursor;
    uint64_t start, end; /* ticks, or device/UTC time as int64 for DEVICE */
    uint64_t least_ns;   /* a RANGE that is shorter is not to be kept */
    kineto_string name;
    const kf_site *site; /* NULL for MEMORY, and for DEVICE unless it has one */
    uint64_t correlation_id, external_id, async_id;
    int32_t device, resource;
    uint32_t source;
    uint32_t spelling; /* DEVICE: see KF_DEVICE_SITE */
    uint32_t set;      /* DEVICE: id of a set that was checked, see kf_set_args; 0: none */
    uint32_t flow_type, flow_id;
    bool flow_start;
    kf_args args;               /* the event's own */
    const kf_args *more_args;   /* from ARGS records, more_count of them */
    uint32_t more_count;
    const struct kf_flow *flows; /* from FLOW records inside the range, innermost only */
    uint32_t flow_count;
    const uint64_t *memory;      /* MEMORY: 5 words: address, bytes, allocated, reserved, device */
    const uint64_t *function;    /* of an operator: its part, checked; see kf_function_read. NULL */
    const uint64_t *outputs;     /* the same of its outputs; NULL */
    uint32_t end_tid;            /* ASYNC: of its end; 0: none was recorded */
} kf_event;

/* The part of an operator, opened. */
typedef struct kf_function {
    uint32_t parts, thread, input_count;
    int64_t sequence, debug_handle; /* -1: none */
    uint64_t forward_thread;        /* 0: none */
    const uint64_t *inputs;
    uint32_t input_words;
    const uint64_t *stack;
    uint32_t stack_count;
    const uint64_t *args; /* loose */
    uint32_t arg_words;
} kf_function;
/** Check a part that starts at `words` and has at most `count`, except its inputs, which are
 *  checked by kf_input_next. @return its words; 0: malformed. */
uint32_t kf_function_check(const uint64_t *words, uint32_t count);
/** Open a part that was checked. */
kf_function kf_function_read(const uint64_t *words);

/* One input of it. */
typedef struct kf_input_item {
    uint32_t type, flags, dtype, device_type, count; /* count: rank, or items of a list */
    int32_t device_index;
    const uint64_t *values; /* of scalars and lists; NULL: not recorded */
    const uint64_t *sizes, *strides, *ids; /* of a tensor; strides, ids: NULL if there are none */
} kf_input_item;
/** Read the next input (or, after a TENSORS, tensor of the list) of a checked part. False: the end,
 *  or a malformed input. */
bool kf_input_next(const uint64_t **at, const uint64_t *end, kf_input_item *item);
/** Size or stride k of a tensor. */
int64_t kf_input_size(const kf_input_item *item, const uint64_t *words, uint32_t k);

typedef struct kf_flow {
    uint32_t type;
    bool start;
    uint64_t id, ticks;
} kf_flow;

typedef struct kf_clock_sample {
    uint32_t process, clock;
    uint64_t ticks_before, ticks_after;
    int64_t device_time;
} kf_clock_sample;

/* A thread of another process, as a recorder saw it. */
typedef struct kf_watched_thread {
    uint32_t process; /* dictionary id of the PROCESS entry, 0 unknown */
    uint32_t pid, tid;
} kf_watched_thread;
typedef struct kf_thread_run {
    kf_watched_thread thread;
    uint64_t start, end; /* ticks */
    uint32_t cpu, flags; /* KF_RUN_… */
    uint64_t woken; /* WOKEN: ticks */
    uint32_t waker_pid, waker_tid;
} kf_thread_run;
typedef struct kf_stack_sample {
    kf_watched_thread thread;
    uint64_t ticks, cpu_ns; /* with FAULT how many faults, in place of ns */
    uint32_t cpu, flags; /* KF_SAMPLE_… */
    uint32_t kernel_count, count; /* the first addresses are of the kernel */
    const uint64_t *addresses;
} kf_stack_sample;
typedef struct kf_thread_life {
    kf_watched_thread thread;
    uint64_t start, end; /* ticks */
    uint32_t creator_tid, flags; /* KF_LIFE_… */
} kf_thread_life;

/* What the decoder calls. Any member may be NULL. Pointers are valid during the call. */
typedef struct kf_visitor {
    void *context;
    kineto_status (*event)(void *, const kf_event *);
    kineto_status (*clock_sample)(void *, const kf_clock_sample *);
    /* of_system: the system's name, not one that the program set by kineto_thread_set_name. */
    kineto_status (*thread_name)(void *, uint32_t process, uint32_t pid, uint32_t tid,
                                 kineto_string, bool of_system);
    kineto_status (*thread_run)(void *, const kf_thread_run *);
    kineto_status (*stack_sample)(void *, const kf_stack_sample *);
    kineto_status (*thread_life)(void *, const kf_thread_life *);
    /* One per dictionary entry of a table type (PROCESS … LEDGER): payload bytes, unparsed. */
    kineto_status (*entry)(void *, uint32_t id, kf_entry_type, const uint8_t *, size_t);
} kf_visitor;

/* Where chunks come from. get() returns words valid until the next get(), *words receives how
 * many; NULL with an error when unreadable. */
typedef struct kf_input {
    const uint64_t *dictionary;
    uint32_t dictionary_words;
    uint32_t chunk_count;
    const uint64_t *(*get)(void *context, uint32_t index, uint32_t *words, kineto_error *);
    /* The same for reading headers only, may point into the source itself. NULL, or returns NULL:
     * get is used. */
    const uint64_t *(*peek)(void *context, uint32_t index, uint32_t *words);
    void *context;
    /* Called when this chunk is not needed any more. May be NULL. */
    void (*done)(void *context, uint32_t index);
    /* Segments that are missing before from_ticks or after until_ticks (0: no end) are not counted:
     * they are not wanted, and a pool in use has the last ones only in part. */
    uint64_t from_ticks, until_ticks;
} kf_input;

typedef struct kf_decode_result {
    uint64_t records, segments;
    uint64_t bad_records; /* malformed: the rest of their segment was skipped */
    uint64_t bad_entries;
    uint64_t unmatched_ends, open_ranges, missing_segments;
    uint64_t throttled;            /* throttled ranges, from THROTTLED records */
    uint64_t unmatched_parts; /* flows and args without an open range */
    uint64_t first_ticks, last_ticks; /* of everything that has ticks; 0 if nothing */
} kf_decode_result;

kineto_status kf_decode(const kf_input *input, const kf_visitor *visitor,
                        kf_decode_result *result, kineto_error *err);

/* Walk packed or loose args. */
typedef struct kf_arg {
    kineto_string name;
    uint32_t type; /* kineto_arg_type */
    const uint64_t *value; /* packed value, word_count words, already validated */
    uint32_t word_count;   /* of what is inline: may be 0 */
    uint32_t int_count;
    const uint64_t *ints; /* INTS: the items, int_count */
    kineto_string text;   /* STRING, JSON: the bytes, wherever they lie */
} kf_arg;
typedef struct kf_args_iterator {
    kf_args args;
    const uint64_t *dictionary;
    uint32_t dictionary_words, position, index;
} kf_args_iterator;
void kf_args_begin(kf_args_iterator *it, const kf_args *args, const kf_input *input);
bool kf_args_next(kf_args_iterator *it, kf_arg *arg);

/** Args of a set, with only their bounds checked; empty when the id is not that of a set. */
kf_args kf_set_args(const uint64_t *dictionary, uint32_t words, uint32_t id);

/** Bytes of a text at *words (inline or dictionary); advances *words past it. */
kineto_string kf_text(const kf_input *input, const uint64_t **words);
/** Next `u32 size + bytes` of an entry's payload; empty when out of bounds. */
kineto_string kf_entry_text(const uint8_t *payload, size_t size, size_t *at);
#endif
