/* Facts files: what comparing ranks needs of traces, kept in files that are small, and read fast.
 *
 * `ckineto facts` writes one for each trace; `ckineto reduce` joins them to one of the run, which has the sections of
 * all traces as they are, and the tables over all ranks. Both are the same to readers: a list of traces.
 * docs/reference/facts-files.md describes the format. */
#ifndef KA_FACTS_FILE_H
#define KA_FACTS_FILE_H

#include "analyze/facts/analyses.h"
#include "analyze/findings/finding.h"
#include "analyze/overview/overview.h"
#include "analyze/ranks/rank_facts.h"
#include "analyze/saved/facts_source.h"
#include "analyze/saved/sections.h"
#include "analyze/saved/trace_health.h"

/* ---- writing (facts_write.c) ------------------------------------------------------------------ */

/** What a facts file of one trace is made of. */
typedef struct ka_trace_facts {
    ka_facts_source source;
    kineto_status status;      /* why it could not be read, and in words; else KINETO_OK */
    const char *message;
    ka_trace_health health;
    kineto_analysis *analysis; /* its wanted tables and its ranks; NULL: none, or those of … */
    kineto_overview *overview; /* all, with findings; NULL: none */
    kineto_findings *found;    /* without an overview: findings, of all rules or of those that compare ranks; NULL: none */
    ka_table_set tables;       /* of `analysis`: those that are written; 0: all that are wanted */
} ka_trace_facts;
/** Write it; the file appears whole or not at all. @param packer  of all files that one thread writes, which saves what
 *  compressing needs at first; NULL: of this one. threads: one for each file and packer. */
kineto_status ka_facts_file_save(const char *path, const ka_trace_facts *facts, ka_section_packer *packer, kineto_error *err);
/** The sections of one trace. */
void ka_put_trace_facts(ka_section_writer *w, const ka_trace_facts *facts);
/** The same to an open sink, without closing it. */
void ka_facts_file_write(kb_sink *sink, const ka_trace_facts *facts, ka_section_packer *packer);
/** A facts file that cannot be read itself. */
typedef struct ka_facts_damage {
    ka_facts_source source; /* the absolute path of that file */
    kineto_error why;
    kb_arena arena;         /* of `source` */
} ka_facts_damage;
/** Without the reason. NULL: out of memory. */
ka_facts_damage *ka_facts_damage_create(const char *path);
void ka_facts_damage_destroy(ka_facts_damage *damage);
/** As the sections of a trace that could not be read. */
void ka_put_facts_damage(ka_section_writer *w, const ka_facts_damage *damage);

/* ---- reading (facts_open.c, facts_read.c, facts_ranks.c) ------------------------------------------------------------------- */

/** A facts file, or the file of a run. One thread at a time. Sections are read when they are needed, and their
 *  checksums compared then; after an error other sections can still be read. */
typedef struct ka_facts_file ka_facts_file;

/** Is it a facts file, by its first bytes? */
bool ka_is_facts_file(const char *path);
/** Open it, and read what its traces are. KINETO_E_FORMAT: damaged or cut off; KINETO_E_UNSUPPORTED: of a newer
 *  version; KINETO_E_IO. */
kineto_status ka_facts_file_open(const char *path, ka_facts_file **out, kineto_error *err);
void ka_facts_file_close(ka_facts_file *f);
/** Compare the checksums of all sections. */
kineto_status ka_facts_file_check(ka_facts_file *f, kineto_error *err);
const char *ka_facts_file_path(const ka_facts_file *f);
bool ka_facts_file_is_run(const ka_facts_file *f);

uint32_t ka_facts_file_trace_count(const ka_facts_file *f);
/** Borrowed. */
const ka_facts_source *ka_facts_file_source(const ka_facts_file *f, uint32_t trace);
/** KINETO_OK: it could be read. Else its status, and the reason in `message`. */
kineto_status ka_facts_file_error(ka_facts_file *f, uint32_t trace, kineto_error *message);
/** @param out  to be freed, also on failure. */
kineto_status ka_facts_file_health(ka_facts_file *f, uint32_t trace, ka_trace_health *out, kineto_error *err);
/** The tables that a trace has; empty: none. */
kineto_status ka_facts_file_tables(ka_facts_file *f, uint32_t trace, ka_table_set *out, kineto_error *err);
/** Fill the wanted tables of `to`, which has no rows, and if rank_marks is wanted its ranks. A wanted table that the file
 *  lacks is KINETO_E_NOT_FOUND, unless it is made of others. */
kineto_status ka_facts_file_load(ka_facts_file *f, uint32_t trace, kineto_analysis *to, kineto_error *err);
/** Findings, of these rules. Those that were not kept are in kineto_findings.lacking. The overview: of facts that were made with
 *  all. KINETO_E_NOT_FOUND: they are not there. */
kineto_status ka_facts_file_findings(ka_facts_file *f, uint32_t trace, ka_rule_set rules, kineto_findings **out,
                                     kineto_error *err);
