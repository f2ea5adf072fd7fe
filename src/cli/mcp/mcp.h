/* What the files of `ckineto mcp` share: a server of the Model Context Protocol, through which programs that use
 * language models read traces. protocol.c speaks JSON-RPC on the standard streams; tools.c lists the tools; each
 * tool_….c has some; arguments.c checks what a client passes; answer.c keeps answers small; traces.c keeps the last
 * traces open. One thread. */
#ifndef KC_MCP_H
#define KC_MCP_H

#include "analyze/overview/coverage.h"
#include "base/base.h"

#include <ckineto/facts.h>
#include <ckineto/files.h>
#include <ckineto/overview.h>
#include <ckineto/trace.h>

/* ---- arguments.c ----------------------------------------------------------------------------- */
typedef enum kc_mcp_type { KC_MCP_TEXT, KC_MCP_NUMBER } kc_mcp_type;
/* An argument of a tool: the source of its JSON Schema and of its check. */
typedef struct kc_mcp_argument {
    const char *name;
    kc_mcp_type type;
    bool is_required;
    uint64_t min, max, initial; /* of a number; max is also the longest text in bytes, 0: 4096 */
    const char *choices;        /* "svg|text": the values of a text; NULL: any */
    const char *about;
} kc_mcp_argument;
#define KC_MCP_ARGUMENTS 12u
typedef struct kc_mcp_value {
    bool is_given;
    const char *text; /* NULL: not given */
    uint64_t number;
} kc_mcp_value;

typedef struct kc_mcp_call kc_mcp_call;
typedef struct kc_mcp_tool {
    const char *name, *title, *about;
    bool writes; /* a file; only with --output-dir */
    const kc_mcp_argument *arguments;
    size_t argument_count;
    kineto_status (*run)(kc_mcp_call *call, kineto_error *err);
} kc_mcp_tool;

/** Check the members of the object `given` (may be empty) and store them in call->values.
 *  @return KINETO_E_ARGUMENT, which names the argument and what it should be. */
kineto_status kc_mcp_read_arguments(kc_mcp_call *call, kineto_string given, kineto_error *err);
/** The JSON Schema of the arguments. */
void kc_mcp_put_schema(kb_json *j, const kc_mcp_tool *tool);
/** Values by name; the name must be one of the tool's arguments. NULL: not given. */
const char *kc_mcp_text(const kc_mcp_call *call, const char *name);
uint64_t kc_mcp_number(const kc_mcp_call *call, const char *name);
bool kc_mcp_is_given(const kc_mcp_call *call, const char *name);
/* Arguments that several tools have. */
#define KC_MCP_PATH(name, about) {name, KC_MCP_TEXT, true, 0, 0, 0, NULL, about}
#define KC_MCP_TRACE KC_MCP_PATH("path", "trace file, or folder with the traces of several ranks; or facts files of them (.ckfacts, .ckrun, a folder)")
#define KC_MCP_OFFSET                                                                              \
    {"offset", KC_MCP_NUMBER, false, 0, UINT32_MAX, 0, NULL, "items to skip: more.offset of the last answer"}
#define KC_MCP_LIMIT(initial)                                                                      \
    {"limit", KC_MCP_NUMBER, false, 1, 1000, initial, NULL, "items at most; fewer if 4 KB are full"}
#define KC_MCP_TEXT_LIMIT                                                                          \
    {"text_limit", KC_MCP_NUMBER, false, 0, 3000, 120, NULL, "bytes after which a text is cut"}

/* ---- answer.c -------------------------------------------------------------------------------- */
#define KC_MCP_ANSWER_BYTES 4096u /* of the text of an answer, at most */
/* The text of an answer: one JSON object. */
typedef struct kc_mcp_answer {
    kb_sink *sink; /* NULL: not begun */
    kb_json j;
} kc_mcp_answer;

struct kc_mcp_call {
    struct kc_mcp_server *server;
    const kc_mcp_tool *tool;
    kc_mcp_value values[KC_MCP_ARGUMENTS];
    kb_arena arena; /* texts of values */
    kc_mcp_answer answer;
    char *explanation; /* of an error, in place of its message; to be freed */
    char *image;       /* to be freed; NULL: none */
    size_t image_bytes;
    const char *image_type;
};

/** Begin the object of the answer with its schema, and return its writer; NULL with an error. */
kb_json *kc_mcp_begin(kc_mcp_call *call, const char *schema, kineto_error *err);
/** Write item `index`, with texts cut at `text_limit`. @return KINETO_E_NOT_FOUND: there is none. */
typedef kineto_status kc_mcp_put_item(kb_json *j, void *context, uint64_t index, uint64_t text_limit,
                                      kineto_error *err);
