/* Escape sequences that every terminal of today understands (ECMA-48, and xterm's second screen), so no
 * terminal library is needed. */
#include "cli/live/screen.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define ENTER_SCREEN "\033[?1049h\033[?25l"
#define LEAVE_SCREEN "\033[?25h\033[?1049l"
#define HOME         "\033[H"
#define CLEAR_LINE   "\033[K"
#define CLEAR_BELOW  "\033[J"

static void write_all(int fd, const char *text, size_t size)
{
    while (size) {
        ssize_t n = write(fd, text, size);
        if (n < 0 && errno != EINTR)
            return;
        text += n > 0 ? n : 0;
        size -= n > 0 ? (size_t)n : 0;
    }
}

static void write_text(int fd, const char *text) { write_all(fd, text, strlen(text)); }

kineto_status kc_screen_open(kc_screen *s, kineto_error *err)
{
    s->fd = open("/dev/tty", O_RDWR | O_CLOEXEC);
    if (s->fd < 0 || tcgetattr(s->fd, &s->usual) != 0) {
        if (s->fd >= 0)
            close(s->fd);
        s->fd = -1;
        return kb_fail(err, KINETO_E_UNSUPPORTED,
                       "a live view needs a terminal; 'ckineto top --batch' prints it as text");
    }
    struct termios raw = s->usual;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    raw.c_cc[VMIN] = raw.c_cc[VTIME] = 0;
    (void)tcsetattr(s->fd, TCSANOW, &raw);
    write_text(s->fd, ENTER_SCREEN);
    return KINETO_OK;
}

void kc_screen_size(const kc_screen *s, size_t *rows, size_t *columns)
{
    struct winsize size;
    bool is_known = ioctl(s->fd, TIOCGWINSZ, &size) == 0 && size.ws_row && size.ws_col;
    *rows = is_known ? size.ws_row : 24;
    *columns = is_known ? size.ws_col : 80;
}

void kc_screen_show(const kc_screen *s, const char *text)
{
    size_t rows, columns, size;
    char *whole;
    kc_screen_size(s, &rows, &columns);
    FILE *out = open_memstream(&whole, &size);
    if (!out)
        return;
    fputs(HOME, out);
    for (size_t row = 0; row < rows && *text; row++) {
        size_t line = strcspn(text, "\n");
        fprintf(out, "%s%.*s" CLEAR_LINE, row ? "\r\n" : "", (int)line, text);
        text += line + (text[line] == '\n');
    }
    fputs(CLEAR_BELOW, out);
    if (fclose(out) == 0)
        write_all(s->fd, whole, size);
    free(whole);
}

/* Arrows and the like begin with Escape, and their bytes come together. */
int kc_screen_key(const kc_screen *s)
{
    unsigned char key, rest[16];
    if (read(s->fd, &key, 1) != 1)
        return 0;
    if (key != '\033')
        return key;
    (void)!read(s->fd, rest, sizeof rest);
    return 0;
}

void kc_screen_close(kc_screen *s)
{
    if (s->fd < 0)
        return;
    write_text(s->fd, LEAVE_SCREEN);
    (void)tcsetattr(s->fd, TCSANOW, &s->usual);
    close(s->fd);
    s->fd = -1;
}
