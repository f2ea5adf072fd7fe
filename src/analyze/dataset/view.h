/* What the tables of steps, operators, devices and memory are made from: operators as trees, what
 * devices did for them, when each role was busy, and the spans of steps. Filled from a dataset
 * (view_exact.c), or as the TensorBoard plug-in reads a trace (view_plugin.c) where the definitions
 * are those of other tools. */
#ifndef KA_VIEW_H
#define KA_VIEW_H

#include "analyze/dataset/dataset.h"
#include "trace/bytes/json_value.h"

/** What time of a step is given to, the first one that was busy. */
typedef enum ka_role {
    KA_ROLE_KERNEL,
    KA_ROLE_MEMCPY,
    KA_ROLE_MEMSET,
    KA_ROLE_COMMUNICATION,
    KA_ROLE_RUNTIME,
    KA_ROLE_DATALOADER,
    KA_ROLE_CPU,
    KA_ROLE_COUNT
} ka_role;

/** A call of an operator. In the order of (thread, start, longer first): its callees follow it. */
typedef struct ka_op {
    int64_t start_ns, end_ns;
    int64_t host_self_ns;
    int64_t device_ns, device_self_ns; /* launched by it and its callees; by itself */
    int64_t tensor_ns, tensor_self_ns; /* of these: by kernels that use tensor cores */
    kineto_row row;
    uint32_t name, track;
    uint32_t thread; /* those of one follow one another, by start */
    uint32_t parent; /* index of ops; KA_NONE: outermost */
    uint32_t next;   /* first one behind its callees */
    bool shown;      /* it is in tables of operators */
    bool merged;     /* it counts as its parent */
} ka_op;

typedef struct ka_done {
    int64_t start_ns, end_ns;
    kineto_row row;
    uint32_t name;
    uint32_t op;    /* index of ops; KA_NONE: nobody knows */
    int64_t device; /* -1: not known */
    uint8_t kind;   /* kineto_kind */
    bool tensor;
    bool unlisted; /* tables of kernels by operator leave it out */
} ka_done;

/** A piece of communication, as ranks compare it. */
typedef struct ka_communication {
    int64_t start_ns, end_ns, bytes;
    kineto_string name; /* of the trace */
    uint32_t window;
    uint32_t part; /* 0, or of the one before: one collective may have several pieces */
} ka_communication;

/** The span of a step: until the last of what it launched ended, after the step of its process
 * before. */
typedef struct ka_window {
    int64_t start_ns, end_ns;
    uint64_t number;
    uint32_t process;
} ka_window;

/** What a process with steps did, where several have some: their steps run at the same time. */
typedef struct ka_team {
    uint32_t process;
    ka_spans roles[KA_ROLE_COUNT];
} ka_team;

typedef KB_VEC(ka_op) ka_op_list;
typedef KB_VEC(ka_done) ka_done_list;
typedef KB_VEC(ka_communication) ka_communication_list;
typedef KB_VEC(ka_window) ka_window_list;

typedef struct ka_view {
    const ka_dataset *dataset;
    ka_op_list ops;
    ka_done_list done; /* by start */
    ka_spans roles[KA_ROLE_COUNT];
    ka_communication_list communication; /* by start */
    ka_window_list windows;              /* never empty, unless the trace is; by start */
    KB_VEC(ka_team) teams;               /* empty, unless several processes have steps */
    bool has_steps;
    struct ka_inputs *inputs; /* see ka_inputs_of */
    struct ka_view *before;   /* made before more was needed */
} ka_view;

/* Parts of a view; windows are always there. */
#define KA_VIEW_OPS           1u
#define KA_VIEW_DONE          2u /* `op` with KA_VIEW_OPS */
#define KA_VIEW_ROLES         4u
#define KA_VIEW_COMMUNICATION 8u
#define KA_VIEW_CALLS         16u /* of ka_inputs */
#define KA_VIEW_FLOPS         32u

/** Made once for all analyses of a dataset, which it belongs to; what is in it does not change.
 *  @param parts  that are needed here; it has more. */
kineto_status ka_view_get(const ka_dataset *s, uint32_t parts, ka_view *view, kineto_error *err);
/** Parts that analyses of the wanted tables need. */
uint32_t ka_view_parts(kineto_analysis *a);
void ka_view_destroy(ka_view *view);
/** Windows and roles that belong together: those of a team, or all. At least one. */
static inline size_t ka_team_count(const ka_view *v) { return v->teams.count ? v->teams.count : 1; }
static inline bool ka_in_team(const ka_view *v, size_t team, const ka_window *w)
{
    return !v->teams.count || v->teams.data[team].process == w->process;
}
static inline const ka_spans *ka_team_roles(const ka_view *v, size_t team)
{
    return v->teams.count ? v->teams.data[team].roles : v->roles;
}
/** The end of the last window. */
int64_t ka_view_end_ns(const ka_view *v);
/** Name of a window: the number of its step, or "all". */
kb_text ka_window_name(const ka_view *v, const ka_window *w);
/** Sums over the trees of operators: device_ns and tensor_ns of callees, to their callers. `next`
 * is set, too. */
