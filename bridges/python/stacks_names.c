/* Names of functions, as PyTorch's profiler writes them: "file.py(12): name" for Python functions,
 * "nn.Module: Linear_0" for modules, the text of repr() for functions in C.
 *
 * Objects are looked up by address on each call and named once. A table never keeps a code object
 * or a module alive: a weak reference removes its entry when the object goes.
 *
 * Tables and chains are used with the GIL, or where there is none with names_lock; no Python code runs
 * while it is held. */
#include "stacks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAME_MAX_BYTES 4096u
#define NAME_CHAINS    8192u

static const kineto_arg_desc with_parent[] = {
    {"Python id", KINETO_ARG_INT},
    {"Python parent id", KINETO_ARG_INT},
    {"Python module id", KINETO_ARG_INT},
};
static const kineto_arg_desc without_parent[] = {
    {"Python id", KINETO_ARG_INT},
    {"Python parent id", KINETO_ARG_JSON},
    {"Python module id", KINETO_ARG_INT},
};

/* The tables start with one shared free slot, so that cs_table_find needs no test for NULL. */
static cs_slot no_slots[1];
cs_table cs_codes = {no_slots, 0, 0};
static cs_table modules = {no_slots, 0, 0};
static cs_table c_functions = {no_slots, 0, 0};

/* All names, as a hash table with chains; it never shrinks. */
static cs_name *chains[NAME_CHAINS];

#ifdef Py_GIL_DISABLED
static pthread_mutex_t names_lock = PTHREAD_MUTEX_INITIALIZER;
void cs_names_lock(void) { (void)pthread_mutex_lock(&names_lock); }
void cs_names_unlock(void) { (void)pthread_mutex_unlock(&names_lock); }

/* Names that the thread found last. An entry counts only if nothing was removed from a table since: a
 * later object could have the same address. */
#define CACHED_NAMES 256u
static _Atomic uint64_t removals;
static _Thread_local struct cached_name {
    const void *key, *more;
    cs_name *name;
    uint64_t removals;
} cached_names[CACHED_NAMES];
#endif

/* Lists of bytes objects, or NULL; see cs_names_configure. */
static PyObject *name_prefixes, *name_own_folders, *name_only;

/* Which names of the filter some function had: a bit for each of the first 64. */
static uint64_t only_used;

/* ---- texts ----------------------------------------------------------------------------------- */

static uint64_t hash_text(const char *text, size_t bytes)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < bytes; i++)
        h = (h ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
    return h ^ h >> 29;
}

/* Rows with a parent give its id as a number, rows without one as the JSON value null, as PyTorch's
 * traces do; so a name has two sites. */
static void fill_name_sites(cs_name *name)
{
    uint8_t args = name->flags & CS_IS_PLAIN ? 0 : name->flags & CS_IS_MODULE ? 3 : 2;
    kineto_site site = {0, KINETO_KIND_PYTHON_FUNCTION, 0, args, 0, name->text, with_parent};
    name->site = name->root = site;
    name->root.args = without_parent;
}

/* With names_lock. */
static cs_name *find_or_add_name(const char *text, size_t bytes, uint32_t flags)
{
    if (bytes > NAME_MAX_BYTES)
        bytes = NAME_MAX_BYTES;
    cs_name **chain = &chains[(hash_text(text, bytes) + flags) % NAME_CHAINS];
    for (cs_name *name = *chain; name; name = name->next)
        if (name->bytes == bytes && name->flags == flags && memcmp(name->text, text, bytes) == 0)
            return name;
    cs_name *name = calloc(1, sizeof *name + bytes + 1);
    if (!name)
        return NULL;
    memcpy(name->text, text, bytes);
    name->bytes = (uint32_t)bytes;
    name->flags = flags;
    fill_name_sites(name);
    name->next = *chain;
    *chain = name;
    return name;
}

/* The one name with this text and these flags. NULL: out of memory. */
static cs_name *intern_name(const char *text, size_t bytes, uint32_t flags)
{
    cs_names_lock();
    cs_name *name = find_or_add_name(text, bytes, flags);
    cs_names_unlock();
    return name;
}

cs_name *cs_name_plain(const char *text, uint32_t flags)
{
    return intern_name(text, strlen(text), flags);
}

/* ---- tables ---------------------------------------------------------------------------------- */

/* Insert a slot that is not in the table, which has a free one. */
static void insert_slot(cs_table *t, cs_slot slot)
{
    size_t i = cs_slot_hash(slot.key, slot.more);
    while (t->slots[i & t->mask].key)
        i++;
    t->slots[i & t->mask] = slot;
    t->used++;
}

