/* The hook of Python 3.9 to 3.11: a profile function in C for each thread.
 *
 * A thread has one profile function. Threads that already have another one keep it. The offset of the
 * function in a thread state is found by an experiment on a thread state made for it, so that no
 * header of a certain version is needed. New threads are found in the list of thread states, which
 * begins with the newest; the thread that starts one reads the list before the new one can run. */
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

/* The object that goes with a thread's profile function. */
typedef struct lane_object {
    PyObject_HEAD cs_lane *lane;
} lane_object;

#define CALLS_PER_LOOK 64u
#define SEARCHED_BYTES 256u /* of a thread state, which is longer in all these versions */

static PyObject *self_name, *variables_name;
static PyTypeObject *lane_type;
static PyInterpreterState *interpreter;
static uint64_t newest_thread; /* the last one that was looked at */
static size_t function_offset; /* in a thread state; 0: not known */
static uint32_t calls;
static uint64_t skipped;       /* threads with another profile function */

static int on_event(PyObject *object, PyObject *frame, int what, PyObject *argument);

/* ---- thread states --------------------------------------------------------------------------- */

static bool set_function(PyThreadState *state, profile_function function, PyObject *object)
{
    if (_PyEval_SetProfile(state, function, object) == 0)
        return true;
    PyErr_Clear(); /* an audit hook forbids it */
    return false;
}

static void *word_at(const PyThreadState *state, size_t offset)
{
    void *word;
    memcpy(&word, (const char *)state + offset, sizeof word);
    return word;
}

/* Offset of the only word of a thread state that is our function; 0 if there is not one. */
static size_t search_function(const PyThreadState *state)
{
    size_t found = 0;
    profile_function function = on_event;
    void *wanted;
    memcpy(&wanted, &function, sizeof wanted);
    for (size_t at = sizeof wanted; at < SEARCHED_BYTES; at += sizeof wanted)
        if (word_at(state, at) == wanted) {
            if (found)
                return 0;
            found = at;
        }
    return found;
}

static void find_function_offset(void)
{
    PyThreadState *state = PyThreadState_New(interpreter);
    if (!state)
        return;
    if (set_function(state, on_event, NULL)) {
        size_t found = search_function(state);
        if (set_function(state, NULL, NULL) && found && !word_at(state, found))
            function_offset = found;
    }
    PyThreadState_Clear(state);
    PyThreadState_Delete(state);
}

static bool is_ours(const PyThreadState *state)
{
    profile_function function = on_event;
    void *ours, *theirs = word_at(state, function_offset);
    memcpy(&ours, &function, sizeof ours);
    return theirs == ours;
}

static bool hook_thread(PyThreadState *state)
{
    if (is_ours(state))
        return true;
    if (word_at(state, function_offset)) {
        skipped++;
        return false;
    }
    lane_object *object = PyObject_New(lane_object, lane_type);
    if (!object) {
        PyErr_Clear();
        return false;
    }
    object->lane = cs_lane_new(true);
    bool done = object->lane && set_function(state, on_event, (PyObject *)object);
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

static inline void look_for_threads(void)
{
    PyThreadState *newest = PyInterpreterState_ThreadHead(interpreter);
    if (KINETO_UNLIKELY(newest && PyThreadState_GetID(newest) > newest_thread))
        (void)hook_threads(newest_thread);
}

/* ---- events ---------------------------------------------------------------------------------- */

/* The frame's code: the frame keeps it alive. */
static inline PyObject *code_of(PyObject *frame)
{
    PyObject *code = (PyObject *)PyFrame_GetCode((PyFrameObject *)frame);
    Py_DECREF(code);
    return code;
}

static void on_c_event(cs_lane *lane, PyObject *frame, int what, PyObject *callable)
{
    if (what != C_CALL) {
        look_for_threads();
        if (cs.c_functions && callable)
            cs_end_c(lane, callable);
    } else if (cs.c_functions && callable && kineto_enabled(KINETO_KIND_PYTHON_FUNCTION)) {
        cs_name *name = cs_name_c_function(callable, NULL);
        if (name)
            cs_begin(lane, callable, name, frame);
    }
}

/* Generators: a yield is a RETURN, and going on a CALL, also by an exception that is thrown in. */
static int on_event(PyObject *object, PyObject *frame, int what, PyObject *argument)
{
    cs_lane *lane = ((lane_object *)object)->lane;
    if (KINETO_UNLIKELY(!cs.active))
        return 0;
    if (what == CALL || what == RETURN) {
        PyObject *code = code_of(frame);
        if (!cs.functions && code != cs.call_code)
            return 0;
        if (what == CALL) {
            if (KINETO_UNLIKELY(++calls % CALLS_PER_LOOK == 0))
                look_for_threads(); /* code in C may have made some */
            cs_begin_code(lane, code, frame);
        } else {
            cs_end(lane, code, frame);
        }
    } else if (what == C_CALL || what == C_RETURN || what == C_EXCEPTION) {
        on_c_event(lane, frame, what, argument);
    }
    return 0;
}

/* ---- frames ---------------------------------------------------------------------------------- */

PyObject *cs_frame_now(void)
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

static void dealloc_object(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    cs_lane *lane = ((lane_object *)object)->lane;
    if (lane)
        cs_lane_free(lane);
    PyObject_Free(object);
    Py_DECREF(type);
}

static int parse_event(const char *text)
{
    static const char *const texts[] = {"call", "", "", "return", "c_call", "c_exception", "c_return"};
    for (int what = CALL; what <= C_RETURN; what++)
        if (strcmp(text, texts[what]) == 0)
            return what;
    return -1;
}

/* sys.getprofile() gives the object to the program, which may hand it to sys.setprofile() later. Then
 * it is called as a function of Python, for one event, and puts the one in C back. */
static PyObject *call_object(PyObject *object, PyObject *args, PyObject *keywords)
{
    PyObject *frame, *argument;
    const char *text;
    (void)keywords;
    if (!PyArg_ParseTuple(args, "OsO", &frame, &text, &argument))
        return NULL;
    (void)set_function(PyThreadState_Get(), cs.active ? on_event : NULL,
                       cs.active ? object : NULL);
    (void)on_event(object, frame, parse_event(text), argument);
    Py_INCREF(Py_None);
    return Py_None;
}

static char lane_text[] = "Records the functions of a thread.";
static PyType_Slot lane_slots[] = {{Py_tp_dealloc, dealloc_object},
                                   {Py_tp_call, call_object},
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

void cs_hook_remove(void)
{
    PyThreadState *state = function_offset ? PyInterpreterState_ThreadHead(interpreter) : NULL;
    for (; state; state = PyThreadState_Next(state))
        if (is_ours(state))
            (void)set_function(state, NULL, NULL);
}

int cs_hook_init(void)
{
    interpreter = PyInterpreterState_Get();
    lane_type = (PyTypeObject *)PyType_FromSpec(&lane_spec);
    self_name = PyUnicode_InternFromString("self");
    variables_name = PyUnicode_InternFromString("f_locals");
    return lane_type && self_name && variables_name ? 0 : -1;
}
