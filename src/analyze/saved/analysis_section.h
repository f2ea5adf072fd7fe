/* Tables of facts (kineto_analysis) as bytes of a section. */
#ifndef KA_ANALYSIS_SECTION_H
#define KA_ANALYSIS_SECTION_H

#include "analyze/saved/byte_coding.h"
#include "analyze/tables/table.h"

/** These tables, which must be wanted ones, and the traces that they are of. Not what ranks are compared by. */
void ka_write_analysis(ka_byte_writer *w, const kineto_analysis *a, ka_table_set tables);
/** Fill the wanted tables of `a`, which has no rows yet, and its traces. Columns are found by name and type, so that
 *  others may be there; those that are not have no values.
 *  @param loaded  receives the tables that were there. False: out of memory, or r->is_bad. */
bool ka_read_analysis(ka_byte_reader *r, kineto_analysis *a, ka_table_set *loaded);
/** The tables that this version knows, without their rows. */
ka_table_set ka_list_saved_tables(ka_byte_reader *r);
#endif