/* Grow the table if less than a third of the slots are free. False: out of memory. */
static bool ensure_free_slot(cs_table *t)
{
    size_t size = t->slots == no_slots ? 0 : t->mask + 1;
    if ((t->used + 1) * 3 <= size * 2)
        return true;
    size_t new_size = size ? 2 * size : 256;
    cs_table grown = {calloc(new_size, sizeof(cs_slot)), new_size - 1, 0};
    if (!grown.slots)
        return false;
    for (size_t i = 0; i < size; i++)
        if (t->slots[i].key)
            insert_slot(&grown, t->slots[i]);
    if (size)
        free(t->slots);
    *t = grown;
    return true;
}

/* The name of an object in a table; NULL: it has none yet. */
static cs_name *find_name(const cs_table *t, const void *key, const void *more)
{
#ifdef Py_GIL_DISABLED
    struct cached_name *cached = &cached_names[cs_slot_hash(key, more) % CACHED_NAMES];
    uint64_t now = atomic_load_explicit(&removals, memory_order_acquire);
    if (cached->key == key && cached->more == more && cached->removals == now)
        return cached->name;
#endif
    cs_names_lock();
    const cs_slot *slot = cs_table_find(t, key, more);
    cs_name *name = slot ? slot->name : NULL;
    cs_names_unlock();
#ifdef Py_GIL_DISABLED
    if (name)
        *cached = (struct cached_name){key, more, name, now};
#endif
    return name;
}

/* Entries of caches are void from here on; with names_lock. */
static void count_removal(void)
{
#ifdef Py_GIL_DISABLED
    (void)atomic_fetch_add_explicit(&removals, 1, memory_order_release);
#endif
}

/* Remove a slot, and move up the slots that collided with it (linear probing without tombstones).
 * @return its guard, which the caller releases: that may run Python code. */
static PyObject *remove_slot(cs_table *t, cs_slot *slot)
{
    PyObject *guard = slot->guard;
    count_removal();
    size_t hole = (size_t)(slot - t->slots);
    for (size_t i = hole + 1;; i++) {
        cs_slot *next = &t->slots[i & t->mask];
        if (!next->key)
            break;
        size_t home = cs_slot_hash(next->key, next->more);
        if (((i - home) & t->mask) < ((i - hole) & t->mask))
            continue;
        t->slots[hole & t->mask] = *next;
        hole = i;
    }
    memset(&t->slots[hole & t->mask], 0, sizeof(cs_slot));
    t->used--;
    return guard;
}

/* ---- guards ---------------------------------------------------------------------------------- */

/* Callback of a weak reference whose object is being destroyed; `self` is the object's address. */
static PyObject *forget_object(cs_table *t, PyObject *self)
{
    const void *key = PyLong_AsVoidPtr(self);
    cs_names_lock();
    cs_slot *slot = cs_table_find(t, key, NULL);
    PyObject *guard = slot ? remove_slot(t, slot) : NULL;
    cs_names_unlock();
    Py_XDECREF(guard);
    Py_INCREF(Py_None);
    return Py_None;
}
static PyObject *forget_code(PyObject *self, PyObject *reference)
{
    (void)reference;
    return forget_object(&cs_codes, self);
}
static PyObject *forget_module(PyObject *self, PyObject *reference)
{
    (void)reference;
    return forget_object(&modules, self);
}
static PyMethodDef forget_code_method = {"forget_code", forget_code, METH_O, NULL};
static PyMethodDef forget_module_method = {"forget_module", forget_module, METH_O, NULL};

/* A weak reference with the callback `forget`, or a strong one to an object that does not support
 * weak references. NULL: out of memory. */
static PyObject *make_guard(PyObject *object, PyMethodDef *forget)
{
    PyObject *address = PyLong_FromVoidPtr(object);
    PyObject *callback = address ? PyCFunction_NewEx(forget, address, NULL) : NULL;
    PyObject *guard = callback ? PyWeakref_NewRef(object, callback) : NULL;
    Py_XDECREF(address);
    Py_XDECREF(callback);
    if (!guard && PyErr_ExceptionMatches(PyExc_TypeError)) {
        Py_INCREF(object);
        guard = object;
    }
    PyErr_Clear();
    return guard;
}

/* Add an object with its name and guard, which the table takes over. Creating these may have run
 * Python code that added the same object: then the name that is there wins. NULL: out of memory. */
