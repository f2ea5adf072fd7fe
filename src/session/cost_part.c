/* The cost of a part of a recording (a window, a snapshot), reported in its trace. A wrapper around
 * the decoder's input counts chunks as they are read; the account that was taken at the end of the
 * part is then completed with the counts and added to ledger and header. */
#include "session/self_cost.h"

#include <time.h>

/* Counts each chunk once: the decoder's first pass visits all chunks in order, later reads are out
 * of order and have index < next. */
static void count_part_chunk(ks_cost_part *p, uint32_t index, const uint64_t *words, uint32_t size)
{
    if (index != p->next || !words)
        return;
    p->next++;
    ks_tally_chunk(&p->account.tally, words, KB_MIN(size, KF_CHUNK_WORDS), &p->part);
}

static const uint64_t *get_part_chunk(void *context, uint32_t index, uint32_t *words,
                                      kineto_error *err)
{
    ks_cost_part *p = context;
    const uint64_t *chunk = p->input.get(p->input.context, index, words, err);
    count_part_chunk(p, index, chunk, *words);
    return chunk;
}

static const uint64_t *peek_part_chunk(void *context, uint32_t index, uint32_t *words)
{
    ks_cost_part *p = context;
    const uint64_t *chunk = p->input.peek(p->input.context, index, words);
    count_part_chunk(p, index, chunk, *words);
    return chunk;
}

static void release_part_chunk(void *context, uint32_t index)
{
    ks_cost_part *p = context;
    p->input.done(p->input.context, index);
}

static void add_cost_line(void *context, const char *source, const char *reason, uint64_t number,
                          bool is_loss, const char *detail)
{
    kt_ledger_add(context, kb_string(source), kb_string(reason), number, is_loss,
                  kb_string(detail));
}

/* kt_build_options.sign: the trace is about to be completed. */
static void write_part_cost(void *context, kt_builder *b)
{
    ks_cost_part *p = context;
    char json[KS_COST_JSON_BYTES];
    p->summary.account = &p->account;
    p->summary.build_ns = kb_clock_ns(CLOCK_THREAD_CPUTIME_ID) - p->cpu_ns;
    ks_account_estimate(&p->account, p->summary.control, &p->summary.cost);
    ks_cost_report(&p->summary, add_cost_line, b, json);
    kt_metadata(b, kb_string(KS_COST_KEY), kb_string(json));
}

void ks_cost_part_attach(ks_cost_part *p, const kf_control *control, kf_input *input,
                         kt_build_options *options)
{
    KB_ASSERT(input->get && p->next == 0);
    p->input = *input;
    p->summary.control = control;
    p->cpu_ns = kb_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    input->context = p;
    input->get = get_part_chunk;
    input->peek = input->peek ? peek_part_chunk : NULL;
    input->done = input->done ? release_part_chunk : NULL;
    options->sign = write_part_cost;
    options->sign_context = p;
}
