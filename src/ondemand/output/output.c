/* Destinations of traces: parses a path or URL, checks whether its source may use it, opens it and
 * writes. Requests of other processes may only use files below the allowed directory, and
 * registered protocols that permit requests. */
#include "export/export.h"
#include "ondemand/output/output_impl.h"
#include "ondemand/request/request.h"

#include <ckineto/control.h>

#include <errno.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

typedef enum place_kind { TO_FILE, TO_FD, TO_COMMAND, TO_REGISTERED } place_kind;

typedef struct place {
    place_kind kind;
    const char *rest;                 /* a path, a command */
    int fd;                           /* of "fd:" */
    char protocol[KO_PROTOCOL_BYTES]; /* in lower case; "" of a path */
} place;

/* ---- parsing --------------------------------------------------------------------------------- */

/* Bytes before the colon; 0: it is a path. */
static size_t protocol_bytes(const char *path)
{
    size_t n = strspn(path, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-.");
    return path[n] == ':' ? n : 0;
}

bool ko_output_is_url(const char *path) { return protocol_bytes(path) > 0; }

KINETO_PRINTF(3, 4)
static kineto_status refuse_output(const char *path, kineto_error *err, const char *fmt, ...)
{
    char shown[160], text[300];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    ko_request_show(kb_string(path), shown, sizeof shown);
    return kb_fail(err, KINETO_E_ARGUMENT, "'%s': %s", shown, text);
}

/* file:/path, file:///path, file://localhost/path, file:path. Nothing in it is escaped. */
static kineto_status read_file_url(const char *url, place *out, kineto_error *err)
{
    if (strncmp(out->rest, "//", 2) == 0) {
        const char *host = out->rest + 2, *path = strchr(host, '/');
        size_t size = path ? (size_t)(path - host) : strlen(host);
        if (!path ||
            (size > 0 && !kb_string_equal((kineto_string){host, size}, kb_string("localhost"))))
            return refuse_output(url, err, "a file of this host is file:///path");
        out->rest = path;
    }
    return out->rest[0] ? KINETO_OK : refuse_output(url, err, "a path must follow");
}

/* A decimal number; whether it is open is checked later. */
static kineto_status read_fd_url(const char *url, place *out, kineto_error *err)
{
    char *end;
    errno = 0;
    long number = strtol(out->rest, &end, 10);
    if (!kb_is_digit(out->rest[0]) || *end || errno || number > INT_MAX)
        return refuse_output(url, err, "the number of a descriptor must follow, as in fd:3");
    out->fd = (int)number;
    return KINETO_OK;
}

static kineto_status read_exec_url(const char *url, const place *p, kineto_error *err)
{
    bool empty = p->rest[strspn(p->rest, " \t")] == '\0';
    return empty ? refuse_output(url, err, "a command must follow") : KINETO_OK;
}

/* Only the protocol; the rest of the URL is parsed by read_url_rest. */
static kineto_status read_output_kind(const char *path, place *out, kineto_error *err)
{
    size_t n = protocol_bytes(path);
    *out = (place){.kind = TO_FILE, .rest = path, .fd = -1};
    if (n >= sizeof out->protocol)
        return refuse_output(path, err, "unknown protocol");
    for (size_t i = 0; i < n; i++)
        out->protocol[i] = kb_lower(path[i]);
    if (n == 0)
        return KINETO_OK;
    out->rest = path + n + 1;
    if (strcmp(out->protocol, "fd") == 0)
        out->kind = TO_FD;
    else if (strcmp(out->protocol, "exec") == 0)
        out->kind = TO_COMMAND;
    else if (strcmp(out->protocol, "file") != 0)
        out->kind = TO_REGISTERED;
    return KINETO_OK;
}

static kineto_status read_url_rest(const char *path, place *p, kineto_error *err)
{
    if (p->kind == TO_FD)
        return read_fd_url(path, p, err);
    if (p->kind == TO_COMMAND)
        return read_exec_url(path, p, err);
    return p->kind == TO_FILE && p->protocol[0] ? read_file_url(path, p, err) : KINETO_OK;
}

/* ---- permissions ----------------------------------------------------------------------------- */

static kineto_status check_output_kind(const place *p, ko_request_source source, kineto_error *err)
{
    if (p->kind == TO_REGISTERED)
        return ko_registry_check(p->protocol, source, err);
    if (p->kind == TO_FILE || source == KO_FROM_ARGUMENT)
        return KINETO_OK;
    return kb_fail(err, KINETO_E_PERMISSION,
                   "'%s:' is for the program itself and command lines, not for %s", p->protocol,
                   source == KO_FROM_REQUEST ? "requests" : "configuration files");
}

/* Parses a destination. Permissions are checked before the rest of the URL is read. */
static kineto_status resolve_output(const char *path, ko_request_source source, place *out,
                                    kineto_error *err)
{
    kineto_status status = read_output_kind(path, out, err);
    if (status == KINETO_OK)
        status = check_output_kind(out, source, err);
    return status ? status : read_url_rest(path, out, err);
}

/* For requests: the file must be below the allowed directory. Others may write anywhere. */
static kineto_status check_output_file(const place *p, ko_request_source source, kineto_error *err)
{
    int directory;
    const char *name;
    if (source != KO_FROM_REQUEST)
        return KINETO_OK;
    kineto_status status = ko_request_output_directory(p->rest, &directory, &name, err);
    if (status == KINETO_OK)
        close(directory);
    return status;
}

kineto_status ko_output_check(ko_request_source source, const char *path, kineto_error *err)
{
    place p;
    kineto_status status = resolve_output(path, source, &p, err);
    if (status == KINETO_OK && p.kind == TO_FILE)
        status = check_output_file(&p, source, err);
    if (status == KINETO_OK && p.kind == TO_FD)
        status = ko_pipe_check_fd(p.fd, path, err);
    return status;
}

/* The destination for a URL: with the pid inserted for registered protocols, else unchanged. */
static kineto_status registered_path(const ko_request *r, const place *p, uint32_t pid,
                                     char out[KO_REQUEST_PATH_BYTES], kineto_error *err)
{
    if (p->kind == TO_REGISTERED && r->memory_snapshot)
        return kb_fail(err, KINETO_E_UNSUPPORTED,
                       "protocol '%s' supports traces only; a memory snapshot needs a file",
                       p->protocol);
    if (p->kind == TO_REGISTERED)
        return ko_request_output_url(r->log_file, pid, out, err);
    snprintf(out, KO_REQUEST_PATH_BYTES, "%s", r->log_file);
    return KINETO_OK;
}

kineto_status ko_output_path(const ko_request *r, ko_request_source source, uint32_t pid,
                             char out[KO_REQUEST_PATH_BYTES], kineto_error *err)
{
    place p;
    if (!ko_output_is_url(r->log_file))
        return ko_request_output_path(r, source, pid, out, err);
    kineto_status status = resolve_output(r->log_file, source, &p, err);
    if (status == KINETO_OK && p.kind == TO_FD)
        status = ko_pipe_check_fd(p.fd, r->log_file, err);
    if (status != KINETO_OK)
        return status;
    if (p.kind != TO_FILE)
        return registered_path(r, &p, pid, out, err);
    ko_request plain = *r;
    snprintf(plain.log_file, sizeof plain.log_file, "%s", p.rest);
    return ko_request_output_path(&plain, source, pid, out, err);
}

/* ---- opening --------------------------------------------------------------------------------- */

/* Opened relative to the checked directory, which stays the same one even if the path is changed
 * meanwhile. */
static kineto_status open_request_file(const char *path, kb_compression c, kb_sink **out,
                                       kineto_error *err)
{
    enum { OWNER_ONLY = 0600 };
    int directory;
    const char *name;
    kineto_status status = ko_request_output_directory(path, &directory, &name, err);
    if (status != KINETO_OK)
        return status;
    status = kb_sink_open_file_at(directory, name, path, OWNER_ONLY, c, out, err);
    close(directory);
    return status;
}

/* Opens any destination for bytes; registered protocols have none. */
static kineto_status open_output(const place *p, ko_request_source source, const char *path,
                                 kb_compression c, kb_sink **out, kineto_error *err)
{
    switch (p->kind) {
    case TO_FILE:
        return source == KO_FROM_REQUEST ? open_request_file(p->rest, c, out, err)
                                         : kb_sink_open_file(p->rest, c, out, err);
    case TO_FD:
        return ko_pipe_to_fd(p->fd, path, out, err);
    case TO_COMMAND:
        return ko_pipe_to_command(p->rest, path, out, err);
    default:
        return kb_fail(err, KINETO_E_UNSUPPORTED, "protocol '%s' supports traces only",
                       p->protocol);
    }
}

kineto_status ko_output_sink(ko_request_source source, const char *path, kb_compression compression,
                             kb_sink **out, kineto_error *err)
{
    place p;
    *out = NULL;
    kineto_status status = resolve_output(path, source, &p, err);
    return status ? status : open_output(&p, source, path, compression, out, err);
}

kineto_status ko_output_open(ko_request_source source, const char *path, kb_sink **out,
                             kineto_error *err)
{
    place p;
    *out = NULL;
    kineto_status status = resolve_output(path, source, &p, err);
    if (status != KINETO_OK)
        return status;
    kb_compression c = p.kind == TO_FILE ? kb_compression_of(p.rest) : KB_COMPRESS_NONE;
    return open_output(&p, source, path, c, out, err);
}

/* ---- traces ---------------------------------------------------------------------------------- */

/* Formats that are written sequentially. Takes the sink. */
static kineto_status write_trace_stream(const kineto_trace *trace, kb_sink *sink,
                                        const char *format, const char *name, uint64_t *bytes,
                                        kineto_error *err)
{
    kineto_export_options options = {.size = sizeof options, .format = format, .trace_name = name};
    kineto_status status = ke_export_to_sink(trace, sink, &options, NULL, err);
    if (status == KINETO_OK)
        return kb_sink_close_counted(sink, bytes, err);
    kb_sink_abort(sink);
    return status;
}

/* Formats that need a seekable file (databases): written to a staging file, then copied. */
static kineto_status write_staged_trace(const kineto_trace *trace, const place *p,
                                        ko_request_source source, const char *format,
                                        uint64_t *bytes, kineto_error *err)
{
    ko_staging_file own;
    kineto_export_options options = {
        .size = sizeof options, .format = format, .trace_name = p->rest};
    kineto_status status =
        check_output_file(p, source, err); /* fail before the work; delivering checks again */
    if (status == KINETO_OK)
        status = ko_staging_file_create(&own, p->rest, err);
    if (status != KINETO_OK)
        return status;
    status = kineto_trace_export(trace, own.path, &options, NULL, err);
    if (status == KINETO_OK)
        status = ko_staging_file_deliver(&own, source, p->rest, bytes, err);
    ko_staging_file_remove(&own);
    return status;
}

/* The format follows from the extension; Chrome JSON is the default. */
static kineto_status write_trace_file(const kineto_trace *trace, const place *p,
                                      ko_request_source source, uint64_t *bytes, kineto_error *err)
{
    kb_compression c;
    bool needs_file;
    kb_sink *sink;
    const char *format = ke_format_by_ending(p->rest, &c, &needs_file);
    if (needs_file)
        return write_staged_trace(trace, p, source, format, bytes, err);
    kineto_status status = open_output(p, source, p->rest, c, &sink, err);
    return status ? status : write_trace_stream(trace, sink, format, p->rest, bytes, err);
}

/* The default format, uncompressed. */
static kineto_status write_trace_pipe(const kineto_trace *trace, const place *p,
                                      ko_request_source source, const char *path, uint64_t *bytes,
                                      kineto_error *err)
{
    kb_sink *sink;
    kineto_status status = open_output(p, source, path, KB_COMPRESS_NONE, &sink, err);
    return status ? status : write_trace_stream(trace, sink, NULL, path, bytes, err);
}

kineto_status ko_output_write(const kineto_trace *trace, ko_request_source source, const char *path,
                              uint64_t *bytes, kineto_error *err)
{
    place p;
    uint64_t written = 0;
    kineto_status status = resolve_output(path, source, &p, err);
    if (status != KINETO_OK)
        return status;
    if (p.kind == TO_FILE)
        status = write_trace_file(trace, &p, source, &written, err);
    else if (p.kind == TO_REGISTERED)
        status = ko_registry_write(p.protocol, trace, path, err);
    else
        status = write_trace_pipe(trace, &p, source, path, &written, err);
    if (bytes)
        *bytes = status == KINETO_OK ? written : 0;
    return status;
}

kineto_status kineto_output_save(const kineto_trace *trace, const char *path_or_url,
                                 kineto_error *err)
{
    place p;
    if (!trace || !path_or_url)
        return kb_fail_null(err, __func__, "trace, path_or_url", trace, path_or_url);
    kineto_status status = resolve_output(path_or_url, KO_FROM_ARGUMENT, &p, err);
    if (status == KINETO_OK && p.kind == TO_FILE) /* its extension must be known */
        return kineto_trace_save(trace, p.rest, err);
    return status ? status : ko_output_write(trace, KO_FROM_ARGUMENT, path_or_url, NULL, err);
}