static cs_name *add_named_object(cs_table *t, cs_slot slot)
{
    cs_names_lock();
    const cs_slot *known = cs_table_find(t, slot.key, slot.more);
    cs_name *name = known ? known->name : NULL;
    bool is_added = slot.guard && slot.name && !known && ensure_free_slot(t);
    if (is_added)
        insert_slot(t, slot);
    cs_names_unlock();
    if (is_added)
        return slot.name;
    Py_XDECREF(slot.guard);
    return name;
}

#ifdef Py_GIL_DISABLED
cs_name *cs_name_code(PyObject *code)
{
    cs_name *name = find_name(&cs_codes, code, NULL);
    return KINETO_LIKELY(name != NULL) ? name : cs_name_new_code(code);
}
#endif

/* ---- reading objects ------------------------------------------------------------------------- */

/* Bytes of a text attribute, a new reference; NULL without an exception. */
static PyObject *read_text_attribute(PyObject *object, const char *attribute)
{
    PyObject *text = PyObject_GetAttrString(object, attribute), *bytes = NULL;
    if (text && PyUnicode_Check(text)) {
        bytes = PyUnicode_AsEncodedString(text, "utf-8", "surrogateescape");
        if (!bytes) {
            PyErr_Clear();
            bytes = PyUnicode_AsEncodedString(text, "utf-8", "replace");
        }
    }
    Py_XDECREF(text);
    PyErr_Clear();
    return bytes;
}

/* The contents of a bytes object; "?" for NULL. Valid as long as the object is. */
static const char *get_bytes_text(PyObject *bytes, size_t *size)
{
    char *text = NULL;
    Py_ssize_t n = 0;
    if (!bytes || PyBytes_AsStringAndSize(bytes, &text, &n) != 0) {
        PyErr_Clear();
        *size = 1;
        return "?";
    }
    *size = (size_t)n;
    return text;
}

/* The value of an integer attribute; 0 if there is none. */
static long read_number_attribute(PyObject *object, const char *attribute)
{
    PyObject *number = PyObject_GetAttrString(object, attribute);
    long value = number ? PyLong_AsLong(number) : 0;
    Py_XDECREF(number);
    PyErr_Clear();
    return value;
}

/* The length of the first of these folders that the text begins with; 0: none matches. */
static size_t match_folder(PyObject *folders, const char *text, size_t bytes)
{
    Py_ssize_t count = folders ? PyList_Size(folders) : 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        size_t size;
        const char *folder = get_bytes_text(PyList_GetItem(folders, i), &size);
        if (size && size <= bytes && memcmp(folder, text, size) == 0)
            return size;
    }
    return 0;
}

/* A list of the bytes objects of a sequence; NULL with an exception. */
static PyObject *copy_bytes_list(PyObject *sequence)
{
    PyObject *list = PySequence_List(sequence);
    Py_ssize_t count = list ? PyList_Size(list) : 0;
    for (Py_ssize_t i = 0; i < count; i++)
        if (!PyBytes_Check(PyList_GetItem(list, i))) {
            PyErr_SetString(PyExc_TypeError, "ckineto: folders must be bytes");
            Py_CLEAR(list);
            break;
        }
    return list;
}

/* Put a list into the place of another one, which without the GIL other threads may be reading: there
 * it stays, since that is rare. */
static void replace_list(PyObject **place, PyObject *list)
{
    PyObject *old = *place;
    *place = list;
#ifdef Py_GIL_DISABLED
    (void)old;
#else
    Py_XDECREF(old);
#endif
}

int cs_names_configure(PyObject *prefixes, PyObject *own_folders, PyObject *only)
{
    PyObject *first = copy_bytes_list(prefixes);
    PyObject *second = first ? copy_bytes_list(own_folders) : NULL;
    PyObject *third = second ? copy_bytes_list(only) : NULL;
    if (!third) {
        Py_XDECREF(first);
        Py_XDECREF(second);
        return -1;
    }
    cs.has_filter = PyList_Size(third) > 0;
    only_used = 0;
    replace_list(&name_prefixes, first);
    replace_list(&name_own_folders, second);
    replace_list(&name_only, third);
    return 0;
}

/* The bytes of an item of sys.path, a new reference; the empty one stands for the current folder. NULL:
 * it is no text. */
static PyObject *read_import_folder(PyObject *item)
{
    char here[NAME_MAX_BYTES];
    if (PyUnicode_Check(item) && PyUnicode_GetLength(item) == 0)
        return getcwd(here, sizeof here) ? PyBytes_FromString(here) : NULL;
    return PyUnicode_Check(item) ? PyUnicode_AsEncodedString(item, "utf-8", "surrogateescape") : NULL;
}