/** @param tables  also these, of the facts of the overview; 0: those that it shows. */
kineto_status ka_facts_file_overview(ka_facts_file *f, uint32_t trace, ka_table_set tables, kineto_overview **out,
                                     kineto_error *err);
/** Decodes rows; one for the ranks of all files that are compared. threads: one for each lane. NULL: out of memory. */
typedef struct ka_row_reader ka_row_reader;
ka_row_reader *ka_row_reader_create(void);
void ka_row_reader_destroy(ka_row_reader *reader);
/** From now on the ranks that are loaded have no rows in memory: these are read when ranks are compared, until when the
 *  file must stay. @param reader  must outlive the file. */
void ka_facts_file_keep_rows(ka_facts_file *f, ka_row_reader *reader);
/** The same of the tables over all ranks of a run. */
kineto_status ka_facts_file_load_results(ka_facts_file *f, kineto_analysis *to, kineto_error *err);

/** Ranks of all traces, in the order of the file. */
uint32_t ka_facts_file_rank_count(const ka_facts_file *f);
/** Its head: all but the rows. @param row_count  receives how many there are. @param out  to be released. */
kineto_status ka_facts_file_rank(ka_facts_file *f, uint32_t rank_index, uint32_t *row_count, ka_rank_facts **out,
                                 kineto_error *err);
/** Rows first … first + count - 1 of a rank; only the blocks that have them are decoded. KINETO_E_ARGUMENT: there are
 *  not as many. */
kineto_status ka_facts_file_rows(ka_facts_file *f, uint32_t rank_index, uint32_t first, uint32_t count, ka_comm *out,
                                 kineto_error *err);

/* ---- all of a run (facts_reduce.c) ------------------------------------------------------------- */

/** Traces of several files in canonical order: by rank, start and path, each once. */
typedef struct kineto_facts ka_facts_set; /* <ckineto/facts.h> */
typedef struct ka_facts_entry {
    ka_facts_file *file;
    uint32_t trace; /* index in it */
} ka_facts_entry;

/** A damaged file is a trace that could not be read, under its own name. @param out  to be destroyed. NULL on failure. */
kineto_status ka_facts_set_open(const char *const *paths, size_t count, ka_facts_set **out, kineto_error *err);
void ka_facts_set_destroy(ka_facts_set *s);
uint32_t ka_facts_set_count(const ka_facts_set *s);
/** When the first trace begins; 0: there is none. */
int64_t ka_facts_set_start_ns(const ka_facts_set *s);
/** KINETO_OK: it could be read; else as ka_facts_file_error. */
kineto_status ka_facts_set_error(const ka_facts_set *s, uint32_t index, kineto_error *message);
/** As ka_facts_file_health. */
kineto_status ka_facts_set_health(const ka_facts_set *s, uint32_t index, ka_trace_health *out, kineto_error *err);
/** How many could be read. */
uint32_t ka_facts_set_readable(const ka_facts_set *s);
const ka_facts_source *ka_facts_set_source(const ka_facts_set *s, uint32_t index);
/** Add what is known of all traces to `to`, and the files that are not sound, by the survey of the set. */
kineto_status ka_facts_set_coverage(const ka_facts_set *s, const kineto_survey *survey, ka_coverage *to,
                                    kineto_error *err);
/** Tables that all traces have that could be read. */
kineto_status ka_facts_set_tables(const ka_facts_set *s, ka_table_set *out, kineto_error *err);
/** These tables of all traces, with those over all ranks. Taken from the results of a run where these are all that is
 *  wanted. @param tables  0: those of options->tables, which may not be NULL then. */
kineto_status ka_facts_set_analyze(const ka_facts_set *s, const kineto_analysis_options *options, ka_table_set tables,
                                   kineto_analysis **out, kineto_error *err);
/** The same, but with the facts of all ranks in *out: not taken from the results of a run. @param tables  not 0. */
kineto_status ka_facts_set_analyze_ranks(const ka_facts_set *s, const kineto_analysis_options *options, ka_table_set tables,
                                         kineto_analysis **out, kineto_error *err);
/** The error of facts without a table. */
kineto_status ka_facts_fail_without_tables(kineto_error *err);
/** The set as a survey of files, see <ckineto/files.h>. */
kineto_status ka_facts_set_survey(const ka_facts_set *s, kineto_survey **out, kineto_error *err);
/** Do all traces that could be read have an overview? */
bool ka_facts_set_has_overview(const ka_facts_set *s);
kineto_status ka_facts_set_find(const ka_facts_set *s, ka_rule_set rules, kineto_findings **out, kineto_error *err);
kineto_status ka_facts_set_overview(const ka_facts_set *s, ka_table_set tables, kineto_overview **out,
                                    kineto_error *err);
/** How much memory comparing all ranks may need, about: if their rows do not fit, they are read in parts, and tables
 *  that need all rows are not made. 0: 1 GiB; less than 16 MiB counts as 16 MiB. */
void ka_facts_set_limit_memory(ka_facts_set *s, uint64_t bytes);
/** Write the file of the run. Equal sets give equal bytes. */
kineto_status ka_facts_set_save(const ka_facts_set *s, const char *path, kineto_error *err);
#endif
