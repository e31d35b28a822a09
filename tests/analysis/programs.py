"""Facts of small programs: files in, confirmed events of region functions out."""

from __future__ import annotations

import textwrap

from pygraph_lint.analysis.domain.events import Event
from pygraph_lint.analysis.extract import extract, loop_bodies
from pygraph_lint.analysis.link import Project, link
from pygraph_lint.analysis.program.facts import FileLoops, ModuleFacts, Sinks
from pygraph_lint.analysis.regions.compiled import DEFAULT_REGIONS, RegionOptions

DEVICE = '\nDEVICE = "cuda"\n'
SINKS = Sinks(
    frozenset(("print", "time.time", "time.sleep")), ("random.",), frozenset(("backward",))
)


def project(
    asked: RegionOptions = DEFAULT_REGIONS, /, **files: str
) -> tuple[Project, dict[str, ModuleFacts]]:
    """Facts of modules given as ``a__b="source"`` (module ``a.b``), linked; each names a device, as
    the files of programs that wait for one do.
    """
    return as_given(asked, **{n: textwrap.dedent(text) + DEVICE for n, text in files.items()})


def as_given(
    asked: RegionOptions = DEFAULT_REGIONS, /, **files: str
) -> tuple[Project, dict[str, ModuleFacts]]:
    """The same, of modules as they are."""
    texts = {name.replace("__", "."): textwrap.dedent(text) for name, text in files.items()}
    facts = {
        module: extract(text, f"{module}.py", module, False, SINKS)
        for module, text in texts.items()
    }

    def bodies_of(module: ModuleFacts) -> FileLoops:
        return loop_bodies(texts[module.module], module.module, False)

    return link(facts.values(), asked, bodies_of=bodies_of), facts


def confirmed(linked: Project, facts: ModuleFacts) -> list[Event]:
    """The events of a module that would be reported, in order of position."""
    found = [
        event
        for function in facts.functions.values()
        if linked.region(function.name) is not None
        for event in function.events
        # One that is away from the host, or not, is reported all the same.
        if all(linked.confirmed(need) for need in event.needs if need.kind != "away")
    ]
    return sorted(found, key=lambda event: event.span)


def kinds(source: str) -> list[str]:
    """The kinds of the events of a one-file program, in order of position."""
    linked, facts = project(m=source)
    return [event.kind for event in confirmed(linked, facts["m"])]


def forward(body: str, parameters: str = "x: torch.Tensor", init: str = "pass") -> list[str]:
    """The kinds of the events of a module's forward with the given body."""
    head = "import copy\nimport math\nimport random\nimport numpy as np\nimport torch\n"
    head += (
        "from torch import nn\n"
        "import torch.nn.functional as F\nimport logging\nlogger = logging.getLogger(__name__)\n"
    )
    source = head + "class M(nn.Module):\n    def __init__(self, size, device=None):\n"
    source += "        super().__init__()\n"
    source += textwrap.indent(textwrap.dedent(init), " " * 8)
    source += f"\n    def forward(self, {parameters}):\n"
    source += textwrap.indent(textwrap.dedent(body), " " * 8)
    return kinds(source)
