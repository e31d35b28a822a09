/* Update the nodes of an executable graph whose addresses changed, then launch it.
 *
 * The layout of every array is made, and owned, by submission.py, whose PythonSubmission does the
 * same thing; the driver's functions come in as pointers, so nothing of CUDA is needed to build
 * this. The caller holds the lock of the graph.
 */
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

struct table {
    set_kernel set_kernel;
    set_memory set_copy, set_fill;
    launch launch;
    void *context;
    void *executable;
    char *memory;              /* parameters of all nodes */
    const uint64_t *wanted;    /* each block's address on this call */
    uint64_t *written;         /* each block's address in the parameters */
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

static uint32_t write_words(struct table *t)
{
    uint32_t waiting = 0;
    for (uint64_t b = 0; b < t->block_count; b++) {
        const struct block *block = &t->blocks[b];
        const uint64_t base = t->wanted[b];
        if (base == t->written[b])
            continue;
        for (uint32_t w = block->first_word; w < block->end_word; w++) {
            const uint64_t value = base + (uint64_t)t->addends[w];
            memcpy(t->memory + t->places[w], &value, sizeof value); /* 4-byte alignment only */
        }
        for (uint32_t i = block->first_node; i < block->end_node; i++) {
            const uint32_t node = t->block_nodes[i];
            if (t->stamps[node] == t->round)
                continue;
            t->stamps[node] = t->round;
            t->queue[waiting++] = node;
        }
        t->written[b] = base;
    }
    return waiting;
}

static int submit(const struct table *t, uint32_t node)
{
    void *handle = t->handles[node];
    const void *parameters = t->parameters[node];
    if (t->kinds[node] == KERNEL)
        return t->set_kernel(t->executable, handle, parameters);
    if (t->kinds[node] == MEMORY_COPY)
        return t->set_copy(t->executable, handle, parameters, t->context);
    return t->set_fill(t->executable, handle, parameters, t->context);
}

/* The driver's error code: 0 when the graph was launched. After an error the graph must not be
 * launched again, because words were written that were not submitted. */
int pygraph_launch(struct table *t, void *stream)
{
    t->round++;
    t->failed = -1;
    const uint32_t waiting = write_words(t);
    for (uint32_t i = 0; i < waiting; i++) {
        const int code = submit(t, t->queue[i]);
        if (code) {
            t->failed = t->queue[i];
            return code;
        }
    }
    t->patched += waiting;
    return t->launch(t->executable, stream);
}
