/* The hook of Python 3.12 and later: sys.monitoring, with callbacks in C. It covers all threads,
 * and other tools have identities of their own, so coverage, debuggers and other profilers go on.
 *
 * Where only modules are recorded, only the code of nn.Module.__call__ has events; leaving a frame
 * by an exception is an event of the whole interpreter or none. */
#include "stacks.h"

#include <dlfcn.h>
#include <string.h>

#ifndef METH_FASTCALL /* in the limited API since 3.10; the headers may be older */
#define METH_FASTCALL 0x0080
#endif

#define TOOL_NAME "ckineto"

const char cs_hook_name[] = "monitoring";

/* Tool identities without a fixed purpose, then that of optimisers. The other ones are left to the
 * tools that they are reserved for: debuggers (0), coverage (1), and profilers (2), which cProfile
 * needs. */
static const int tools[] = {4, 3, 5};

static int tool = -1;
static PyObject *local_code; /* code that has events of its own */

static _Thread_local cs_lane *thread_lane;
static pthread_key_t lane_key;

/* sys.monitoring.DISABLE: a callback that returns it gets no more events of the same place. */
static PyObject *disable;
static bool has_disabled; /* some place has no events, until restart_events() */

/* PyFrame_GetVar of 3.12, which is not in the limited API. */
static PyObject *(*get_variable)(PyObject *frame, PyObject *name);
static PyObject *self_name;

/* ---- lanes ----------------------------------------------------------------------------------- */

/* Create the calling thread's lane at its first event in a recording; the key's destructor frees it
 * when the thread ends. NULL: no session records, or out of memory. */
static CS_COLD cs_lane *make_thread_lane(void)
{
    if (!atomic_load_explicit(&cs.recording, memory_order_relaxed))
        return NULL;
    cs_lane *lane = cs_lane_new(true);
    if (lane && pthread_setspecific(lane_key, lane) != 0) {
        cs_lane_free(lane);
        return NULL;
    }
    thread_lane = lane;
    return lane;
}

static inline cs_lane *get_thread_lane(void)
{
    cs_lane *lane = thread_lane;
    return KINETO_LIKELY(lane != NULL) ? lane : make_thread_lane();
}

static void end_thread_lane(void *lane)
{
    thread_lane = NULL;
    cs_lane_free(lane);
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
    PyObject *self = NULL;
    if (get_variable) {
        self = get_variable(frame, self_name);
    } else {
        PyObject *variables = PyObject_GetAttrString(frame, "f_locals");
        self = variables ? PyObject_GetItem(variables, self_name) : NULL;
        Py_XDECREF(variables);
    }
    PyErr_Clear();
    return self;
}

/* ---- callbacks: the first argument is the code object ----------------------------------------
 * None is immortal from 3.12 on, so it is returned as it is. Events of functions that the filter
 * excludes are disabled place by place, after which they cost nothing. */

static PyObject *disable_place(void)
{
    if (!disable)
        return Py_None;
    has_disabled = true;
    Py_INCREF(disable);
    return disable;
}

static PyObject *on_begin(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    cs_lane *lane = get_thread_lane();
    (void)self;
    (void)count;
    if (cs_is_outside(args[0]))
        return disable_place();
    if (KINETO_LIKELY(lane != NULL))
        cs_begin_code(lane, args[0], NULL);
    return Py_None;
}

static PyObject *on_end(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    cs_lane *lane = get_thread_lane();
    (void)self;
    (void)count;
    if (cs_is_outside(args[0]))
        return disable_place();
    if (KINETO_LIKELY(lane != NULL))
        cs_end(lane, args[0], NULL);
    return Py_None;
}

/* PY_THROW and PY_UNWIND come for every frame, or for none: they cannot be disabled or set for one
 * code object. */
static PyObject *on_throw(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    return cs_is_outside(args[0]) ? Py_None : on_begin(self, args, count);
}

static PyObject *on_unwind(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    if (cs_is_outside(args[0]) || (!cs.functions && args[0] != cs.call_code))
        return Py_None;
    return on_end(self, args, count);
}

static bool is_c_function(PyObject *callable)
{
    return PyObject_TypeCheck(callable, &PyCFunction_Type) ||
           Py_IS_TYPE(callable, &PyMethodDescr_Type);
}

