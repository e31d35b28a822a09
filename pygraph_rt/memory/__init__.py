"""The memory of a served call.

Three kinds: the *arena* (scratch memory of the graph, for the duration of a call), *outputs* (each
with memory of its own), and *slabs* (small outputs that share memory).

- `split.py`: in which sub-graphs a graph is launched, so that less memory is live at once.
- `layout.py`: where scratch memory lies in the arena's segments.
- `pool.py`: what a capture's pool looks like in torch's allocator.
- `library_outputs.py`: what library calls return stays in its segment, or is copied.
- `slabs.py`: which outputs share memory, and that memory call by call.
- `allocate.py`: all of one sub-graph's memory for a call, in Python or compiled.
"""
