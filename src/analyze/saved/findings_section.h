/* Findings of a trace as bytes of a section. What they compare ranks by is in the other sections. */
#ifndef KA_FINDINGS_SECTION_H
#define KA_FINDINGS_SECTION_H

#include "analyze/findings/finding.h"
#include "analyze/saved/byte_coding.h"

/** @param repeated_steps  kineto_overview.repeated_steps. */
void ka_write_findings(ka_byte_writer *w, const kineto_findings *f, const char *repeated_steps);
/** Fill `f`, which is zeroed, with those of the rules `f->chosen`; without tables. Rules that this version does not have are
 *  left out. @param repeated_steps  a view of the bytes. False: out of memory, or r->is_bad. */
bool ka_read_findings(ka_byte_reader *r, kineto_findings *f, kineto_string *repeated_steps);
#endif
