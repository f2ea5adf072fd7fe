/* How sound the traces of facts are, for the first lines of a verb. */
#ifndef KC_FACTS_HEALTH_H
#define KC_FACTS_HEALTH_H

#include "analyze/saved/facts_paths.h"
#include "cli/open_many.h"
#include "cli/print_facts.h"

/** Add the health of all traces, as when they are read, and to `set` which of them are damaged. Fails if none could be
 *  read. */
kineto_status kc_add_facts_health(const ka_facts_set *s, kc_health *health, kc_file_set *set, kineto_error *err);
#endif
