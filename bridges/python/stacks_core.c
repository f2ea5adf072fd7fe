/* Options, start and stop, and the functions of the extension module _ckineto_stacks, which
 * python/ckineto_attach/stacks.py calls. Several users may start it; hooks are installed by the
 * first start and removed by the last stop. All of this file runs with the GIL, or alone. */
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

/* Find the code object of nn.Module.__call__ in modules that are already imported; nothing is
 * imported for it. It is looked up again whenever hooks are installed, until PyTorch is loaded. */
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

/* Add a line to the ledger of the traces that are being recorded, or of the next one. */
static void report_loss(const char *reason, uint64_t count, const char *detail)
{
    (void)kineto_ledger_add(CS_SOURCE, reason, count, true, detail);
}

static unsigned pack_options(void)
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

/* The hooks cannot be installed: switch all options off and record the reason in the ledger. */
static void disable_recording(const char *why)
{
    set_options(0);
    report_loss("not recorded", 1, why);
}

/* Install hooks for the union of the options of all users. If anything changed, a new epoch makes
 * every thread rebuild its lane. @return NULL, or the reason why nothing is recorded. */
static const char *start_hooks(unsigned options, PyObject *threads)
{
    unsigned before = pack_options();
    const char *why = NULL;
    cs_find_call_code();
    set_options(before | options);
    if (!cs_hook_install(&why)) {
        cs.active = false;
        disable_recording(why);
        return why;
    }
    if (cs.active && pack_options() == before)
        return NULL;
    cs.active = true;
    cs_windows_renew();
    cs_lanes_drop_placeholders();
    if (atomic_load_explicit(&cs.recording, memory_order_relaxed))
        cs_lanes_add_placeholders(threads);
    return NULL;
}

/* What the GIL does elsewhere: functions of the module exclude each other. */
#ifdef Py_GIL_DISABLED
#define BEGIN_ALONE(object) Py_BEGIN_CRITICAL_SECTION(object)
#define END_ALONE()         Py_END_CRITICAL_SECTION()
#else
#define BEGIN_ALONE(object) { (void)(object)
#define END_ALONE()         }
#endif

static PyObject *module_start(PyObject *self, PyObject *args)
{
    unsigned options;
    PyObject *threads;
    const char *why;
    if (!PyArg_ParseTuple(args, "IO!:start", &options, &PyDict_Type, &threads))
        return NULL;
    BEGIN_ALONE(self);
    users++;
    why = start_hooks(options, threads);
    END_ALONE();
    return Py_BuildValue("z", why);
}

/* Write rows of all functions that are still running, then remove the hooks. Placeholder lanes come
 * first, so that threads without a lane have rows too. */
static void stop_hooks(PyObject *threads)
{
    if (atomic_load_explicit(&cs.recording, memory_order_relaxed))
        cs_lanes_add_placeholders(threads);
    cs_windows_flush();
    cs_names_report_unused();
    cs.active = false;
    cs_hook_remove();
    cs_lanes_drop_placeholders();
    cs_names_release();
    uint64_t too_deep = atomic_exchange_explicit(&cs.too_deep, 0, memory_order_relaxed);
    if (too_deep)
        report_loss("nested too deep", too_deep, "deeper than 65536 functions");
}

static PyObject *module_stop(PyObject *self, PyObject *args)
{
    PyObject *threads; /* identifiers of Python to those of the kernel */
    bool is_last;
    if (!PyArg_ParseTuple(args, "O!:stop", &PyDict_Type, &threads))
        return NULL;
    BEGIN_ALONE(self);
    if (users && --users == 0) {
        if (cs.active)
            stop_hooks(threads);
        set_options(0);
    }
    is_last = users == 0;
    END_ALONE();
    return PyBool_FromLong(is_last);
}

static PyObject *module_configure(PyObject *self, PyObject *args)
{
    PyObject *prefixes, *own_folders, *only;
    (void)self;
    if (!PyArg_ParseTuple(args, "OOO:configure", &prefixes, &own_folders, &only) ||
        cs_names_configure(prefixes, own_folders, only) != 0)
        return NULL;
    return Py_BuildValue("");
}

/* ---- collections of garbage ------------------------------------------------------------------ */

static uint64_t collection_began;

/* For gc.callbacks: called with "start" or "stop". A collection has a row only if a session
 * recorded at both ends. Collections do not nest, so one start time is enough. */
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

/* A dictionary of the present state, for tests. */
static PyObject *module_status(PyObject *self, PyObject *args)
{
    (void)self;
    if (!PyArg_ParseTuple(args, ":status"))
        return NULL;
    bool recording = atomic_load_explicit(&cs.recording, memory_order_relaxed);
    return Py_BuildValue("{s:s,s:I,s:I,s:O,s:O}", "hook", cs_hook_name, "users", users, "options",
                         pack_options(), "active", cs.active ? Py_True : Py_False, "recording",
                         recording ? Py_True : Py_False);
}

static PyMethodDef methods[] = {
    {"configure", module_configure, METH_VARARGS,
     PyDoc_STR("configure(prefixes, own_folders, only): lists of bytes.")},
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
#ifdef Py_GIL_DISABLED
    if (module) /* or the interpreter would enable the GIL again */
        (void)PyUnstable_Module_SetGIL(module, Py_MOD_GIL_NOT_USED);
#endif
    if (module) {
        Py_BEGIN_ALLOW_THREADS /* a session that runs calls back at once, and so may another thread's */
        cs_windows_register();
        Py_END_ALLOW_THREADS
    }
    return module;
}
