/* The hook of Python 3.9 to 3.11: a profile function in C for each thread.
 *
 * A thread has one profile function. Threads that already have another one keep it. The offset of
 * the function in a thread state is found by an experiment on a thread state made for it, so that
 * no header of a certain version is needed. New threads are found in the list of thread states,
 * which begins with the newest; the thread that starts one reads the list before the new one can
 * run. */
#include "stacks.h"

#include <string.h>

const char cs_hook_name[] = "profile";

/* Of CPython, with the same signature in all these versions. Not in the limited API. */
typedef int (*profile_function)(PyObject *object, PyObject *frame, int what, PyObject *argument);
extern int _PyEval_SetProfile(PyThreadState *state, profile_function function, PyObject *object)
    __attribute__((weak));
extern PyThreadState *PyInterpreterState_ThreadHead(PyInterpreterState *interpreter);
extern PyThreadState *PyThreadState_Next(PyThreadState *state);
extern uint64_t PyThreadState_GetID(PyThreadState *state);

/* Events of a profile function. */
enum { CALL = 0, RETURN = 3, C_CALL = 4, C_EXCEPTION = 5, C_RETURN = 6 };

/* The object of a thread's profile function. It owns the lane: CPython releases the object when the
 * thread ends or another profile function is set. */
typedef struct lane_object {
    PyObject_HEAD cs_lane *lane;
} lane_object;

#define CALLS_PER_CHECK 64u
#define SEARCHED_BYTES 256u /* of a thread state, which is longer in all these versions */

static PyObject *self_name, *variables_name;
static PyTypeObject *lane_type;
static PyInterpreterState *interpreter;
static uint64_t newest_thread; /* id of the newest thread that hook_threads has seen */
static size_t function_offset; /* in a thread state; 0: not known */
static uint32_t calls;
static uint64_t skipped;       /* threads with another profile function */

static int on_event(PyObject *object, PyObject *frame, int what, PyObject *argument);

/* ---- thread states --------------------------------------------------------------------------- */

static bool set_profile_function(PyThreadState *state, profile_function function, PyObject *object)
{
    if (_PyEval_SetProfile(state, function, object) == 0)
        return true;
    PyErr_Clear(); /* an audit hook forbids it */
    return false;
}

/* Read a word of a thread state, whose layout the limited API hides. */
static void *read_state_word(const PyThreadState *state, size_t offset)
{
    void *word;
    memcpy(&word, (const char *)state + offset, sizeof word);
    return word;
}

/* Offset of the only word of a thread state that is our function; 0 if there is not one. */
static size_t search_function_word(const PyThreadState *state)
{
    size_t found = 0;
    profile_function function = on_event;
    void *wanted;
    memcpy(&wanted, &function, sizeof wanted);
    for (size_t at = sizeof wanted; at < SEARCHED_BYTES; at += sizeof wanted)
        if (read_state_word(state, at) == wanted) {
            if (found)
                return 0;
            found = at;
        }
    return found;
}

/* Set our function on a new thread state, find the word, and check that it is NULL once the
 * function is removed. function_offset stays 0 if there is any doubt. */
static void find_function_offset(void)
{
    PyThreadState *state = PyThreadState_New(interpreter);
    if (!state)
        return;
    if (set_profile_function(state, on_event, NULL)) {
        size_t found = search_function_word(state);
        if (set_profile_function(state, NULL, NULL) && found && !read_state_word(state, found))
            function_offset = found;
    }
    PyThreadState_Clear(state);
    PyThreadState_Delete(state);
}

static bool has_our_hook(const PyThreadState *state)
{
    profile_function function = on_event;
    void *ours, *theirs = read_state_word(state, function_offset);
    memcpy(&ours, &function, sizeof ours);
    return theirs == ours;
}

/* Set our profile function on a thread. A thread that has another one keeps it, and is counted.
 * @return whether the thread has our function now. */