/* sys.path, a new reference; NULL: it is no list. */
static PyObject *get_import_path(void)
{
#ifdef Py_GIL_DISABLED /* a borrowed one could go at any time */
    PyObject *sys = PyImport_AddModuleRef("sys");
    PyObject *path = sys ? PyObject_GetAttrString(sys, "path") : NULL;
    Py_XDECREF(sys);
    PyErr_Clear();
#else
    PyObject *path = PySys_GetObject("path");
    Py_XINCREF(path);
#endif
    if (path && !PyList_Check(path))
        Py_CLEAR(path);
    return path;
}

/* An item of sys.path, a new reference; NULL: the list is shorter now. */
static PyObject *get_import_folder(PyObject *path, Py_ssize_t i)
{
#ifdef Py_GIL_DISABLED
    PyObject *item = PyList_GetItemRef(path, i);
#else
    PyObject *item = PyList_GetItem(path, i);
    Py_XINCREF(item);
#endif
    PyErr_Clear();
    return item;
}

/* The length of the longest folder of sys.path that the text is below, with its slash; 0: none. The
 * list is read anew, since a program may add to it: the folder of a script is added by the
 * interpreter after sitecustomize has run. */
static size_t match_import_path(const char *text, size_t bytes)
{
    PyObject *folders = get_import_path();
    size_t longest = 0;
    for (Py_ssize_t i = 0; folders && i < PyList_Size(folders); i++) {
        PyObject *item = get_import_folder(folders, i);
        PyObject *folder = item ? read_import_folder(item) : NULL;
        Py_XDECREF(item);
        PyErr_Clear();
        size_t size;
        const char *path = get_bytes_text(folder, &size);
        while (size && path[size - 1] == '/')
            size--;
        if (folder && size && size < bytes && size >= longest && text[size] == '/' &&
            memcmp(path, text, size) == 0)
            longest = size + 1;
        Py_XDECREF(folder);
    }
    Py_XDECREF(folders);
    return longest;
}

/* ---- the filter ------------------------------------------------------------------------------ */

/* Is the file, without its folder of sys.path, the module of this dotted name, or in this package?
 * "numpy/linalg/_linalg.py" is in "numpy" and in "numpy.linalg". */
static bool is_file_of_module(const char *file, size_t bytes, const char *name, size_t name_bytes)
{
    if (name_bytes >= bytes)
        return false;
    for (size_t i = 0; i < name_bytes; i++)
        if (file[i] != name[i] && !(file[i] == '/' && name[i] == '.'))
            return false;
    return strchr("./>", file[name_bytes]) != NULL;
}

/* Is it the file of the main program? Code that is not read from a file (python -c) is its, too. */
static bool is_main_file(const char *path, size_t bytes)
{
    PyObject *loaded = PyImport_GetModuleDict(); /* borrowed */
    PyObject *main_module = loaded ? PyDict_GetItemString(loaded, "__main__") : NULL;
    PyObject *file = main_module ? read_text_attribute(main_module, "__file__") : NULL;
    size_t size;
    const char *text = get_bytes_text(file, &size);
    bool yes = file ? size == bytes && memcmp(text, path, size) == 0
                    : strncmp(path, "<string>", bytes) == 0 || strncmp(path, "<stdin>", bytes) == 0;
    Py_XDECREF(file);
    return yes;
}

/* The ledger says of each name of the filter whether a function had it: a name that none has is most
 * likely a mistake, and the trace would have no other sign of it. */
static void report_used_name(Py_ssize_t i, const char *name)
{
    uint64_t bit = i < 64 ? UINT64_C(1) << i : 0;
    if (bit && !(only_used & bit))
        (void)kineto_ledger_add(CS_SOURCE, "selected by --python-only", 1, false, name);
    only_used |= bit;
}

void cs_names_report_unused(void)
{
    Py_ssize_t count = name_only ? PyList_Size(name_only) : 0;
    for (Py_ssize_t i = 0; i < count && i < 64; i++) {
        size_t size;
        if (!(only_used & UINT64_C(1) << i))
            (void)kineto_ledger_add(CS_SOURCE, "--python-only: no function of it ran", 1, false,
                                    get_bytes_text(PyList_GetItem(name_only, i), &size));
    }
}

