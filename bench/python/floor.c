/* The floor of bench_stacks.py: hooks that do nothing. An extension module of the limited API. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#ifndef METH_FASTCALL /* not in the limited API of 3.9, which does not need the callback */
#define METH_FASTCALL 0x0080
#endif

typedef int (*profile_function)(PyObject *object, PyObject *frame, int what, PyObject *argument);
extern void PyEval_SetProfile(profile_function function, PyObject *object);

static int do_nothing(PyObject *object, PyObject *frame, int what, PyObject *argument)
{
    (void)object;
    (void)frame;
    (void)what;
    (void)argument;
    return 0;
}

/* set_profile(on): a profile function of the calling thread. */
static PyObject *set_profile(PyObject *self, PyObject *on)
{
    (void)self;
    PyEval_SetProfile(on == Py_True ? do_nothing : NULL, NULL);
    return Py_BuildValue("");
}

/* callback(*arguments): for sys.monitoring. */
static PyObject *ignore_event(PyObject *self, PyObject *const *arguments, Py_ssize_t count)
{
    (void)self;
    (void)arguments;
    (void)count;
    return Py_None; /* immortal in the versions that have sys.monitoring */
}

static PyMethodDef methods[] = {
    {"set_profile", set_profile, METH_O, NULL},
    {"callback", (PyCFunction)(void *)ignore_event, METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "floor", NULL, -1, methods,
                                        NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_floor(void);
PyMODINIT_FUNC PyInit_floor(void) { return PyModule_Create(&definition); }
