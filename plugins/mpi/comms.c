/* Communicators: a name and an id that are equal on all ranks of each, and which ranks of the world its
 * ranks are.
 *
 * Both are made of the list of these ranks, and of how many communicators with that list were made
 * before: making one is collective, so all its ranks count alike. */
#include "mpi.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COMMS       1024u
#define COMM_WINDOW 64u
#define NO_ID       1 /* seeds of hashes */
#define INTER       2

static cx_comm comms[COMMS];
static pthread_mutex_t comms_lock = PTHREAD_MUTEX_INITIALIZER; /* of adding and removing */
static int my_rank = -1, world_size;

int cx_my_world_rank(void) { return my_rank; }

int cx_world_rank(const cx_comm *comm, int rank)
{
    if (!comm || rank < 0 || rank >= comm->size)
        return -1;
    return comm->world_ranks ? comm->world_ranks[rank] : rank;
}

/* ---- which ranks ----------------------------------------------------------------------------- */

/* The ranks of a group as ranks of the world; *count: how many. NULL: out of memory. Processes of
 * other jobs are negative. */
static int32_t *list_world_ranks(cx_word group, int *count)
{
    cx_word world_group = 0;
    if (cx_mpi.group_size(group, count) || *count < 0 ||
        cx_mpi.comm_group(cx_library_facts.world, &world_group))
        return NULL;
    size_t n = (size_t)*count;
    int *from = malloc((2 * n + 1) * sizeof *from);
    for (size_t i = 0; from && i < n; i++)
        from[n + i] = (int)i;
    if (from && n && cx_mpi.group_translate_ranks(group, *count, from + n, world_group, from)) {
        free(from);
        from = NULL;
    }
    (void)cx_mpi.group_free(&world_group);
    return from;
}

static uint64_t hash_ranks(const int32_t *ranks, int count)
{
    uint64_t hash = NO_ID;
    for (int i = 0; i < count; i++)
        hash = cx_mix(hash, (uint32_t)ranks[i]);
    return hash;
}

static bool is_whole_world(const int32_t *ranks, int count)
{
    for (int i = 0; i < count; i++)
        if (ranks[i] != i)
            return false;
    return count == world_size;
}

/* ---- names ----------------------------------------------------------------------------------- */

/* "0-3,6,8-9"; a list that is too long is cut, and then has its hash. */
static void write_ranks(char *out, size_t size, const int32_t *ranks, int count)
{
    size_t used = 0;
    out[0] = '\0';
    for (int i = 0, next; i < count; i = next) {
        for (next = i + 1; next < count && ranks[next] == ranks[next - 1] + 1;)
            next++;
        if (used + 26 > size) { /* room for two numbers, and what follows below */
            snprintf(out + used, size - used, "... %08x", (unsigned)hash_ranks(ranks, count));
            return;
        }
        used += (size_t)snprintf(out + used, size - used, next > i + 1 ? "%s%d-%d" : "%s%d",
                                 i ? "," : "", ranks[i], ranks[next - 1]);
    }
}

static void name_comm(cx_comm *c, cx_word handle, const int32_t *ranks, int count, uint64_t number)
{
    char list[CX_NAME_BYTES - 12], again[24] = ""; /* 12: what else a name has */
    write_ranks(list, sizeof list, ranks, count);
    if (number)
        snprintf(again, sizeof again, " #%u", (unsigned)number + 1);
    if (handle == cx_library_facts.self)
        snprintf(c->name, sizeof c->name, "self");
    else if (is_whole_world(ranks, count))
        snprintf(c->name, sizeof c->name, "world%s%s", c->is_inter ? " inter" : "", again);
    else
        snprintf(c->name, sizeof c->name, "%s %s%.5s", c->is_inter ? "inter" : "ranks", list,
                 again);
}

/* ---- the table ------------------------------------------------------------------------------- */

static uint32_t first_comm_slot(cx_word handle) { return (uint32_t)(cx_mix(handle, 0) % COMMS); }

static cx_comm *look_up_comm(cx_word handle)
{
    uint32_t first = first_comm_slot(handle);
    for (uint32_t i = 0; i < COMM_WINDOW; i++) {
        cx_comm *c = &comms[(first + i) % COMMS];
        if (atomic_load_explicit(&c->handle, memory_order_acquire) == handle)
            return c;
    }
    return NULL;
}

/* A slot for a new handle, not yet visible. NULL: no room. */
static cx_comm *find_free_comm(cx_word handle)
{
    uint32_t first = first_comm_slot(handle);
    for (uint32_t i = 0; i < COMM_WINDOW; i++) {
        cx_comm *c = &comms[(first + i) % COMMS];
        if (atomic_load_explicit(&c->handle, memory_order_relaxed) == 0)
            return c;
    }
    cx_count(CX_TALLY_COMMS);
    return NULL;
}

/* Fills size, ranks and id. The ranks that messages go to are those of the remote group, if the
 * communicator joins two. False: the library did not answer, or out of memory. */
