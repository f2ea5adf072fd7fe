/* The part of a trace that HTA keeps, with its whole microseconds. */
#include "analyze/scope.h"

kineto_status ka_scope_fill_hta(ka_scope *s, const kineto_analyze_options *options,
                                const ka_rules *rules, kineto_error *err)
{
    (void)s;
    (void)options;
    (void)rules;
    return kb_fail(err, KINETO_E_UNSUPPORTED, "not there yet");
}
