"""Why a call runs compiled code although its region may have graphs: clauses for the report."""

from __future__ import annotations

FIRST_CALLS = "these are the first calls of their kind"
ANOTHER_THREAD = "another thread was preparing a graph of this region"
ANOTHER_CAPTURE = "another region was being captured"
OWN_CAPTURE = "the program was capturing a graph of its own"
SEEDS = "its seeds came from a graph of the program's own"
WARM_UP = frozenset({FIRST_CALLS, ANOTHER_THREAD, ANOTHER_CAPTURE, OWN_CAPTURE, SEEDS})
"""Why a call has no graph although the next one like it may have one."""
NO_MEMORY = "the graphs of the process use all the GPU memory that they may take"
OTHER_STREAM = "it ran on another stream, or its inputs changed during the call"
NO_ROOM = "there was too little memory for its intermediates"
NO_LOOK = "no graph came of the calls before it"
