/* Metadata of the Perfetto writer: header, properties of devices and ledger. Perfetto lists them in
 * its table of metadata under these names. */
#include "export/perfetto.h"

/* Marks of the open messages of a packet with one entry. */
typedef struct metadata_entry {
    size_t packet, bundle, metadata;
} metadata_entry;

static metadata_entry begin_metadata_entry(ke_perfetto *w, kineto_string name)
{
    metadata_entry e = {.packet = ke_pf_begin_packet(w)};
    e.bundle = ke_proto_begin(&w->packets, KE_PF_PACKET_CHROME_EVENTS);
    e.metadata = ke_proto_begin(&w->packets, KE_PF_BUNDLE_METADATA);
    ke_proto_string(&w->packets, KE_PF_METADATA_NAME, name);
    return e;
}

static void end_metadata_entry(ke_perfetto *w, metadata_entry e)
{
    ke_proto_end(&w->packets, e.metadata);
    ke_proto_end(&w->packets, e.bundle);
    ke_pf_end_packet(w, e.packet);
}

static void write_metadata_string(ke_perfetto *w, kineto_string name, kineto_string value)
{
    metadata_entry e = begin_metadata_entry(w, name);
    ke_proto_string(&w->packets, KE_PF_METADATA_STRING, value);
    end_metadata_entry(w, e);
}

void ke_pf_write_json_entry(ke_perfetto *w, kineto_string name, kineto_string value)
{
    metadata_entry e = begin_metadata_entry(w, name);
    ke_proto_string(&w->packets, KE_PF_METADATA_JSON, value);
    end_metadata_entry(w, e);
}

/* Properties of devices, under "device N properties". */
static void write_device_metadata(ke_perfetto *w)
{
    for (uint32_t i = 0; i < kineto_trace_process_count(w->trace); i++) {
        const kineto_process *p = &w->processes[i].view;
        char name[64];
        if (!p->properties_json.size)
            continue;
        snprintf(name, sizeof name, "device %lld properties", (long long)p->pid);
        ke_pf_write_json_entry(w, kb_string(name), p->properties_json);
    }
}

/* "ledger: source: reason" → "count (lost), detail". */
static void write_ledger_metadata(ke_perfetto *w)
{
    for (uint32_t i = 0; i < kineto_trace_ledger_count(w->trace); i++) {
        kineto_ledger_line line;
        kineto_trace_ledger(w->trace, i, &line);
        char name[256], value[512];
        kineto_string source = kb_utf8_cut(line.source, 100),
                      reason = kb_utf8_cut(line.reason, 100);
        kineto_string detail = kb_utf8_cut(line.detail, 400);
        snprintf(name, sizeof name, "ledger: %.*s: %.*s", (int)source.size, source.data,
                 (int)reason.size, reason.data);
        snprintf(value, sizeof value, "%llu%s%s%.*s", (unsigned long long)line.count,
                 line.is_loss ? " lost" : "", detail.size ? ", " : "", (int)detail.size,
                 detail.data);
        write_metadata_string(w, kb_string(name), kb_string(value));
    }
}

/* Counts of what the writer changed; nothing for 0. */
static void write_metadata_count(ke_perfetto *w, const char *what, uint64_t count)
{
    char value[24];
    if (!count)
        return;
    snprintf(value, sizeof value, "%llu", (unsigned long long)count);
    write_metadata_string(w, kb_string(what), kb_string(value));
}

/* A sequence of its own: metadata packets have no events and need no defaults. */
void ke_pf_write_metadata(ke_perfetto *w, const char *trace_name)
{
    kineto_string key, value;
    w->sequence++;
    if (trace_name && *trace_name)
        write_metadata_string(w, kb_string("trace name"), kb_string(trace_name));
    for (uint32_t i = 0; i < kineto_trace_metadata_count(w->trace); i++) {
        kineto_trace_metadata(w->trace, i, &key, &value);
        ke_pf_write_json_entry(w, key, value);
    }
    write_device_metadata(w);
    write_ledger_metadata(w);
    write_metadata_count(w, "written: times before 1970, moved there", w->clamped);
    write_metadata_count(w, "written: arrows that end before they begin, reversed",
                         w->backward_flows);
    ke_pf_write_own(w);
}
