/* The symbols of the processes of a recording, and how much may be read for them. */
#include "trace/from_recording/build.h"

#define INLINE_MB 256 /* without the setting; libdw reads some 100 MB a second */
#define MIB       (UINT64_C(1) << 20)

/* How much debug information may be read for inlined functions. */
static uint64_t inline_limit_bytes(void)
{
    const char *text = kb_setting("CKINETO_INLINE_MB");
    char *end = NULL;
    unsigned long mb = text ? strtoul(text, &end, 10) : INLINE_MB;
    if (text && (*text < '0' || *text > '9' || *end != '\0' || mb > UINT64_MAX / MIB)) {
        kb_log(KINETO_LOG_WARNING, "CKINETO_INLINE_MB is '%.32s', not a number: %d", text, INLINE_MB);
        mb = INLINE_MB;
    }
    return mb * MIB;
}

kt_symbols *kt_build_create_symbols(kt_build_state *s, uint32_t pid, bool has_map)
{
    kt_symbols *symbols;
    if (kt_symbols_create(&symbols, NULL))
        return NULL;
    if (has_map && kt_symbols_add_map(symbols, pid, NULL, NULL) != KINETO_OK) {
        kt_symbols_destroy(symbols);
        return NULL;
    }
    if (s->files)
        kt_symbols_share_files(symbols, s->files);
    else
        kt_symbols_limit_inlined(symbols, s->options.no_inlined ? 0 : inline_limit_bytes());
    s->files = s->files ? s->files : symbols;
    return symbols;
}

void kt_build_inlined_line(kt_build_state *s, const char *source)
{
    uint64_t skipped = s->files ? kt_symbols_skipped_inlined(s->files) : 0;
    if (skipped)
        kt_ledger_add(s->b, kb_string(source), kb_string("addresses without their inlined functions"), skipped,
                      false, kb_string("the debug information is larger than CKINETO_INLINE_MB allows"));
}
