/* Writes the page of the report: the template, its security policy, and the data elements, which
 * are gzipped and in base64. */
#include "export/report.h"

/* ---- base64 ---------------------------------------------------------------------------------- */

/* Groups of three bytes become four characters; the last group is padded. */
static void write_base64(kb_sink *sink, const uint8_t *data, size_t size)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < size; i += 3) {
        size_t left = size - i;
        uint32_t three = (uint32_t)data[i] << 16 | (left > 1 ? (uint32_t)data[i + 1] << 8 : 0) |
                         (left > 2 ? data[i + 2] : 0u);
        char *out = kb_sink_reserve(sink, 4);
        out[0] = digits[three >> 18];
        out[1] = digits[three >> 12 & 63];
        out[2] = left > 1 ? digits[three >> 6 & 63] : '=';
        out[3] = left > 2 ? digits[three & 63] : '=';
        kb_sink_advance(sink, 4);
    }
}

/* ---- elements -------------------------------------------------------------------------------- */

/* A memory sink for the bytes of a data element; NULL: out of memory. */
static kb_sink *open_data_element(kineto_error *err)
{
    kb_sink *element;
    return kb_sink_open_memory(KB_COMPRESS_GZIP, &element, err) ? NULL : element;
}

/* Writes the element into the page; frees the sink in any case. */
static kineto_status close_data_element(kb_sink *element, const char *id, kb_sink *page,
                                        kineto_error *err)
{
    char *data = NULL;
    size_t size;
    kineto_status status = kb_sink_take(element, &data, &size, err);
    kb_sink_abort(element);
    if (status)
        return status;
    kb_sink_write_z(page, "<script type=\"text/plain\" id=\"");
    kb_sink_write_z(page, id);
    kb_sink_write_z(page, "\">");
    write_base64(page, (const uint8_t *)data, size);
    kb_sink_write_z(page, "</script>\n");
    free(data);
    return KINETO_OK;
}

#define DEFAULT_TABLE_ROWS 5000
#define DEFAULT_ACTIVITIES 2000000 /* larger traces get no timeline: browsers become slow */

typedef struct report_writer {
    const kineto_trace *trace;
    kineto_report_options options;
    ke_timeline timeline;
    kb_sink *page;
    kineto_error *err;
} report_writer;

/* Findings, tables and health: what the page needs first. */
static kineto_status write_summary_element(report_writer *r)
{
    kb_sink *element = open_data_element(r->err);
    if (!element)
        return KINETO_E_MEMORY;
    kineto_status status =
        ke_put_summary(r->trace, &r->options, r->timeline.count, element, r->err);
    if (status)
        kb_sink_abort(element);
    return status ? status : close_data_element(element, "summary", r->page, r->err);
}

static kineto_status write_timeline_element(report_writer *r)
{
    kb_sink *element = open_data_element(r->err);
    if (!element)
        return KINETO_E_MEMORY;
    r->timeline.step_pattern = r->options.step_pattern;
    kineto_status status = ke_put_timeline(&r->timeline, element, r->err);
    if (status)
        kb_sink_abort(element);
    return status ? status : close_data_element(element, "timeline", r->page, r->err);
}

static kineto_status write_stacks_element(report_writer *r)
{
    kb_sink *element = open_data_element(r->err);
    if (!element)
        return KINETO_E_MEMORY;
    kineto_status status = ke_put_report_stacks(r->trace, element, r->err);
    if (status)
        kb_sink_abort(element);
    return status ? status : close_data_element(element, "stacks", r->page, r->err);
}

/* Args of KE_ARGS_ROWS activities; the page loads an element when it is needed. */
static kineto_status write_args_element(report_writer *r, uint64_t first)
{
    char id[40];
    kb_sink *element = open_data_element(r->err);
    if (!element)
        return KINETO_E_MEMORY;
    kineto_status status = ke_put_timeline_args(&r->timeline, first, element, r->err);
    if (status) {
        kb_sink_abort(element);
        return status;
    }
    snprintf(id, sizeof id, "args-%llu", (unsigned long long)(first / KE_ARGS_ROWS));
    if (r->options.progress)
        r->options.progress(first, r->timeline.count, r->options.user);
    return close_data_element(element, id, r->page, r->err);
}