/* (code, offset, callable, first argument or MISSING) */
static PyObject *on_c_begin(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    cs_lane *lane = get_thread_lane();
    (void)self;
    if (!lane || count < 3 || !kineto_enabled(KINETO_KIND_PYTHON_FUNCTION))
        return Py_None;
    bool is_outside = cs_is_outside(args[0]);
    cs_name *name = NULL;
    if (is_c_function(args[2]))
        name = cs_name_c_function(args[2], count > 3 ? args[3] : NULL);
    if (name && (!is_outside || (name->flags & CS_ENDS_PROCESS)))
        cs_begin_c(lane, args[2], name, NULL);
    else if (is_outside)
        return disable_place();
    return Py_None;
}

static PyObject *on_c_end(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    cs_lane *lane = get_thread_lane();
    (void)self;
    if (lane && count >= 3 && is_c_function(args[2]) && !cs_is_outside(args[0]))
        cs_end_c(lane, args[2]);
    return Py_None;
}

#define METHOD(function) {#function, (PyCFunction)(void *)function, METH_FASTCALL, NULL}
static PyMethodDef begin_method = METHOD(on_begin), end_method = METHOD(on_end),
                   throw_method = METHOD(on_throw), unwind_method = METHOD(on_unwind),
                   c_begin_method = METHOD(on_c_begin), c_end_method = METHOD(on_c_end);

/* ---- events of each option ------------------------------------------------------------------- */

/* Groups of events, by what is recorded. */
enum { EVERYWHERE = 1, ONLY_MODULES = 2, C_CALLS = 4 };

static const struct hook_event {
    const char *name;
    PyMethodDef *method;
    unsigned when;
    bool is_local; /* with ONLY_MODULES: of one code object */
} hook_events[] = {
    {"PY_START", &begin_method, EVERYWHERE, false},
    {"PY_RESUME", &begin_method, EVERYWHERE, false},
    {"PY_THROW", &throw_method, EVERYWHERE, false},
    {"PY_RETURN", &end_method, EVERYWHERE, false},
    {"PY_YIELD", &end_method, EVERYWHERE, false},
    {"PY_UNWIND", &unwind_method, EVERYWHERE, false},
    {"PY_START", &begin_method, ONLY_MODULES, true},
    {"PY_RETURN", &end_method, ONLY_MODULES, true},
    {"PY_UNWIND", &unwind_method, ONLY_MODULES, false},
    {"CALL", &c_begin_method, C_CALLS, false},
    {"C_RETURN", &c_end_method, C_CALLS, false},
    {"C_RAISE", &c_end_method, C_CALLS, false},
};
#define HOOK_EVENTS (sizeof hook_events / sizeof *hook_events)

/* The groups that cs's options need. */
static unsigned select_event_groups(void)
{
    if (cs.functions)
        return EVERYWHERE | (cs.c_functions ? C_CALLS : 0u);
    return cs.modules ? ONLY_MODULES : 0;
}

/* ---- sys.monitoring -------------------------------------------------------------------------- */

static PyObject *get_monitoring(void) { return PySys_GetObject("monitoring"); } /* borrowed */

/* Release the result of a call, and clear its exception. False: the call failed (NULL). */
static bool release_result(PyObject *result)
{
    Py_XDECREF(result);
    if (!result)
        PyErr_Clear();
    return result != NULL;
}

/* Read the value of an event from sys.monitoring.events; 0: this version has no such event. */
static long read_event_bit(const char *name)
{
    PyObject *monitoring = get_monitoring();
    PyObject *events = monitoring ? PyObject_GetAttrString(monitoring, "events") : NULL;
    PyObject *value = events ? PyObject_GetAttrString(events, name) : NULL;
    long bit = value ? PyLong_AsLong(value) : 0;
    Py_XDECREF(value);
    Py_XDECREF(events);
    PyErr_Clear();
    return bit;
}

/* Register a callback for an event; NULL removes the one that is registered. */
static bool register_callback(const char *event, PyMethodDef *method)
{
    PyObject *function = method ? PyCFunction_NewEx(method, NULL, NULL) : Py_None;
    long bit = read_event_bit(event);
    bool done = function && bit &&
                release_result(PyObject_CallMethod(get_monitoring(), "register_callback", "ilO",
                                                   tool, bit, function));
    if (method)
        Py_XDECREF(function);
    return done;
}

