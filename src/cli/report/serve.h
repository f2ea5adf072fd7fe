/* A web server for one user: a few documents on 127.0.0.1, until a signal ends it. */
#ifndef KC_SERVE_H
#define KC_SERVE_H

#include "base/base.h"

/** A document that can be fetched. */
typedef struct kc_document {
    /* as in the request: "/TOKEN/" */
    const char *path;
    /* "text/html; charset=utf-8" */
    const char *type;
    /* opened for each request: it may be replaced meanwhile */
    const char *file;
    /* pages of this origin may read it; NULL: only our own */
    const char *origin;
} kc_document;

typedef struct kc_server {
    int listener;
    uint16_t port;
    const kc_document *documents;
    size_t count;
} kc_server;

/** Listen on 127.0.0.1; SIGPIPE is ignored from here on.
 *  @param port  0: any free port. @return KINETO_E_BUSY if another program has it. */
kineto_status kc_server_open(kc_server *server, uint16_t port, kineto_error *err);
/** Serve until SIGINT, SIGTERM or SIGHUP. */
kineto_status kc_server_run(kc_server *server, kineto_error *err);
void kc_server_close(kc_server *server);
/** 32 random hexadecimal digits. */
kineto_status kc_server_make_token(char token[33], kineto_error *err);
#endif
