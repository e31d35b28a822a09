"""What the analysis can see happen in a line of code: the vocabulary rules are written in.

An event is a fact about the code, not a judgement: rule pages in ``rules/`` say which events they
report, with which message and which consequences.
"""

from __future__ import annotations

from typing import NamedTuple

from pygraph_lint.analysis.literals import Tested
from pygraph_lint.analysis.places import Span as Span


class Need(NamedTuple):
    """Something another function or file has to confirm before the event counts.

    ``kind`` is ``param`` (a parameter is a tensor at some call in a region), ``given`` (it is
    nothing but a tensor at some call), ``passed`` (the same, and no array of NumPy), ``return`` (a
    project function returns a tensor), ``attr`` (an attribute of a class holds a tensor), ``type``
    (what the name of a type means is a tensor), ``host`` (what its one choice names is a tensor on
    the host), ``module`` (a class is a module), ``true`` / ``false`` (a predicate can give that),
    ``says`` (of a function that says whether it gets None: the choice for None, or for others),
    ``keeps`` (a cached function ends the graph), ``generator`` (an attribute of a class is a
    torch.Generator), ``ends`` (the graph ends in a method), ``checks`` (distributions check their
    arguments; with a name: and no class of the project has a method of that name), ``may`` (at
    some call all ``tests`` of parameters may come out as they have to),
    ``set`` (all ``tests`` of attributes of a class may come out so in usual use; without a class,
    of whatever object of settings has them),
    ``called`` (some call in a region runs a function), ``every`` (whatever gets tensors is asked
    for: nothing shows that it happens in usual use), ``omitted`` (some call leaves it out),
    ``any`` (all of one of the ``choices`` hold), ``not`` (all of none of them); ``owner`` is the
    qualified name of the function or class, ``name`` the parameter, the attribute or the module
    (empty for ``return``).
    ``site`` is the call whose result is meant (``call_site``); without one, of any call.
    """

    kind: str
    owner: str
    name: str
    choices: tuple[tuple[Need, ...], ...] = ()
    site: str = ""
    tests: tuple[Tested, ...] = ()


Needs = tuple[Need, ...]
KEYWORDS = "**"  # as a parameter: keywords that no parameter is named by
PLACES = "*"  # as a parameter: arguments behind the last parameter
NEVER = Need("not", "", "", ((),))  # what cannot be
EVERY = Need("every", "", "")  # what nothing shows to happen in usual use
# Needs of calls: what a predicate has to give, what an option has to be, that all is asked for.
CONDITIONS = ("true", "false", "set", "says", "every")
_MAX_CHOICES = 8


def on_host(home: Need) -> Need:
    """That the value which ``home`` names is a tensor on the host."""
    return Need("host", "", "", ((home,),))


def not_on_host(home: Need) -> Need:
    """That it is none."""
    return Need("not", "", "", ((on_host(home),),))


def call_site(function: str, start: int, span: Span) -> str:
    """The name of a call in a function of the project that starts on the line ``start``."""
    first, last = span.line - start, span.end_line - start
    return f"{function}@{first}:{span.column}:{last}:{span.end_column}"


def of_any_call(needs: Needs) -> Needs:
    """The same of a function's result, whoever calls it."""
    if not any(need.site for need in needs):
        return needs
    return tuple(need._replace(site="") for need in needs)


def any_of(a: Needs, b: Needs) -> Needs:
    """What holds where all of ``a`` or all of ``b`` does; of many choices the simplest ones."""
    if not a or not b:
        return ()
    choices = sorted({*_choices(a), *_choices(b)}, key=lambda needs: (len(needs), repr(needs)))
    if len(choices) == 1:
        return choices[0]
    return (Need("any", "", "", tuple(choices[:_MAX_CHOICES])),)


def annotated_numbers(needs: Needs) -> bool:
    """Whether needs only say that what is annotated as a number is a tensor."""
    return bool(needs) and all(
        need.kind == "given" or (need.kind == "any" and all(map(annotated_numbers, need.choices)))
        for need in needs
    )