void ka_ops_add_up(ka_op_list *ops);

/** view_exact.c: ka_definitions.fill_view of the exact definitions. */
bool ka_view_fill(ka_view *v, uint32_t parts);

/* ---- inputs of operators (view_inputs.c) ---- */
/** What calls with the same name, inputs and stack have in common, as bytes: the name's string id,
 *  that of the stack in `stacks`, and the text of the inputs' sizes. */
#define KA_CALL_HEAD (2 * sizeof(uint32_t))
typedef struct ka_inputs {
    pthread_mutex_t lock;
    uint32_t parts;     /* KA_VIEW_CALLS, KA_VIEW_FLOPS */
    kb_intern calls;    /* ids by the rows of their first ones; none is 0 */
    kb_intern stacks;   /* as the file has them */
    uint32_t *call_of;  /* by row, of operators that are looked at */
    uint64_t *flops;    /* by row: what its callees do included; 0 unless they are known */
    uint64_t *unusable; /* bits by row: somebody counts it, its inputs do not say enough */
    bool made, no_memory;
} ka_inputs;
/** Made when it is first asked for, which may be in any thread, of the parts that wanted tables
 *  need; does not change then. NULL: out of memory. With the plug-in's definitions `v` must have
 *  its operators. */
const ka_inputs *ka_inputs_of(const ka_view *v);
ka_inputs *ka_inputs_create(uint32_t parts);
void ka_inputs_free(ka_inputs *in);
static inline void ka_call_names(const ka_inputs *in, uint32_t call, uint32_t *name,
                                 uint32_t *stack)
{
    const char *key = kb_intern_get(&in->calls, call).data;
    memcpy(name, key, sizeof *name);
    memcpy(stack, key + sizeof *name, sizeof *stack);
}
static inline kineto_string ka_call_shapes(const ka_inputs *in, uint32_t call)
{
    kineto_string key = kb_intern_get(&in->calls, call);
    return (kineto_string){key.data + KA_CALL_HEAD, key.size - KA_CALL_HEAD};
}

/* ---- names (view.c) ---- */
static inline char ka_small(char c) { return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c; }
/** A wait for the next batch: "enumerate(DataLoader)#….__next__". */
bool ka_is_dataloader(kineto_string name);
/** Operators that multiply matrices, convolve, attend or are recurrent, whatever their library. */
bool ka_is_eligible(kineto_string op);

/* ---- arguments in bulk (view_args.c) ---- */
/** Names of members that are looked for together, in one walk. */
#define KA_MOST_KEYS 6
#define KA_KEY(text)                                                                               \
    {                                                                                              \
        text, sizeof(text) - 1                                                                     \
    }
typedef struct ka_keys {
    uint32_t count;
    char firsts[4]; /* letters that they begin with, some of them again if there are fewer */
    kineto_string key[KA_MOST_KEYS];
} ka_keys;
extern const ka_keys ka_dims_and_types; /* "Input Dims" and "Input type" */
/** Members of a JSON object, as they stand there; empty if it has none of this name. */
void ka_json_members(kineto_string object, const ka_keys *keys, kineto_string *values);
kineto_string ka_json_member(kineto_string object, const char *key);
/** The same of one member, a text without quotes and escapes. Valid as texts of arguments. */
kineto_string ka_json_text(kineto_string object, const char *key);
/** Arguments as texts: texts without quotes and escapes, numbers as JSON has them, lists and objects as they
 *  are spelled (see trace/bytes/json_value.h); empty if a row has none. Valid until the args of KT_TEXT_VIEWS
 *  other rows, or KT_TEXT_ROOMS other arguments are looked at. */
void ka_arg_texts(const kineto_trace *t, kineto_row row, const ka_keys *keys,
                  kineto_string *values);
kineto_string ka_arg_text(const kineto_trace *t, kineto_row row, const char *key);
/** Lists of sizes in their one spelling; those of an operator's inputs. Valid as texts of arguments. */
kineto_string ka_sizes_text(kineto_string raw);
kineto_string ka_input_sizes(const kineto_trace *t, kineto_row row);
/** Numbers of arguments. @return bits of those that there are; others have no value, whole ones
 *  keep what `out` had. */
uint32_t ka_arg_numbers(const kineto_trace *t, kineto_row row, const ka_keys *keys, double *out);
uint32_t ka_arg_ints(const kineto_trace *t, kineto_row row, const ka_keys *keys, int64_t *out);
bool ka_arg_int(const kineto_trace *t, kineto_row row, const char *key, int64_t *out);
/** Bytes of tensors, by their sizes and types: those of "Input Dims" and "Input type". */
int64_t ka_input_bytes(const kineto_trace *t, kineto_row row, bool with_scalars);
/** Bytes that a kernel says it sent: "In msg nelems" and "dtype". -1: it does not say. */
int64_t ka_message_bytes(const kineto_trace *t, kineto_row row);
#endif
