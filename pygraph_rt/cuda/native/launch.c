/* Extension module: update the nodes of an executable graph whose addresses changed, then launch it;
 * and fill the unused part of the stack.
 *
 * The layout of every array is made, and owned, by replay/patch.py, whose PythonPatcher does the
 * same thing; the driver's functions come in as pointers, so nothing of CUDA is needed to build
 * this. The caller holds the lock of the graph.
 */
#define _GNU_SOURCE
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <alloca.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>

enum { KERNEL = 0, MEMORY_COPY = 1 }; /* as in the driver's CUgraphNodeType */

typedef int (*set_kernel)(void *executable, void *node, const void *parameters);
typedef int (*set_memory)(void *executable, void *node, const void *parameters, void *context);
typedef int (*launch)(void *executable, void *stream);

/* Ranges [first, end) of the table's words and of its block_nodes. */
struct block {
    uint32_t first_word, end_word;
    uint32_t first_node, end_node;
};

struct target {
    void *executable;
    uint64_t *written;         /* each block's address in its nodes */
};

struct table {
    set_kernel set_kernel;
    set_memory set_copy, set_fill;
    launch launch;
    void *context;
    struct target *target;
    char *memory;              /* parameters of all nodes */
    const uint64_t *wanted;    /* each block's address on this call */
    uint64_t *held;            /* each block's address in the parameters */
    const struct block *blocks;
    const uint32_t *places;    /* each word's byte offset in memory */
    const int64_t *addends;    /* each word's distance from its block's address */
    const uint32_t *block_nodes;
    void *const *handles;
    const void *const *parameters;
    const uint32_t *kinds;
    uint64_t *stamps;          /* the last round that updated a node */
    uint32_t *queue;           /* room for all nodes */
    uint64_t block_count;
    uint64_t round;
    uint64_t patched;
    int64_t failed;            /* the node that the driver refused, or -1 */
};

static void write_words(const struct table *t, const struct block *block, uint64_t base)
{
    for (uint32_t w = block->first_word; w < block->end_word; w++) {
        const uint64_t value = base + (uint64_t)t->addends[w];
        memcpy(t->memory + t->places[w], &value, sizeof value); /* 4-byte alignment only */
    }
}

/* Queues the nodes of blocks that moved; how many. */
static uint32_t write_blocks(struct table *t)
{
    const uint64_t *const written = t->target->written;
    uint32_t waiting = 0;
    for (uint64_t b = 0; b < t->block_count; b++) {
        const struct block *block = &t->blocks[b];
        const uint64_t base = t->wanted[b];
        if (base != t->held[b]) {
            write_words(t, block, base);
            t->held[b] = base;
        }
        if (base == written[b])
            continue;
        for (uint32_t i = block->first_node; i < block->end_node; i++) {
            const uint32_t node = t->block_nodes[i];
            if (t->stamps[node] == t->round)
                continue;
            t->stamps[node] = t->round;
            t->queue[waiting++] = node;
        }
    }
    return waiting;
}

static int submit(const struct table *t, uint32_t node)
{
    void *handle = t->handles[node];
    const void *parameters = t->parameters[node];
    if (t->kinds[node] == KERNEL)
        return t->set_kernel(t->target->executable, handle, parameters);
    if (t->kinds[node] == MEMORY_COPY)
        return t->set_copy(t->target->executable, handle, parameters, t->context);
    return t->set_fill(t->target->executable, handle, parameters, t->context);
}

/* The driver's error code: 0 when the graph was launched. After an error the graph must not be
 * launched again, because words were written that were not submitted. */
static int patch_and_launch(struct table *t, void *stream)
{
    t->round++;
    t->failed = -1;
    const uint32_t waiting = write_blocks(t);
    for (uint32_t i = 0; i < waiting; i++) {
        const int code = submit(t, t->queue[i]);
        if (code) {
            t->failed = t->queue[i];
            return code;
        }
    }
    /* Only now: what counts as written is what the driver holds. */
    memcpy(t->target->written, t->wanted, t->block_count * sizeof *t->wanted);
    t->patched += waiting;
    return t->launch(t->target->executable, stream);
}

/* launch(address of a table, stream): the driver's error code. */
static PyObject *launch_table(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    (void)module;
    if (count != 2) {
        PyErr_SetString(PyExc_TypeError, "launch takes a table's address and a stream");
        return NULL;
    }
    struct table *const table = PyLong_AsVoidPtr(arguments[0]);
    void *const stream = PyLong_AsVoidPtr(arguments[1]);
    if (PyErr_Occurred())
        return NULL;
    int code;
    Py_BEGIN_ALLOW_THREADS /* it may wait for room in the GPU's queue */
    code = patch_and_launch(table, stream);
    Py_END_ALLOW_THREADS
    return PyLong_FromLong(code);
}

/* Bytes below the caller's frame that are filled, and that are left to the thread at its end. */
enum { FILLED = 256 << 10, LEFT = 128 << 10 };

static size_t stack_left(const char *here)
{
    /* Looked up once a thread: for the main thread the C library reads the table of all mappings,
       which takes milliseconds in a large process. */
    static _Thread_local const char *lowest;
#ifdef __linux__
    static _Thread_local int looked_up;
    if (!looked_up) {
        pthread_attr_t attributes;
        void *address;
        size_t size;
        looked_up = 1;
        if (pthread_getattr_np(pthread_self(), &attributes))
            return 0;
        if (!pthread_attr_getstack(&attributes, &address, &size))
            lowest = address;
        pthread_attr_destroy(&attributes);
    }
#endif
    return lowest && here > lowest + LEFT ? (size_t)(here - lowest) - LEFT : 0;
}

/* fill_stack(byte): what the next calls of this thread leave unwritten in their frames holds it. */
static PyObject *fill_stack(PyObject *module, PyObject *byte)
{
    (void)module;
    const long value = PyLong_AsLong(byte);
    if (value == -1 && PyErr_Occurred())
        return NULL;
    char here;
    size_t size = stack_left(&here);
    if (size > FILLED)
        size = FILLED;
    if (size) {
        char *const unused = alloca(size);
        memset(unused, (int)value, size);
        __asm__ volatile("" : : "r"(unused) : "memory"); /* else it is left out: nobody reads it */
    }
    return PyLong_FromSize_t(size);
}

static PyMethodDef methods[] = {
    {"fill_stack", fill_stack, METH_O, NULL},
    {"launch", (PyCFunction)(void (*)(void))launch_table, METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {{0, NULL}};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "pygraph_rt.cuda.native._launch",
    .m_size = 0,
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__launch(void) { return PyModuleDef_Init(&definition); }
