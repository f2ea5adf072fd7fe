/* The trace that facts are of, as it was when it was read: the section SRCE. */
#ifndef KA_FACTS_SOURCE_H
#define KA_FACTS_SOURCE_H

#include "analyze/saved/byte_coding.h"

#include <ckineto/files.h>

typedef struct ka_facts_source {
    kineto_string version; /* of the ckineto that read it */
    kineto_string path;    /* absolute */
    kineto_string options; /* what was asked for: "default", "findings", "all" */
    uint64_t bytes;        /* of the file */
    int64_t modified_ns;   /* when the file was written, since the epoch */
    int64_t rank;          /* -1: not known, or several */
    uint32_t rank_count, world_size;
    int64_t pid;
    kineto_string host, backend, conflict;
    int64_t start_ns, end_ns; /* of its window */
    uint64_t activities, lost, text_bytes;
    bool is_cut;
    uint64_t fingerprint; /* kt_trace_fingerprint */
    uint8_t learned[5];   /* kineto_learned: of rank, world size, process, host, backend */
} ka_facts_source;

void ka_write_source(ka_byte_writer *w, const ka_facts_source *s);
/** Texts are copied into the arena. False: out of memory, or r->is_bad. */
bool ka_read_source(ka_byte_reader *r, kb_arena *arena, ka_facts_source *s);
/** Set path, size and time of the file, and the path itself. @param arena  for the path. False: out of memory. A file
 *  that is not there has neither. */
bool ka_describe_source_file(const char *path, kb_arena *arena, ka_facts_source *s);
/** Set what the trace says of itself. Texts are copied into the arena. @param rank  what its name or place says, where
 *  it does not. False: out of memory. */
bool ka_describe_source_trace(const kineto_trace *trace, int32_t rank, kb_arena *arena, ka_facts_source *s);
/** What the trace said of itself, as when it is read. */
void ka_source_identity(const ka_facts_source *s, kineto_identity *out);
/** A number that is equal for equal paths. */
uint64_t ka_hash_source_path(kineto_string path);
/** Is the file still the one that was read, by this version and with these options, or more? */
bool ka_is_same_source(const ka_facts_source *made, const ka_facts_source *now);
#endif
