/* Inside of the builder: what its two files share. */
#ifndef KR_ANNOUNCE_H
#define KR_ANNOUNCE_H

#include "record/host.h"

#define KR_LAST_CLOCK 15

/** Count, and say no. */
int kr_refuse(const kr_builder *b, kf_reason reason);
/** Begin a call of the builder; NULL: it is over (counted as `when_late`). End it with
 *  kr_inside_leave. */
kr_cursor *kr_builder_enter(kr_builder *b, kf_reason when_late);
/** Kind of a type that is enabled; 0xff: counted. */
uint8_t kr_builder_kind(const kr_builder *b, uint32_t type_index);
bool kr_loose_add(const kr_builder *b, kr_pending *p, const KinetoPlugin_Metadata *m);
/** The members that announce devices, clocks, counters and header entries. */
void kr_announce_init(KinetoPlugin_TraceBuilder *table);

#endif
