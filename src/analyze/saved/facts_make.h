/* Makes the facts of traces: one trace in memory at a time. */
#ifndef KA_FACTS_MAKE_H
#define KA_FACTS_MAKE_H

#include "analyze/saved/facts_file.h"

/** How much is kept: each level has all of those before. */
typedef enum ka_facts_level { KA_FACTS_OF_RANKS, KA_FACTS_WITH_FINDINGS, KA_FACTS_WITH_ALL } ka_facts_level;
/** "default", "findings", "all": ka_facts_source.options. */
const char *ka_facts_level_name(ka_facts_level level);

/** Measure a trace for a facts file. One that cannot be read is no failure: its facts say why.
 *  @param index   the rank of a trace that names none.
 *  @param arena   for texts of `facts`; @param why  keeps the message of a trace that cannot be read.
 *  @param facts   its source has the path; to be freed, also on failure.
 *  @return only KINETO_E_MEMORY, which may go away. threads: any. */
kineto_status ka_trace_facts_make(const char *path, uint32_t index, ka_facts_level level, const kineto_open_options *reading,
                                  kb_arena *arena, ka_trace_facts *facts, kineto_error *why);
void ka_trace_facts_free(ka_trace_facts *facts);
/** Write the facts of all files, one after the other, to the file of a run, without tables over all ranks.
 *  @param progress  as kineto_open_many_options.progress; NULL. */
kineto_status ka_facts_save_traces(const kineto_files *files, const kineto_open_options *reading,
                                   void (*progress)(uint32_t index, uint32_t count, const char *path, void *user),
                                   const char *path, kineto_error *err);
#endif
