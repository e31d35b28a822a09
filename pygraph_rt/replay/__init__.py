"""The hot path: a `ReplayPlan`, served call by call.

- `platform.py`: the few questions to torch that a served call asks.
- `inputs.py`: where the inputs are, and whether they are aligned as at the capture.
- `patch.py`, `node_params.py`: write addresses into nodes' parameters, update the nodes, launch.
- `executable.py`: one executable graph, from its instantiation to its end.
- `launcher.py`: the sub-graphs one after the other, each with its memory and random numbers.
- `results.py`: the outputs, from memory, arguments and numbers.
- `replay.py`: one served call, from arguments to outputs.
- `build.py`: from a capture to a `Replay`.
- `disposal.py`: freeing graphs.
"""