/* Items of a page: those from `first` on, `limit` at most. */
typedef struct kc_mcp_page {
    const char *key;
    uint64_t first, limit, count; /* count: UINT64_MAX if it is unknown */
    uint64_t text_limit;
    kc_mcp_put_item *put;
    void *context;
} kc_mcp_page;
/** Set first, limit and text_limit from the call's arguments, where the tool has them. */
kc_mcp_page kc_mcp_page_of(const kc_mcp_call *call, const char *key, uint64_t count, kc_mcp_put_item *put,
                           void *context);
/** Write the array of a page, as far as the answer has room, and "more": the offset of the next part and the number
 *  of items left, if there are any. The answer must end after it. */
kineto_status kc_mcp_put_page(kc_mcp_call *call, const kc_mcp_page *page, kineto_error *err);
/** A text of at most `limit` bytes; "…" ends one that was cut. */
void kc_mcp_put_text(kb_json *j, kineto_string text, uint64_t limit);
/** Six digits: more would only fill the answer. */
void kc_mcp_put_number(kb_json *j, double value);
/** A member with such a text. */
void kc_mcp_put_member(kb_json *j, const char *key, kineto_string text, uint64_t limit);

/* ---- traces.c -------------------------------------------------------------------------------- */
#define KC_MCP_TRACES 4u
typedef struct kc_mcp_trace {
    char *path;
    uint64_t identity; /* of the files: names, sizes, times */
    uint64_t serial;   /* of this reading; 0: free */
    uint64_t used;     /* when it was used last */
    kineto_trace *trace;       /* NULL: facts files, in … */
    kineto_facts *run;
    ka_coverage coverage;      /* which ranks there are, and damaged files */
    kineto_overview *overview; /* NULL: not made yet */
    kineto_findings *found;    /* of facts files; NULL: not made yet */
    kineto_analysis *facts;    /* of the table `table`, if that is not in the overview; of facts files "": all */
    char *table;
} kc_mcp_trace;

typedef struct kc_mcp_server {
    kc_mcp_trace traces[KC_MCP_TRACES];
    uint64_t clock;
    const char *output_dir; /* NULL: no tool writes */
    kineto_analysis *diff;  /* of the traces with these serials */
    uint64_t diff_of[2];
} kc_mcp_server;

/** The trace of a path, or facts files, which stay open for later calls unless a file changes. Valid until the next call.
 *  @param kept  serial of a trace that must not be closed for it; 0: none. */
kineto_status kc_mcp_open(kc_mcp_server *server, const char *path, uint64_t kept, kc_mcp_trace **out,
                          kineto_error *err);
/** The same for a tool that needs activities: facts files are KINETO_E_UNSUPPORTED. */
kineto_status kc_mcp_open_trace(kc_mcp_call *call, kc_mcp_trace **out, kineto_error *err);
/** Findings, borrowed. @param start_ns  receives the begin of the trace, or of the first one. */
kineto_status kc_mcp_findings(kc_mcp_trace *t, const kineto_findings **out, int64_t *start_ns, kineto_error *err);
/** All tables that facts files have, borrowed. */
kineto_status kc_mcp_kept_tables(kc_mcp_trace *t, const kineto_analysis **out, kineto_error *err);
kineto_status kc_mcp_overview(kc_mcp_trace *t, kineto_overview **out, kineto_error *err);
/** A table of facts by name: which analysis has it, and its index there. */
kineto_status kc_mcp_find_table(kc_mcp_trace *t, const char *name, const kineto_analysis **facts,
                                uint32_t *table, kineto_error *err);
void kc_mcp_close_all(kc_mcp_server *server);

/* ---- tools ----------------------------------------------------------------------------------- */
extern const kc_mcp_tool kc_mcp_open_tool, kc_mcp_findings_tool, kc_mcp_analyze_tool, kc_mcp_diff_tool,
    kc_mcp_query_tool, kc_mcp_slice_tool, kc_mcp_picture_tool;
/** The tools of this server, in a fixed order; NULL past the end. */
const kc_mcp_tool *kc_mcp_tool_at(const kc_mcp_server *server, size_t index);
const kc_mcp_tool *kc_mcp_find_tool(const kc_mcp_server *server, kineto_string name);

/* ---- protocol.c ------------------------------------------------------------------------------ */
/** Answer messages from the standard input until it ends. @return KINETO_E_IO: an answer could not be written. */
kineto_status kc_mcp_serve(kc_mcp_server *server, kineto_error *err);
#endif
