/* What readers of facts files share with those who join them. */
#ifndef KA_FACTS_READ_H
#define KA_FACTS_READ_H

#include "analyze/saved/facts_file.h"

/** Give up the descriptor and the memory of the sections that were read, until the next one is read: for lists of
 *  many files. */
void ka_facts_file_rest(ka_facts_file *f);
bool ka_facts_file_has_error(const ka_facts_file *f, uint32_t trace);
bool ka_facts_file_has_results(const ka_facts_file *f);
/** The sections of a trace as they are; their checksums are compared on the way. */
kineto_status ka_facts_file_copy(ka_facts_file *f, uint32_t trace, ka_section_writer *to, kineto_error *err);
/** A number that differs for different sections of a trace. */
kineto_status ka_facts_file_digest(ka_facts_file *f, uint32_t trace, uint32_t *digest, kineto_error *err);
/** Rows of all ranks of a trace. */
kineto_status ka_facts_file_row_count(ka_facts_file *f, uint32_t trace, uint64_t *rows, kineto_error *err);
#endif