/* Do the functions of this file pass the filter? `cut`: bytes of its folder of sys.path. */
static bool passes_filter(const char *path, size_t bytes, size_t cut)
{
    static const char frozen[] = "<frozen "; /* "<frozen os>": the module os */
    size_t skipped = bytes > sizeof frozen && memcmp(path, frozen, sizeof frozen - 1) == 0
                         ? sizeof frozen - 1
                         : cut;
    Py_ssize_t count = name_only ? PyList_Size(name_only) : 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        size_t size;
        const char *name = get_bytes_text(PyList_GetItem(name_only, i), &size);
        if (is_file_of_module(path + skipped, bytes - skipped, name, size) ||
            (strcmp(name, "__main__") == 0 && is_main_file(path, bytes))) {
            report_used_name(i, name);
            return true;
        }
    }
    return count == 0;
}

/* ---- Python functions ------------------------------------------------------------------------ */

/* The CS_IS_… flags of a code object from the file `file`. `cut`: bytes of its folder of sys.path. */
static uint32_t classify_code(PyObject *code, const char *file, size_t bytes, size_t cut)
{
    if (!cs.call_code && bytes > 10 && memcmp(file + bytes - 10, "/module.py", 10) == 0)
        cs_find_call_code(); /* PyTorch was loaded after start */
    if (code == cs.call_code)
        return CS_IS_CALL;
    if (match_folder(name_own_folders, file, bytes))
        return CS_IS_HIDDEN;
    return passes_filter(file, bytes, cut) ? 0 : CS_IS_OUTSIDE;
}

cs_name *cs_name_new_code(PyObject *code)
{
    PyObject *file = read_text_attribute(code, "co_filename");
    PyObject *function = read_text_attribute(code, "co_name");
    size_t file_bytes, function_bytes;
    const char *path = get_bytes_text(file, &file_bytes);
    const char *name = get_bytes_text(function, &function_bytes);
    size_t cut = match_folder(name_prefixes, path, file_bytes);
    size_t import_cut = match_import_path(path, file_bytes);
    cut = import_cut > cut ? import_cut : cut;
    char text[NAME_MAX_BYTES + 1];
    int size = snprintf(text, sizeof text, "%.*s(%ld): %.*s", (int)(file_bytes - cut), path + cut,
                        read_number_attribute(code, "co_firstlineno"), (int)function_bytes, name);
    cs_name *made = size < 0 ? NULL
                             : intern_name(text, strnlen(text, NAME_MAX_BYTES),
                                           classify_code(code, path, file_bytes, cut));
    Py_XDECREF(file);
    Py_XDECREF(function);
    PyObject *guard = make_guard(code, &forget_code_method);
    return add_named_object(&cs_codes, (cs_slot){code, NULL, made, guard});
}

/* ---- modules --------------------------------------------------------------------------------- */

/* "nn.Module: Linear_3": modules of a class are counted in the order in which they are seen. */
static cs_name *create_instance_name(PyObject *module)
{
    PyObject *class_name = read_text_attribute((PyObject *)Py_TYPE(module), "__name__");
    size_t bytes;
    const char *text = get_bytes_text(class_name, &bytes);
    char full[512];
    (void)snprintf(full, sizeof full, "nn.Module: %.*s", (int)(bytes < 400 ? bytes : 400), text);
    cs_name *of_class = cs_name_plain(full, CS_IS_MODULE), *made = NULL;
    if (of_class) {
        cs_names_lock();
        int64_t number = of_class->number++;
        cs_names_unlock();
        size_t used = strlen(full);
        (void)snprintf(full + used, sizeof full - used, "_%lld", (long long)number);
        made = cs_name_plain(full, CS_IS_MODULE | CS_IS_CALL);
        if (made)
            made->number = number;
    }
    Py_XDECREF(class_name);
    return made;
}

cs_name *cs_name_module(PyObject *module)
{
    cs_name *known = find_name(&modules, module, NULL);
    if (KINETO_LIKELY(known != NULL))
        return known;
    PyObject *guard = make_guard(module, &forget_module_method);
    cs_slot made = {module, NULL, guard ? create_instance_name(module) : NULL, guard};
    return add_named_object(&modules, made);
}

/* ---- functions in C -------------------------------------------------------------------------- */

/* Bind a method descriptor to its first argument: PyTorch names C methods by the repr() of the
 * bound method. A new reference; the descriptor itself if it cannot be bound. */