static bool hook_thread(PyThreadState *state)
{
    if (has_our_hook(state))
        return true;
    if (read_state_word(state, function_offset)) {
        skipped++;
        return false;
    }
    lane_object *object = PyObject_New(lane_object, lane_type);
    if (!object) {
        PyErr_Clear();
        return false;
    }
    object->lane = cs_lane_new(true);
    bool done = object->lane && set_profile_function(state, on_event, (PyObject *)object);
    Py_DECREF(object);
    return done;
}

/* Hook threads that are newer than `known`. @return how many have our hook. */
static unsigned hook_threads(uint64_t known)
{
    unsigned hooked = 0;
    PyThreadState *state = PyInterpreterState_ThreadHead(interpreter);
    if (state)
        newest_thread = PyThreadState_GetID(state);
    for (; state && PyThreadState_GetID(state) > known; state = PyThreadState_Next(state))
        hooked += hook_thread(state);
    return hooked;
}

/* Hook the threads that were started since the last call; cheap if there are none. */
static inline void hook_new_threads(void)
{
    PyThreadState *newest = PyInterpreterState_ThreadHead(interpreter);
    if (KINETO_UNLIKELY(newest && PyThreadState_GetID(newest) > newest_thread))
        (void)hook_threads(newest_thread);
}

/* ---- events ---------------------------------------------------------------------------------- */

/* The frame's code, a borrowed reference: the frame keeps it alive. */
static inline PyObject *peek_frame_code(PyObject *frame)
{
    PyObject *code = (PyObject *)PyFrame_GetCode((PyFrameObject *)frame);
    Py_DECREF(code);
    return code;
}

/* A function in C begins or ends. Threads are started by functions in C, so the end of one is where
 * new threads are looked for. */
static void on_c_event(cs_lane *lane, PyObject *frame, int what, PyObject *callable)
{
    bool is_outside = cs.has_filter && cs_is_outside(peek_frame_code(frame));
    if (what != C_CALL) {
        hook_new_threads();
        if (cs.c_functions && callable && !is_outside)
            cs_end_c(lane, callable);
    } else if (cs.c_functions && callable && kineto_enabled(KINETO_KIND_PYTHON_FUNCTION)) {
        cs_name *name = cs_name_c_function(callable, NULL);
        if (name && (!is_outside || (name->flags & CS_ENDS_PROCESS)))
            cs_begin_c(lane, callable, name, frame);
    }
}

/* Generators: a yield is a RETURN, and going on a CALL, also by an exception that is thrown in. */
static int on_event(PyObject *object, PyObject *frame, int what, PyObject *argument)
{
    cs_lane *lane = ((lane_object *)object)->lane;
    if (KINETO_UNLIKELY(!cs.active)) /* removed from the thread later, or never */
        return 0;
    if (what == CALL || what == RETURN) {
        PyObject *code = peek_frame_code(frame);
        if (!cs.functions && code != cs.call_code)
            return 0;
        if (what == CALL) {
            if (KINETO_UNLIKELY(++calls % CALLS_PER_CHECK == 0))
                hook_new_threads(); /* code in C may have made some */
            cs_begin_code(lane, code, frame);
        } else if (!cs_is_outside(code)) {
            cs_end(lane, code, frame);
        }
    } else if (what == C_CALL || what == C_RETURN || what == C_EXCEPTION) {
        on_c_event(lane, frame, what, argument);
    }
    return 0;
}

/* ---- frames ---------------------------------------------------------------------------------- */

PyObject *cs_current_frame(void)
{
    PyObject *frame = (PyObject *)PyEval_GetFrame(); /* borrowed */
    Py_XINCREF(frame);
    return frame;
}

PyObject *cs_frame_self(PyObject *frame)
{
    PyObject *variables = PyObject_GetAttr(frame, variables_name);
    PyObject *self = variables ? PyObject_GetItem(variables, self_name) : NULL;
    Py_XDECREF(variables);
    PyErr_Clear();
    return self;
}