/* In the order in which the page needs them. */
static kineto_status write_data_elements(report_writer *r)
{
    kineto_status status = write_summary_element(r);
    if (!status && r->timeline.count)
        status = write_timeline_element(r);
    if (!status)
        status = write_stacks_element(r);
    for (uint64_t at = 0; !status && at < r->timeline.count && !kb_sink_failed(r->page);
         at += KE_ARGS_ROWS)
        status = write_args_element(r, at);
    return status;
}

/* ---- the page -------------------------------------------------------------------------------- */

static void write_policy_hash(kb_sink *sink, const char *before, const ke_asset *asset)
{
    kb_sink_write_z(sink, before);
    kb_sink_write_z(sink, " 'sha256-");
    write_base64(sink, asset->sha256, sizeof asset->sha256);
    kb_sink_write_z(sink, "'; ");
}

/* The page runs only its own script and loads nothing, so names in a trace cannot execute or leak
 * anything. */
static void write_policy(kb_sink *sink)
{
    kb_sink_write_z(sink, "default-src 'none'; ");
    write_policy_hash(sink, "style-src", &ke_report_style);
    write_policy_hash(sink, "script-src", &ke_report_script);
    kb_sink_write_z(sink, "img-src data:; base-uri 'none'; form-action 'none'");
}

/* Replaces one %%NAME%% of the template. */
static kineto_status write_placeholder(report_writer *r, const char *name, size_t size)
{
#define IS(word) (size == sizeof(word) - 1 && memcmp(name, word, size) == 0)
    if (IS("TITLE"))
        kb_sink_write_xml(r->page, kb_string(r->options.title));
    else if (IS("CSP"))
        write_policy(r->page);
    else if (IS("STYLE"))
        kb_sink_write(r->page, ke_report_style.data, ke_report_style.size);
    else if (IS("SCRIPT"))
        kb_sink_write(r->page, ke_report_script.data, ke_report_script.size);
    else if (IS("DATA"))
        return write_data_elements(r);
#undef IS
    return KINETO_OK;
}

static kineto_status write_report_page(report_writer *r)
{
    const char *at = ke_report_page.data, *end = at + ke_report_page.size;
    kineto_status status = KINETO_OK;
    while (at < end && !status) {
        const char *open = memmem(at, (size_t)(end - at), "%%", 2);
        const char *close = open ? memmem(open + 2, (size_t)(end - open - 2), "%%", 2) : NULL;
        kb_sink_write(r->page, at, (size_t)((close ? open : end) - at));
        if (!close)
            break;
        status = write_placeholder(r, open + 2, (size_t)(close - open - 2));
        at = close + 2;
    }
    return status;
}

kineto_status kineto_report_save(const kineto_trace *trace, const kineto_report_options *options,
                                 const char *path, kineto_error *err)
{
    report_writer r = {.trace = trace, .options = {.size = sizeof r.options}, .err = err};
    if (!trace || !path)
        return kb_fail_null(err, __func__, "trace, path", trace, path);
    kineto_status known =
        kb_options_read(&r.options, sizeof r.options, options, "kineto_report_options", err);
    if (known)
        return known;
    r.options.title = r.options.title ? r.options.title : "ckineto report";
    r.options.row_limit = r.options.row_limit ? r.options.row_limit : DEFAULT_TABLE_ROWS;
    r.options.activity_limit =
        r.options.activity_limit ? r.options.activity_limit : DEFAULT_ACTIVITIES;
    kineto_status status = KINETO_OK;
    if (kineto_trace_count(trace) <= r.options.activity_limit)
        status = ke_timeline_create(trace, &r.timeline, err);
    if (!status)
        status = kb_sink_open_file(path, KB_COMPRESS_NONE, &r.page, err);
    if (!status) {
        status = write_report_page(&r);
        if (status)
            kb_sink_abort(r.page);
        else
            status = kb_sink_close(r.page, err);
    }
    ke_timeline_free(&r.timeline);
    return status;
}
