/* Inside of the builder: what its two files share. */
#ifndef KR_ANNOUNCE_H
#define KR_ANNOUNCE_H

#include "record/host.h"

#define KR_LAST_CLOCK 15

/** Count, and say no. */
int kr_refuse(const kr_builder *b, kf_reason reason);
/** Begin a call of the builder; NULL: it is over (counted as `when_late`). End it with
 *  kr_plugin_exit. */
kr_cursor *kr_builder_enter(kr_builder *b, kf_reason when_late);
/** Kind of a type that is enabled; 0xff: counted. */
uint8_t kr_builder_kind(const kr_builder *b, uint32_t type_index);
bool kr_loose_add(const kr_builder *b, kr_pending *p, const KinetoPlugin_Metadata *m);
/** The members that announce devices, clocks, counters and header entries. */
void kr_announce_init(KinetoPlugin_TraceBuilder *table);

/* ---- sets.c ---- */
int kr_register_metadata_set(kr_builder *b, const KinetoPlugin_Metadata *list, size_t count,
                             uint32_t *number);
/** Dictionary id of a registered set; 0: there is none of this number. */
uint32_t kr_set_id(const kr_builder *b, uint32_t number);
void kr_value_sets_free(kr_value_sets *sets);

/* ---- lines.c ---- */
int kr_add_ledger_line(kr_builder *b, const char *reason, uint64_t count, int32_t is_loss,
                       const char *detail);
/** A session begins; a session has ended and nobody calls any more. */
void kr_lines_reset(kr_builder *b);
void kr_lines_flush(kr_builder *b);
void kr_lines_free(kr_lines *lines);

#endif
