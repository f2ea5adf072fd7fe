/* Compares what Intel's header of ITT declares with our words for it; compiled by
 * test_emission_peers.py where the header is. */
#include <ittnotify.h>

#include "profiler/itt.h"

#include <stddef.h>

#define SAME(ours, theirs) _Static_assert((ours) == (theirs), #ours " is " #theirs)
#define SAME_PLACE(ours, our_member, theirs, their_member)                                         \
    SAME(offsetof(ours, our_member), offsetof(theirs, their_member));                              \
    SAME(sizeof(((ours *)0)->our_member), sizeof(((theirs *)0)->their_member))

SAME(KP_ITT_MAJOR, ITT_MAJOR);
SAME(KP_ITT_MINOR, ITT_MINOR);
SAME(KP_ITT_SCOPE_TRACK, __itt_scope_track);
SAME(sizeof(kp_itt_id), sizeof(__itt_id));
SAME_PLACE(kp_itt_id, d2, __itt_id, d2);
SAME(sizeof(kp_itt_domain), sizeof(__itt_domain));
SAME_PLACE(kp_itt_domain, flags, __itt_domain, flags);
SAME_PLACE(kp_itt_domain, name, __itt_domain, nameA);
SAME_PLACE(kp_itt_domain, wide_name, __itt_domain, nameW);
SAME_PLACE(kp_itt_domain, extra1, __itt_domain, extra1);
SAME_PLACE(kp_itt_domain, extra2, __itt_domain, extra2);
SAME_PLACE(kp_itt_domain, next, __itt_domain, next);
SAME(sizeof(kp_itt_string), sizeof(__itt_string_handle));
SAME_PLACE(kp_itt_string, text, __itt_string_handle, strA);
SAME_PLACE(kp_itt_string, wide_text, __itt_string_handle, strW);
SAME_PLACE(kp_itt_string, extra1, __itt_string_handle, extra1);
SAME_PLACE(kp_itt_string, extra2, __itt_string_handle, extra2);
SAME_PLACE(kp_itt_string, next, __itt_string_handle, next);

int main(void) { return 0; }
