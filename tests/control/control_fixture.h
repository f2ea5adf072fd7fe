/* A control socket of this very process, in a directory of its own, and a client of it. */
#ifndef CONTROL_FIXTURE_H
#define CONTROL_FIXTURE_H

#include "ondemand/listen/listeners.h"
#include "ondemand/wire/control_wire.h"
#include "controller_fixture.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

typedef struct control_test {
    fixture *f;
    ko_listener *listener;
    char runtime[64];   /* XDG_RUNTIME_DIR */
    char directory[80]; /* of sockets */
} control_test;

static inline int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static inline void remove_tree(const char *path)
{
    nftw(path, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

static inline void new_runtime(control_test *t)
{
    snprintf(t->runtime, sizeof t->runtime, "/tmp/ckineto-control-XXXXXX");
    assert_non_null(mkdtemp(t->runtime));
    setenv("XDG_RUNTIME_DIR", t->runtime, 1);
    snprintf(t->directory, sizeof t->directory, "%s/ckineto", t->runtime);
}

static inline void listen_with(control_test *t, ko_listener *l, const kineto_error *err)
{
    if (!l)
        fail_msg("%s", err->message);
    t->listener = l;
    t->f = fixture_new();
    ko_controller_listen(t->f->controller, l);
}

/* Turned by a thread, or by the test. */
static inline control_test *control_new(bool turning)
{
    control_test *t = calloc(1, sizeof *t);
    kineto_error err;
    assert_non_null(t);
    new_runtime(t);
    listen_with(t, ko_control_socket_create(kb_os_pid(), &err), &err);
    if (turning)
        fixture_turn(t->f);
    return t;
}

static inline void control_end(control_test *t)
{
    if (t->f)
        fixture_end(t->f);
    remove_tree(t->runtime);
    free(t);
}

static inline ko_control_peer *connected(void)
{
    ko_control_peer *p;
    kineto_error err;
    if (ko_control_connect(kb_os_pid(), &p, &err) != KINETO_OK)
        fail_msg("%s", err.message);
    return p;
}

/* When it listens again. */
static inline ko_control_peer *connected_in_time(void)
{
    ko_control_peer *p = NULL;
    int64_t until_ns = now_ns() + HANG_NS;
    while (ko_control_connect(kb_os_pid(), &p, NULL) != KINETO_OK) {
        assert_true(now_ns() < until_ns);
        pause_ns(MS);
    }
    return p;
}

static inline void say(ko_control_peer *p, const char *verb, const char *text)
{
    kineto_error err;
    if (ko_control_send(p, verb, kb_string(text), &err) != KINETO_OK)
        fail_msg("%s: %s", verb, err.message);
}

/* KINETO_E_NOT_FOUND: it was closed. */
static inline kineto_status next_answer(ko_control_peer *p, ko_control_answer *a)
{
    kineto_error err;
    int64_t until_ns = now_ns() + HANG_NS;
    for (;;) {
        struct pollfd polled = {.fd = ko_control_fd(p), .events = POLLIN};
        (void)poll(&polled, 1, 1000);
        kineto_status status = ko_control_receive(p, a, &err);
        if (status != KINETO_E_BUSY)
            return status;
        assert_true(now_ns() < until_ns);
    }
}

static inline ko_control_answer answer_of(ko_control_peer *p)
{
    ko_control_answer a;
    assert_int_equal(next_answer(p, &a), KINETO_OK);
    return a;
}

static inline void expect(ko_control_peer *p, const char *verb)
{
    ko_control_answer a = answer_of(p);
    if (strcmp(a.verb, verb) != 0)
        fail_msg("%s came in place of %s: %s", a.verb, verb, a.text);
}

/* Bytes as they are. */
static inline void throw_bytes(ko_control_peer *p, const void *data, size_t bytes)
{
    assert_int_equal(send(ko_control_fd(p), data, bytes, MSG_NOSIGNAL), bytes);
}

#endif