static bool describe_comm(cx_comm *c, cx_word handle)
{
    cx_word group = 0, remote = 0;
    int inter = 0, count = 0, remote_count = 0;
    int32_t *ranks = NULL, *remote_ranks = NULL;
    if (cx_mpi.comm_test_inter(handle, &inter) || cx_mpi.comm_rank(handle, &c->rank) ||
        cx_mpi.comm_group(handle, &group))
        return false;
    ranks = list_world_ranks(group, &count);
    (void)cx_mpi.group_free(&group);
    if (ranks && inter && cx_mpi.comm_remote_group(handle, &remote) == 0) {
        remote_ranks = list_world_ranks(remote, &remote_count);
        (void)cx_mpi.group_free(&remote);
    }
    if (!ranks || (inter && !remote_ranks)) {
        free(ranks);
        return false;
    }
    c->is_inter = inter != 0;
    uint64_t hash = hash_ranks(ranks, count);
    if (c->is_inter) /* the same on both sides */
        hash = cx_mix(INTER, hash ^ hash_ranks(remote_ranks, remote_count));
    uint64_t number = cx_count_next(hash);
    c->id = cx_mix(hash, number);
    name_comm(c, handle, ranks, count, number);
    c->size = c->is_inter ? remote_count : count;
    c->world_ranks = c->is_inter ? remote_ranks : ranks;
    if (c->is_inter)
        free(ranks);
    return true;
}

/* ---- the header ------------------------------------------------------------------------------ */

#define MAX_LISTED_COMMS 16u
#define MAX_LISTED_RANKS 64
static char header[8192];
static size_t header_used;
static uint32_t listed_comms;

static void append_header(const char *format, ...) KINETO_PRINTF(1, 2);
static void append_header(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(header + header_used, sizeof header - header_used, format, args);
    va_end(args);
    if (n > 0 && header_used + (size_t)n < sizeof header)
        header_used += (size_t)n;
}

/* Adds a communicator to the header's list of groups, with its first ranks as PyTorch does. */
static void list_comm_in_header(const cx_comm *c)
{
    char end[64];
    if (listed_comms == MAX_LISTED_COMMS || header_used + 1024 > sizeof header)
        return;
    append_header(
        "%s{\"pg_name\":\"%s\",\"pg_desc\":\"%s\",\"backend_config\":\"mpi\",\"pg_size\":%d,"
        "\"ranks\":[",
        listed_comms ? "," : "", c->name, listed_comms ? "communicator" : "MPI_COMM_WORLD",
        c->size);
    for (int i = 0; i < c->size && i < MAX_LISTED_RANKS; i++)
        append_header("%s%d", i ? "," : "", cx_world_rank(c, i));
    append_header("]}");
    listed_comms++;
    size_t used = header_used;
    snprintf(end, sizeof end, "],\"pg_count\":%u}", listed_comms);
    append_header("%s", end);
    (void)kineto_process_set_metadata("ckineto_rank", header);
    header_used = used;
}

/* ---- adding and removing --------------------------------------------------------------------- */

static cx_comm *add_comm_locked(cx_word handle)
{
    cx_comm *c = look_up_comm(handle);
    if (c)
        return c;
    c = find_free_comm(handle);
    if (!c || !describe_comm(c, handle))
        return NULL;
    atomic_store(&c->sequence, 0);
    atomic_store_explicit(&c->handle, handle, memory_order_release);
    list_comm_in_header(c);
    return c;
}

cx_comm *cx_comm_add(cx_word handle)
{
    int saved = errno;
    if (!atomic_load(&cx_is_ready) || !handle || handle == cx_library_facts.null_comm)
        return NULL;
    (void)pthread_mutex_lock(&comms_lock);
    cx_comm *c = add_comm_locked(handle);
    (void)pthread_mutex_unlock(&comms_lock);
    errno = saved;
    return c;
}

cx_comm *cx_comm_find(cx_word handle)
{
    if (!atomic_load_explicit(&cx_is_ready, memory_order_acquire) || !handle)
        return NULL;
    cx_comm *c = look_up_comm(handle);
    return KINETO_LIKELY(c != NULL) ? c : cx_comm_add(handle);
}

/* Its list of ranks stays: a receive that is still open may need it. */
void cx_comm_remove(cx_word handle)
{
    (void)pthread_mutex_lock(&comms_lock);
    cx_comm *c = handle ? look_up_comm(handle) : NULL;
    if (c)
        atomic_store_explicit(&c->handle, 0, memory_order_release);
    (void)pthread_mutex_unlock(&comms_lock);
}

/* By which ranks of one host are known to have one clock. */
static void set_host_name(void)
{
    char name[256] = "", text[sizeof name + 2];
    if (gethostname(name, sizeof name - 1) || !name[0] || strpbrk(name, "\"\\"))
        return;
    snprintf(text, sizeof text, "\"%s\"", name);
    (void)kineto_process_set_metadata("host_name", text);
}

void cx_comms_start(void)
{
    if (cx_mpi.comm_rank(cx_library_facts.world, &my_rank) ||
        cx_mpi.comm_size(cx_library_facts.world, &world_size))
        return;
    append_header("{\"backend\":\"mpi\",\"rank\":%d,\"world_size\":%d,\"pg_config\":[", my_rank,
                  world_size);
    set_host_name();
    (void)cx_comm_add(cx_library_facts.world);
    (void)cx_comm_add(cx_library_facts.self);
}
