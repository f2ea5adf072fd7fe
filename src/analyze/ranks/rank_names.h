/* Says in words which ranks: those of a group, on which host, and which are absent; and what a cause is. */
#ifndef KA_RANK_NAMES_H
#define KA_RANK_NAMES_H

#include "analyze/ranks/rank_windows.h"

/** What follows for waiting if members of compared collectives are absent: "rank 7 is missing: it may have come last, …".
 *  Without rows, as of a run in windows, no member is known to be absent. threads: any.
 *  @param text  of 200 bytes or more, else the end is cut. False: no member is absent, and nothing is written. */
bool ka_say_absent(const ka_rank_view *v, char *text, size_t size);
/** "16-23", "1, 3, 5, 7 and 12 more": the ranks that have a group, or any that is of the same process group.
 *  @param group  an index of groups of the model. Needs no rows: it works for runs in windows, too. threads: any. */
kb_text ka_list_members(const ka_rank_model *m, uint32_t group, bool of_process_group);
/** The host of a rank. @param rank  an index of the model's ranks. @return a text of the facts, which live as long as the model's. */
kineto_string ka_host_of_rank(const ka_rank_model *m, uint32_t rank);
typedef struct ka_link_text {
    char s[160];
} ka_link_text;
/** Of a cause that is a link: "group 3 (mesh_dp_shard)", "the link between node001 and node002", "the network links of node001",
 *  "group 9 (mesh_dp) and others of its hosts". threads: any. */
ka_link_text ka_name_link(const ka_rank_model *m, const ka_rank_cause *c);
/** Is a rank at one of its ends? */
bool ka_is_rank_of_link(const ka_rank_model *m, const ka_rank_cause *c, uint32_t rank);
/** "group 3 (mesh_dp_shard)", "a group without a name". threads: any. */
ka_link_text ka_name_group(const ka_rank_model *m, uint32_t group);
/** "host node005", "a host without a name (ranks 0-7)". threads: any. @param clock  an index of the model's clocks. */
ka_link_text ka_name_clock(const ka_rank_model *m, uint32_t clock);
/** "links of mesh_dp_shard cannot be evaluated from this run alone: their transfers take 5.9 ms a step; compare with a good
 *  run: …", of all kinds that have no like. @param text  of 400 bytes. threads: any. False: there are none, or a cause was found or refused. */
bool ka_say_lone_links(const ka_rank_view *v, char *text, size_t size);
/** Its ranks; "": it is of hosts. */
kb_text ka_list_link_ranks(const ka_rank_model *m, const ka_rank_cause *c);
/** Of any cause: its host, or the two that it joins; "": not known, or further ones. */
ka_link_text ka_name_hosts(const ka_rank_model *m, const ka_rank_cause *c);
/** "device", "host", "link", "step" */
const char *ka_cause_kind_name(ka_cause_kind kind);
/** "rank 21 computes longer than the ranks of its role", "group 3 (mesh_dp_shard)": equal for the same fault in other runs, so
 *  without numbers that change. */
ka_link_text ka_describe_cause(const ka_rank_view *v, const ka_rank_cause *c);
/** What is wrong with it, in the words of all reports: "computes longer than the ranks of its role", "is late on the host",
 *  "has longer transfers than groups of its kind", "is slow in step 12". */
ka_link_text ka_describe_fault(const ka_rank_cause *c);
/** Why no collective is known on all its ranks. @param v  NULL: nothing is known of ranks. */
const char *ka_explain_unmatched(const ka_rank_view *v);
/** 0 … 1: how sure it is that causes are what they are said to be. */
double ka_cause_confidence(const ka_rank_view *v);
/** "rank 21 (host node005, GPU 5)", with as much in parentheses as its trace tells. threads: any.
 *  @param rank  an index of the model's ranks. */
typedef struct ka_rank_name {
    char s[128];
} ka_rank_name;
ka_rank_name ka_name_rank(const ka_rank_model *m, uint32_t rank);
#endif
