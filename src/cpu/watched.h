/* The processes and threads of a watched program, as far as they have not ended. One thread uses them. */
#ifndef KU_WATCHED_H
#define KU_WATCHED_H

#include "trace/unwind/unwind.h"
#include "cpu/writer.h"

#define KU_NAME_BYTES 16u

typedef struct ku_process {
    uint32_t pid, parent_pid;
    uint32_t entry;        /* of the dictionary; 0: not written yet, or again after an exec */
    uint32_t thread_count;
    uint64_t exec_ticks;   /* since when it runs this program; 0: not known */
    uint64_t exec_id;      /* identity of that program, by polling */
    uint64_t maps_ns;      /* CLOCK_MONOTONIC when its mappings were read last for a sample */
    bool has_timers;       /* libckineto-timers.so is in it */
    char name[KU_NAME_BYTES];
    ku_address_space space;
} ku_process;

typedef struct ku_thread {
    uint32_t pid, tid, creator_tid;
    uint64_t born_ticks;
    uint64_t on_ticks; /* when it got its CPU; 0: it has none */
    uint32_t cpu;
    uint64_t woken_ticks; /* when it was woken last, before it got its CPU; 0: not known */
    uint32_t waker_pid, waker_tid; /* 0: an interrupt */
    bool is_born_here; /* its creation was seen */
    bool is_attached;  /* it was there before, and no switch of it has been seen */
    /* CLOCK_MONOTONIC_RAW since when it is sampled at the present rate, as is what it starts; 0: it is not */
    uint64_t sampled_since_ns;
    /* Its stack when it lost its CPU last, until the reason is known. */
    uint64_t *frames_before; /* KU_MAX_FRAMES; NULL: off-CPU stacks are not wanted */
    uint32_t frame_count_before;
    bool is_cut_before;
    char name[KU_NAME_BYTES]; /* not written yet; "": nothing to write */
    /* polling.c: its counters at the last pass */
    uint64_t polled_ticks, run_ns, wait_ns;
    uint32_t pass;
    char last_name[KU_NAME_BYTES];
} ku_thread;

typedef struct ku_watched {
    KB_VEC(ku_process *) process_list;
    KB_VEC(ku_thread *) thread_list;
    kb_map processes, threads; /* pid, tid → 1 + index in the list; 0: it has ended */
    kb_intern files; /* names, without directories, of all files that were mapped to be executed */
    const kf_pool *pool;
    uint64_t without_timers; /* processes that have ended, and never had has_timers */
    uint64_t no_memory; /* threads and processes that are not watched for that reason */
} ku_watched;

/** Added on first use; NULL: out of memory (counted). */
ku_process *ku_watched_process(ku_watched *w, uint32_t pid);
ku_thread *ku_watched_thread(ku_watched *w, uint32_t pid, uint32_t tid);
/** NULL: not known. */
ku_thread *ku_watched_find_thread(const ku_watched *w, uint32_t tid);
/** A process came into being as a copy of another one. */
void ku_watched_copy_process(ku_watched *w, uint32_t pid, uint32_t parent_pid);
/** A process executed another program: its memory is new. */
void ku_watched_exec(ku_watched *w, uint32_t pid, const char *name, uint64_t ticks);
/** It ended; with its last thread a process ends. */
void ku_watched_forget_thread(ku_watched *w, ku_thread *t);
/** A file was mapped to be executed. */
void ku_watched_note_file(ku_watched *w, const char *path);
/** Was one whose name begins like this? */
bool ku_watched_has_file(const ku_watched *w, const char *beginning);
/** Write the entries of the dictionary that records about this thread need: its process, its name.
 *  @return the entry of the process, 0: the dictionary is full. */
uint32_t ku_watched_entries(ku_watched *w, ku_thread *t);
/** Write the entry of a mapping that a stack goes through. */
void ku_watched_note_mapping(ku_watched *w, uint32_t process_entry, ku_mapping *m);
void ku_watched_free(ku_watched *w);
#endif
