/* What /proc says of processes that are there already: for a source that attaches to them. */
#ifndef KU_ATTACH_H
#define KU_ATTACH_H

#include "cpu/watched.h"

/** Called with each thread of a process. */
typedef void ku_thread_visitor(void *context, uint32_t pid, uint32_t tid);
/** Visit the threads of a process and of all processes that descend from it.
 *  @return threads visited; 0: there is no such process, or /proc cannot be read. */
size_t ku_attach_visit_threads(uint32_t pid, ku_thread_visitor *visit, void *context);
/** Note a process' name and the code in its memory. */
void ku_attach_read_process(ku_watched *w, ku_process *p);
/** The same of one line of /proc/PID/maps, which is changed. */
void ku_attach_add_mapping(ku_watched *w, ku_process *p, char *line);
#endif