/* ---- the object ------------------------------------------------------------------------------ */

static void free_lane_object(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    cs_lane *lane = ((lane_object *)object)->lane;
    if (lane)
        cs_lane_free(lane);
    PyObject_Free(object);
    Py_DECREF(type);
}

/* The number of an event by its name for Python functions; -1: unknown. */
static int parse_event_name(const char *text)
{
    static const char *const texts[] = {"call",   "",            "",        "return",
                                        "c_call", "c_exception", "c_return"};
    for (int what = CALL; what <= C_RETURN; what++)
        if (strcmp(text, texts[what]) == 0)
            return what;
    return -1;
}

/* sys.getprofile() gives the object to the program, which may pass it to sys.setprofile() later.
 * Then the interpreter calls it as a Python function, for one event: it reinstalls the function in
 * C and handles the event. */
static PyObject *call_lane_object(PyObject *object, PyObject *args, PyObject *keywords)
{
    PyObject *frame, *argument;
    const char *text;
    (void)keywords;
    if (!PyArg_ParseTuple(args, "OsO", &frame, &text, &argument))
        return NULL;
    (void)set_profile_function(PyThreadState_Get(), cs.active ? on_event : NULL,
                       cs.active ? object : NULL);
    (void)on_event(object, frame, parse_event_name(text), argument);
    Py_INCREF(Py_None);
    return Py_None;
}

static char lane_text[] = "Records the functions of a thread.";
static PyType_Slot lane_slots[] = {{Py_tp_dealloc, free_lane_object},
                                   {Py_tp_call, call_lane_object},
                                   {Py_tp_doc, lane_text},
                                   {0, NULL}};
static PyType_Spec lane_spec = {"ckineto.ThreadFunctions", sizeof(lane_object), 0,
                                Py_TPFLAGS_DEFAULT, lane_slots};

/* ---- the hook -------------------------------------------------------------------------------- */

bool cs_hook_install(const char **why)
{
    if (!_PyEval_SetProfile || !PyInterpreterState_ThreadHead(interpreter)) {
        *why = "this Python does not let profile functions be set for other threads";
        return false;
    }
    if (!function_offset)
        find_function_offset();
    if (!function_offset) {
        *why = "whether another profile function is installed cannot be found out in this Python";
        return false;
    }
    skipped = 0;
    if (hook_threads(0) == 0) {
        *why = "another profile function is installed (sys.setprofile, or a profiler)";
        return false;
    }
    if (skipped)
        (void)kineto_ledger_add(CS_SOURCE, "threads with another profile function", skipped, true,
                                "their functions are not recorded");
    return true;
}

/* Threads that had our function and have it no more: nothing tells when that happened. */
static void report_replaced(uint64_t count)
{
    if (count > skipped)
        (void)kineto_ledger_add(CS_SOURCE, "threads that another profiler took over",
                                count - skipped, true,
                                "cProfile or sys.setprofile replaced ckineto's profile function; "
                                "Python 3.12 and later let both record");
}

void cs_hook_remove(void)
{
    PyThreadState *state = function_offset ? PyInterpreterState_ThreadHead(interpreter) : NULL;
    uint64_t others = 0;
    for (; state; state = PyThreadState_Next(state))
        if (has_our_hook(state))
            (void)set_profile_function(state, NULL, NULL);
        else
            others += PyThreadState_GetID(state) <= newest_thread;
    if (function_offset)
        report_replaced(others);
}

int cs_hook_init(void)
{
    interpreter = PyInterpreterState_Get();
    lane_type = (PyTypeObject *)PyType_FromSpec(&lane_spec);
    self_name = PyUnicode_InternFromString("self");
    variables_name = PyUnicode_InternFromString("f_locals");
    return lane_type && self_name && variables_name ? 0 : -1;
}