static PyObject *bind_method(PyObject *descriptor, PyObject *first)
{
    descrgetfunc get = NULL;
    if (first && Py_IS_TYPE(descriptor, &PyMethodDescr_Type)) {
        void *slot = PyType_GetSlot(Py_TYPE(descriptor), Py_tp_descr_get);
        memcpy(&get, &slot, sizeof get);
    }
    PyObject *bound = get ? get(descriptor, first, (PyObject *)Py_TYPE(first)) : NULL;
    PyErr_Clear();
    if (!bound) {
        Py_INCREF(descriptor);
        bound = descriptor;
    }
    return bound;
}

/* CS_IS_C, and CS_ENDS_PROCESS for functions of the module posix after which nothing is recorded. */
static uint32_t classify_c_function(const char *name, size_t bytes)
{
    static const char *const last[] = {"<built-in function _exit>", "<built-in function abort>",
                                       "<built-in function execv>", "<built-in function execve>"};
    for (size_t i = 0; i < sizeof last / sizeof *last; i++)
        if (strlen(last[i]) == bytes && memcmp(last[i], name, bytes) == 0)
            return CS_IS_C | CS_ENDS_PROCESS;
    return CS_IS_C;
}

static cs_name *create_c_function_name(PyObject *callable, PyObject *first)
{
    PyObject *bound = bind_method(callable, first), *text = PyObject_Repr(bound), *bytes = NULL;
    if (text)
        bytes = PyUnicode_AsEncodedString(text, "utf-8", "replace");
    PyErr_Clear();
    size_t size;
    const char *name = get_bytes_text(bytes, &size);
    cs_name *made = intern_name(name, size, classify_c_function(name, size));
    Py_DECREF(bound);
    Py_XDECREF(text);
    Py_XDECREF(bytes);
    return made;
}

/* Bindings of C++ (pybind11) call all their functions through one function in C, so its address
 * does not identify the callable. */
static bool is_dispatcher(PyObject *self)
{
    if (Py_IS_TYPE(self, &PyCapsule_Type))
        return true;
    PyObject *name = read_text_attribute((PyObject *)Py_TYPE(self), "__name__");
    size_t bytes;
    const char *text = get_bytes_text(name, &bytes);
    bool yes = bytes >= 8 && memcmp(text, "pybind11", 8) == 0;
    Py_XDECREF(name);
    return yes;
}

cs_name cs_hidden_c_function = {.flags = CS_IS_C | CS_IS_HIDDEN};

/* The name of functions of dispatchers: their callables are named one by one. */
static cs_name dispatched;

static cs_name *add_c_function(const void *key, const void *more, cs_name *name, PyObject *kept)
{
    Py_INCREF(kept);
    return add_named_object(&c_functions, (cs_slot){key, more, name, kept});
}

static cs_name *name_by_callable(PyObject *callable, PyObject *first)
{
    cs_name *known = find_name(&c_functions, callable, NULL);
    return known ? known : add_c_function(callable, NULL, create_c_function_name(callable, first), callable);
}

/* Methods are bound anew for each call, so they are found by their function and the type of `self`;
 * the repr() of the first one is the name of all. */
static cs_name *name_by_function(PyObject *callable, PyObject *self, const void *function)
{
    PyObject *type = (PyObject *)Py_TYPE(self);
    cs_name *name = find_name(&c_functions, function, type);
    if (!name) {
        bool by_callable = is_dispatcher(self);
        name = by_callable ? &dispatched : create_c_function_name(callable, NULL);
        name = add_c_function(function, type, name, type);
    }
    return name == &dispatched ? name_by_callable(callable, NULL) : name;
}

cs_name *cs_name_c_function(PyObject *callable, PyObject *first)
{
    if (!PyObject_TypeCheck(callable, &PyCFunction_Type))
        return name_by_callable(callable, first);
    PyCFunction call = PyCFunction_GetFunction(callable);
    PyObject *self = PyCFunction_GetSelf(callable);
    const void *function;
    memcpy(&function, &call, sizeof function);
    PyErr_Clear();
    if (!self || !function || PyObject_TypeCheck(self, &PyModule_Type))
        return name_by_callable(callable, NULL);
    return name_by_function(callable, self, function);
}

void cs_names_release(void)
{
    cs_names_lock();
    cs_table old = c_functions;
    c_functions = (cs_table){no_slots, 0, 0};
    count_removal();
    cs_names_unlock();
    for (size_t i = 0; old.slots != no_slots && i <= old.mask; i++)
        Py_XDECREF(old.slots[i].guard);
    if (old.slots != no_slots)
        free(old.slots);
}
