/* What the files of the builder share: builder.c (events), announce.c (everything else), sets.c
 * (metadata sets) and lines.c (ledger lines). */
#ifndef KR_ANNOUNCE_H
#define KR_ANNOUNCE_H

#include "record/host.h"

#define KR_LAST_CLOCK 15

/** Count the reason for the builder's source. @return 1, the error code of builder calls. */
int kr_refuse(const kr_builder *b, kf_reason reason);
/** Begin a call of the builder; end it with kr_plugin_exit. NULL: the session has ended, counted as
 *  `when_late`, or the thread cannot enter. */
kr_cursor *kr_builder_enter(kr_builder *b, kf_reason when_late);
/** Kind of an enabled type; 0xff: not enabled or unknown (counted). */
uint8_t kr_builder_kind(const kr_builder *b, uint32_t type_index);
/** Append a loose arg to p->loose. False: invalid or too long (counted). */
bool kr_loose_add(const kr_builder *b, kr_pending *p, const KinetoPlugin_Metadata *m);
/** Set the members of a builder's table that announce.c, sets.c and lines.c implement. */
void kr_announce_init(KinetoPlugin_TraceBuilder *table);

/* ---- sets.c ---- */
int kr_register_metadata_set(kr_builder *b, const KinetoPlugin_Metadata *list, size_t count,
                             uint32_t *number);
/** Dictionary id of a registered set; 0: no set has this number. */
uint32_t kr_set_id(const kr_builder *b, uint32_t number);
void kr_value_sets_free(kr_value_sets *sets);

/* ---- lines.c ---- */
int kr_add_ledger_line(kr_builder *b, const char *reason, uint64_t count, int32_t is_loss,
                       const char *detail);
/** A session begins: forget the lines of the one before. */
void kr_lines_reset(kr_builder *b);
/** The session has ended and no thread is inside the builder: write what was not written yet. */
void kr_lines_flush(kr_builder *b);
void kr_lines_free(kr_lines *lines);

#endif