def _choices(needs: Needs) -> tuple[Needs, ...]:
    return needs[0].choices if len(needs) == 1 and needs[0].kind == "any" else (needs,)


class Event(NamedTuple):
    """One fact about one place.

    ``subject`` is what the message names: the qualified callee, the method, or a short piece of
    source. ``needs`` must all be confirmed when the project is linked. ``evidence`` says, in
    sentences, why the values involved are believed to be what they are. ``notes`` are details for
    rewrites, as name-value pairs. ``arms`` are the conditions of the function's ``if`` statements
    under which it happens, as source text.
    """

    kind: str
    span: Span
    subject: str
    needs: tuple[Need, ...] = ()
    evidence: tuple[str, ...] = ()
    notes: tuple[tuple[str, str], ...] = ()
    arms: tuple[str, ...] = ()

    @property
    def at_home(self) -> bool:
        """Whether the tensor whose value is needed here lives on the host."""
        needed = not self.kind.startswith("host.") and self.kind != "branch.random-skip"
        return needed and self.note("lives") == "host"

    @property
    def waits(self) -> bool:
        """Whether the host may wait for the device here."""
        return not self.at_home and self.note("waits") != "no"

    def note(self, name: str) -> str | None:
        """The note called ``name``, or None."""
        for key, value in self.notes:
            if key == name:
                return value
        return None


