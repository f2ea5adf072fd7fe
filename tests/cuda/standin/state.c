/* Devices, contexts, streams: what the driver and the runtime hand out. Nothing is ever freed, so
 * that a program's mistakes with handles do no harm. */
#include "standin.h"

#include <stdlib.h>

static si_context *contexts;
static si_context *primary[SI_MAX_DEVICES];
static uint32_t next_number, next_context, next_stream;
static _Thread_local si_context *current;
static _Thread_local int32_t current_device;

uint32_t si_number(void)
{
    pthread_mutex_lock(&si_lock);
    uint32_t n = ++next_number;
    pthread_mutex_unlock(&si_lock);
    return n;
}

static si_context *make_context(int32_t device)
{
    si_context *c = calloc(1, sizeof *c);
    if (!c)
        abort();
    c->id = ++next_context;
    c->device = device;
    c->zero = (si_stream){.id = 7, .context = c};
    c->next = contexts;
    contexts = c;
    return c;
}

si_context *si_context_create(int32_t device)
{
    pthread_mutex_lock(&si_lock);
    si_context *c = make_context(device);
    pthread_mutex_unlock(&si_lock);
    return c;
}

void si_context_destroy(si_context *context)
{
    pthread_mutex_lock(&si_lock);
    context->gone = true;
    if (primary[context->device] == context)
        primary[context->device] = NULL;
    pthread_mutex_unlock(&si_lock);
    if (current == context)
        current = NULL;
}

si_context *si_context_primary(int32_t device)
{
    pthread_mutex_lock(&si_lock);
    bool is_new = !primary[device];
    if (is_new)
        primary[device] = make_context(device);
    si_context *c = primary[device];
    pthread_mutex_unlock(&si_lock);
    if (is_new)
        si_call_resource(1, c);
    return c;
}

static bool is_gone(const si_context *c)
{
    pthread_mutex_lock(&si_lock);
    bool gone = c->gone;
    pthread_mutex_unlock(&si_lock);
    return gone;
}

si_context *si_context_current(void)
{
    if (!current || is_gone(current))
        current = si_context_primary(current_device);
    return current;
}

void si_context_set(si_context *context) { current = context; }
int32_t si_device_current(void) { return current_device; }

void si_device_set(int32_t device)
{
    current_device = device;
    current = NULL;
}

si_stream *si_stream_create(si_context *context)
{
    si_stream *s = calloc(1, sizeof *s);
    if (!s)
        abort();
    s->context = context;
    pthread_mutex_lock(&si_lock);
    s->id = 13 + 7 * next_stream++;
    s->next = context->streams;
    context->streams = s;
    pthread_mutex_unlock(&si_lock);
    return s;
}

void si_stream_destroy(si_stream *stream) { (void)stream; /* its work goes on, as with CUDA */ }

si_stream *si_stream_or_zero(si_stream *stream)
{
    /* 1 and 2 are CUDA's names for the two default streams. */
    return (uintptr_t)stream > 2 ? stream : &si_context_current()->zero;
}

uint64_t si_context_busy_ns(const si_context *context)
{
    pthread_mutex_lock(&si_lock);
    uint64_t busy_ns = context->zero.busy_ns;
    for (const si_stream *s = context->streams; s; s = s->next)
        busy_ns = s->busy_ns > busy_ns ? s->busy_ns : busy_ns;
    pthread_mutex_unlock(&si_lock);
    return busy_ns;
}
