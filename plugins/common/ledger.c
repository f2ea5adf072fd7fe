/* Lines of the trace's ledger: formats the detail and hands it to the host, if that is new enough
 * to have a ledger for plug-ins. */
#include "support.h"

#include <stdarg.h>
#include <stdio.h>

void cp_note(const KinetoPlugin_TraceBuilder *b, const char *reason, uint64_t count, bool is_loss,
             const char *format, ...)
{
    char detail[2 * CP_TEXT_BYTES];
    va_list args;
    if (!KINETO_PLUGIN_HAS(b, KinetoPlugin_TraceBuilder, addLedgerLine) || !b->addLedgerLine)
        return;
    va_start(args, format);
    (void)vsnprintf(detail, sizeof detail, format, args);
    va_end(args);
    (void)b->addLedgerLine(b->pTraceBuilderHandle, reason, count, is_loss, detail);
}

void cp_note_counts(const KinetoPlugin_TraceBuilder *b, const cp_reason *reasons, const uint64_t *counts,
                    size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (counts[i] && reasons[i].text)
            cp_note(b, reasons[i].text, counts[i], reasons[i].is_loss, "%s", "");
}