/* The name of the tool that uses an identity: a new reference to it, or to None if it is free. */
static PyObject *get_owner(int id)
{
    PyObject *owner = PyObject_CallMethod(get_monitoring(), "get_tool", "i", id);
    PyErr_Clear();
    return owner;
}

/* Acquire the first free identity of `tools`, unless there is one already. */
static bool take_identity(void)
{
    for (size_t i = 0; tool < 0 && i < sizeof tools / sizeof *tools; i++) {
        PyObject *owner = get_owner(tools[i]);
        if (owner == Py_None &&
            release_result(PyObject_CallMethod(get_monitoring(), "use_tool_id", "is", tools[i],
                                               TOOL_NAME)))
            tool = tools[i];
        Py_XDECREF(owner);
    }
    return tool >= 0;
}

static bool set_events(long events)
{
    return release_result(PyObject_CallMethod(get_monitoring(), "set_events", "il", tool, events));
}

static bool set_local_events(PyObject *code, long events)
{
    return release_result(
        PyObject_CallMethod(get_monitoring(), "set_local_events", "iOl", tool, code, events));
}

/* Set the local events of `code`, after removing those of the code object before it. NULL removes
 * only. */
static bool move_local_events(PyObject *code, long events)
{
    bool done = true;
    if (local_code && local_code != code)
        done = set_local_events(local_code, 0);
    Py_XINCREF(code);
    Py_XDECREF(local_code);
    local_code = code;
    return code ? set_local_events(code, events) && done : done;
}

/* Register the callbacks and set the events of these groups. False: some were refused. */
static bool apply_events(unsigned wanted)
{
    long everywhere = 0, local = 0;
    bool done = true;
    for (size_t i = 0; i < HOOK_EVENTS; i++) {
        const struct hook_event *e = &hook_events[i];
        if (!(e->when & wanted))
            continue;
        done = register_callback(e->name, e->method) && done;
        *(e->is_local ? &local : &everywhere) |= read_event_bit(e->name);
    }
    bool has_local = local && cs.call_code;
    if (wanted & ONLY_MODULES && !cs.call_code)
        everywhere = 0; /* PyTorch is not loaded */
    return move_local_events(has_local ? cs.call_code : NULL, local) && set_events(everywhere) &&
           done;
}

bool cs_hook_install(const char **why)
{
    if (!get_monitoring()) {
        *why = "this Python has no sys.monitoring";
        return false;
    }
    if (!take_identity()) {
        *why = "the identities 3, 4 and 5 of sys.monitoring are taken by other tools";
        return false;
    }
    Py_XDECREF(disable);
    disable = PyObject_GetAttrString(get_monitoring(), "DISABLE");
    PyErr_Clear();
    if (has_disabled)
        (void)release_result(PyObject_CallMethod(get_monitoring(), "restart_events", NULL));
    has_disabled = false;
    if (apply_events(select_event_groups()))
        return true;
    *why = "sys.monitoring refused the callbacks";
    cs_hook_remove();
    return false;
}

/* Another tool may have freed our identity and taken it. */
static bool is_still_ours(void)
{
    PyObject *owner = tool >= 0 && get_monitoring() ? get_owner(tool) : NULL;
    PyObject *name = PyUnicode_FromString(TOOL_NAME);
    bool ours = owner && name && PyObject_RichCompareBool(owner, name, Py_EQ) == 1;
    Py_XDECREF(owner);
    Py_XDECREF(name);
    PyErr_Clear();
    return ours;
}

void cs_hook_remove(void)
{
    if (is_still_ours()) {
        (void)set_events(0);
        (void)move_local_events(NULL, 0);
        for (size_t i = 0; i < HOOK_EVENTS; i++)
            (void)register_callback(hook_events[i].name, NULL);
        (void)release_result(PyObject_CallMethod(get_monitoring(), "free_tool_id", "i", tool));
    }
    Py_CLEAR(local_code);
    tool = -1;
}

int cs_hook_init(void)
{
    void *found = dlsym(RTLD_DEFAULT, "PyFrame_GetVar");
    memcpy(&get_variable, &found, sizeof get_variable);
    self_name = PyUnicode_InternFromString("self");
    if (!self_name)
        return -1;
    if (pthread_key_create(&lane_key, end_thread_lane) != 0) {
        PyErr_SetString(PyExc_OSError, "ckineto: no key for data of threads is left");
        return -1;
    }
    return 0;
}