# Every event kind and what it means. A rule page may only name these; a test holds both directions.
KINDS: dict[str, str] = {
    # Placement: a tensor that lives on the host while the model's tensors live on the device.
    "host.factory": "a factory (arange, zeros, ...) called without device= in a region",
    "host.factory-moved": "a factory whose result is moved at once: zeros(...).to(device), .cuda()",
    "host.scalar-tensor": "torch.tensor(number) without device= in a region",
    "host.data-tensor": "a tensor built from a Python list or numpy array in a region",
    "host.attribute": "a plain tensor attribute (neither parameter nor buffer) used in a region",
    "host.moved": "a host tensor moved to the device inside a region",
    "host.index-list": "a tensor indexed with a Python list: an index tensor is built on the host",
    "host.pinned": "pin_memory inside a region",
    "host.lengths": "an operator that wants lengths on the host (ctc_loss, pack_padded_sequence)",
    "host.numpy-number": "the value of what numpy made is needed: a size, a bound, a condition",
    # Syncs: the host waits for the device.
    "sync.item": ".item() on a tensor",
    "sync.number": "float(t), int(t), complex(t), t.__index__()",
    "sync.bool": "bool(t) written out",
    "sync.tolist": ".tolist() on a tensor",
    "sync.copy": ".cpu(), .to('cpu') of a device tensor",
    "sync.numpy": ".numpy(), np.asarray(t), np.f(t)",
    "sync.builtin": "Python max, min, any, all over tensors: values are compared",
    "sync.math": "math.f(t)",
    "sync.equal": "torch.equal, torch.allclose: the result is a Python bool",
    "sync.validated": "a distribution that checks its arguments, or a sample",
    "sync.format": "a tensor turned into text: str(t), f'{t}', '%s' % t",
    "sync.index-write": "a Python number written at tensor indices, or into one element: x[0] = 1",
    # Control flow that needs a tensor's value.
    "branch.if": "if / elif on a tensor",
    "branch.ternary": "a conditional expression, or and / or, on a tensor",
    "branch.while": "while on a tensor",
    "branch.raise": "if on a tensor whose body only raises",
    "branch.assert": "assert on a tensor",
    "branch.not": "not t",
    "branch.loop": "range(t), or a loop bound computed from a tensor's value",
    "branch.random-skip": "a branch on a random draw against a probability (layerdrop)",
    "branch.finite-guard": "a branch on isinf / isnan / isfinite of a tensor",
    "branch.half-guard": "the same, behind a test for torch.float16",
    "branch.sort": "sorted / list.sort / max(key=) comparing tensors",
    "branch.membership": "x in [tensors], or t in sequence: compares values",
    # Shapes that depend on values.
    "shape.nonzero": "nonzero, argwhere, one-argument where",
    "shape.mask-read": "x[mask], masked_select, compress by a boolean tensor",
    "shape.unique": "unique, unique_consecutive",
    "shape.bincount": "bincount, histc-like ops whose output length depends on values",
    "shape.repeat-interleave": "repeat_interleave with tensor repeats and no output_size",
    "shape.one-hot": "one_hot without num_classes",
    "shape.mask-write": "x[mask] = value by a boolean tensor",
    "shape.from-value": "a size or bound from a tensor's value: arange(t), zeros(t), x[:t]",
    "shape.split": "split / chunk sizes taken from a tensor's values",
    # Calls that rules list by name in their page (`calls` and `methods`).
    "call": "a call to a function some rule page lists under `calls`",
    "method": "a method of a tensor some rule page lists under `methods`",
    # Side effects and unsupported constructs that are not plain calls.
    "effect.log": "a method of a logging.Logger (or of a project logger) called in a region",
    "effect.requires-grad": "t.requires_grad = ..., requires_grad_() returned",
    "effect.data-assign": "t.data = ...",
    "effect.parameter-made": "nn.Parameter or a layer constructed in a region",
    "effect.context": "a with statement over torch.device(...) or torch.backends.cudnn.flags(...)",
    "effect.cached-property": "a functools.cached_property of the own class read in a region",
    "effect.cached-call": "a cached function without parameters called, in which the graph ends",
    "effect.generator": "a draw with generator=, which is made elsewhere",
    "effect.disabled-call": "a function that torch.compiler.disable keeps out of the region called",
    "effect.untraced-call": "a call that Dynamo does not trace: list[int](), pow(t, 2)",
    "effect.lock": "a with statement over a lock that is made elsewhere",
    "effect.module-hook": "a hook registered on a module in a region",
    "effect.rnn": "an nn.RNN, nn.LSTM or nn.GRU called in a region",
    "effect.numpy-random": "numpy's random generator used in a region",
    "effect.buffer-rebound": "self.<buffer> = ... in a region",
    "effect.made-object": "a method called on an object made here, in which the graph ends",
    "effect.kept-output": "a tensor stored in a place that outlives the call",
    # Manual capture and replay (capture.py); these are not tied to a region.
    "capture.kept-output": "a graph's output kept across calls without clone()",
    "capture.input-rebound": "a captured graph's static input rebound instead of copied into",
    "capture.optimizer": "an optimizer stepped inside a capture without capturable=True",
    "capture.scaler": "GradScaler.step / update inside a capture",
    "capture.autocast-cache": "autocast around a capture without cache_enabled=False",
    "capture.generator": "a torch.Generator used in a capture and not registered with the graph",
    "capture.side-stream": "work on a side stream around a capture without wait_stream",
    "capture.no-warmup": "a capture with no warm-up before it",
    "capture.first-compile": "the first call of a compiled callable inside a capture",
    "capture.reentrant-checkpoint": "checkpoint(use_reentrant=True) with graphed callables",
    "capture.hooks-before": "hooks registered before make_graphed_callables",
    "capture.process-group": "a process group destroyed while graphs are alive",
    "capture.user-pool": "a user MemPool around compiled code",
    # Training loops (host_loops.py): what happens on every step. Nothing is traced there.
    "loop.read": "a tensor's value read by the host",
    "loop.print": "a tensor turned into text",
    "loop.branch": "a branch on a tensor",
    "loop.copy": "a copy from the host to the device that the host waits for",
    "loop.empty-cache": "torch.cuda.empty_cache",
    "loop.synchronize": "torch.cuda.synchronize",
    "capture.sync": "a synchronising call inside `with torch.cuda.graph(...)`",
}
