/* Options, start and stop, and the functions of the extension module. All of it has the GIL. */
#include "stacks.h"

#include <string.h>

/* Bits of the options as ckineto_attach/stacks.py passes them. */
enum { FUNCTIONS = 1, MODULES = 2, C_FUNCTIONS = 4, COLLECTIONS = 8 };

static unsigned users; /* starts that were not stopped yet */

/* ---- nn.Module ------------------------------------------------------------------------------- */

static PyObject *get_attribute(PyObject *object, const char *name)
{
    PyObject *value = object ? PyObject_GetAttrString(object, name) : NULL;
    Py_XDECREF(object);
    return value;
}

/* The code that runs when a module is called. Nothing is imported for it. */
void cs_find_call_code(void)
{
    if (cs.call_code)
        return;
    PyObject *loaded = PyImport_GetModuleDict(); /* borrowed */
    PyObject *file = loaded ? PyDict_GetItemString(loaded, "torch.nn.modules.module") : NULL;
    Py_XINCREF(file);
    PyObject *call = get_attribute(get_attribute(file, "Module"), "__call__");
    PyObject *code = get_attribute(call, "__code__");
    PyErr_Clear();
    cs.call_code = code;
}

/* ---- start and stop -------------------------------------------------------------------------- */

/* A line of the ledger of the traces that are being recorded, or of the next one. */
static void report(const char *reason, uint64_t count, const char *detail)
{
    (void)kineto_ledger_add(CS_SOURCE, reason, count, true, detail);
}

static unsigned options_now(void)
{
    return (cs.functions ? FUNCTIONS : 0u) | (cs.modules ? MODULES : 0u) |
           (cs.c_functions ? C_FUNCTIONS : 0u) | (cs.collections ? COLLECTIONS : 0u);
}

static void set_options(unsigned options)
{
    cs.functions = options & FUNCTIONS;
    cs.modules = options & MODULES;
    cs.c_functions = options & C_FUNCTIONS;
    cs.collections = options & COLLECTIONS;
}

static void go_aside(const char *why)
{
    set_options(0);
    report("not recorded", 1, why);
}

/* @return NULL, or why nothing is recorded. */
static const char *start_hooks(unsigned options, PyObject *threads)
{
    unsigned before = options_now();
    const char *why = NULL;
    cs_find_call_code();
    set_options(before | options);
    if (!cs_hook_install(&why)) {
        cs.active = false;
        go_aside(why);
        return why;
    }
    if (cs.active && options_now() == before)
        return NULL;
    cs.active = true;
    cs_windows_renew();
    cs_lanes_drop_sleepers();
    if (atomic_load_explicit(&cs.recording, memory_order_relaxed))
        cs_lanes_add_sleepers(threads);
    return NULL;
}

static PyObject *module_start(PyObject *self, PyObject *args)
{
    unsigned options;
    PyObject *threads;
    (void)self;
    if (!PyArg_ParseTuple(args, "IO!:start", &options, &PyDict_Type, &threads))
        return NULL;
    users++;
    const char *why = start_hooks(options, threads);
    return Py_BuildValue("z", why);
}

static void stop_hooks(PyObject *threads)
{
    if (atomic_load_explicit(&cs.recording, memory_order_relaxed))
        cs_lanes_add_sleepers(threads);
    cs_windows_flush();
    cs.active = false;
    cs_hook_remove();
    cs_lanes_drop_sleepers();
    cs_names_release();
    if (cs.too_deep)
        report("nested too deep", cs.too_deep, "deeper than 65536 functions");
    cs.too_deep = 0;
}

static PyObject *module_stop(PyObject *self, PyObject *args)
{
    PyObject *threads;
    (void)self;
    if (!PyArg_ParseTuple(args, "O!:stop", &PyDict_Type, &threads))
        return NULL;
    if (users && --users == 0) {
        if (cs.active)
            stop_hooks(threads);
        set_options(0);
    }
    return PyBool_FromLong(users == 0);
}

static PyObject *module_configure(PyObject *self, PyObject *args)
{
    PyObject *prefixes, *own_folders;
    (void)self;
    if (!PyArg_ParseTuple(args, "OO:configure", &prefixes, &own_folders) ||
        cs_names_configure(prefixes, own_folders) != 0)
        return NULL;
    return Py_BuildValue("");
}

/* ---- collections of garbage ------------------------------------------------------------------ */

static uint64_t collection_began;

/* For gc.callbacks: called with "start" or "stop". */
static PyObject *module_on_collection(PyObject *self, PyObject *args)
{
    static cs_name *name;
    const char *phase;
    PyObject *information;
    (void)self;
    if (!PyArg_ParseTuple(args, "sO:on_collection", &phase, &information))
        return NULL;
    bool recording = cs.active && kineto_enabled(KINETO_KIND_PYTHON_FUNCTION);
    uint64_t began = collection_began;
    collection_began = recording && strcmp(phase, "start") == 0 ? kineto_record_ticks() : 0;
    if (!name)
        name = cs_name_plain("Python GC", CS_IS_PLAIN);
    if (name && recording && began && !collection_began)
        kineto_record_past(&name->site, began, NULL);
    return Py_BuildValue("");
}

static PyObject *module_status(PyObject *self, PyObject *args)
{
    (void)self;
    if (!PyArg_ParseTuple(args, ":status"))
        return NULL;
    bool recording = atomic_load_explicit(&cs.recording, memory_order_relaxed);
    return Py_BuildValue("{s:s,s:I,s:I,s:O,s:O}", "hook", cs_hook_name, "users", users, "options",
                         options_now(), "active", cs.active ? Py_True : Py_False, "recording",
                         recording ? Py_True : Py_False);
}

static PyMethodDef methods[] = {
    {"configure", module_configure, METH_VARARGS,
     PyDoc_STR("configure(prefixes, own_folders): lists of bytes.")},
    {"start", module_start, METH_VARARGS,
     PyDoc_STR("start(options, threads) -> None, or why nothing is recorded.")},
    {"stop", module_stop, METH_VARARGS, PyDoc_STR("stop(threads) -> was it the last one?")},
    {"on_collection", module_on_collection, METH_VARARGS, PyDoc_STR("For gc.callbacks.")},
    {"status", module_status, METH_VARARGS, PyDoc_STR("status() -> dict, for tests.")},
    {NULL, NULL, 0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_ckineto_stacks", PyDoc_STR("Records Python functions."), -1, methods,
    NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__ckineto_stacks(void);
PyMODINIT_FUNC PyInit__ckineto_stacks(void)
{
    PyObject *module = PyModule_Create(&definition);
    if (module && cs_hook_init() != 0)
        Py_CLEAR(module);
    if (module) {
        Py_BEGIN_ALLOW_THREADS /* a session that runs calls back at once, and so may another thread's */
        cs_windows_register();
        Py_END_ALLOW_THREADS
    }
    return module;
}
