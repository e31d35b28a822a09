"""What files confirm for each other: regions, inheritance, calls, arguments, returns."""

from __future__ import annotations

from pygraph_lint.analysis.regions.compiled import RegionOptions
from tests.analysis.programs import confirmed, project

LAYER = """
    import torch
    class Base(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("mask", torch.zeros(3))
        def helper(self, x):
            print(x)
"""


def events(**files: str) -> dict[str, list[str]]:
    """Kinds of confirmed events per module."""
    linked, facts = project(**files)
    return {name: [event.kind for event in confirmed(linked, each)] for name, each in facts.items()}


def test_a_module_is_proven_through_files() -> None:
    model = """
        from base import Base
        class Model(Base):
            def forward(self, x):
                self.helper(x)
                if self.mask.sum() > 0:
                    return x
    """
    assert events(base=LAYER, model=model) == {"base": ["call"], "model": ["branch.if"]}
    plain = LAYER.replace("torch.nn.Module", "object").replace("super().__init__()", "pass")
    assert events(base=plain, model=model) == {"base": [], "model": []}


def test_a_parameter_is_what_callers_in_regions_pass() -> None:
    tools = """
        import torch
        def pick(value, limit):
            if value > limit:
                return value
    """
    model = """
        import torch
        import tools
        class Model(torch.nn.Module):
            def forward(self, x: torch.Tensor):
                return tools.pick({}, 3)
    """
    assert events(tools=tools, model=model.format("x.sum()"))["tools"] == ["branch.if"]
    assert events(tools=tools, model=model.format("x.shape[0]"))["tools"] == []
    outside = "import torch, tools\ntools.pick(torch.ones(3), 3)"
    assert events(tools=tools, model=outside)["tools"] == []


def test_what_a_function_returns_is_known_to_its_callers() -> None:
    tools = """
        import torch
        def split(x: torch.Tensor):
            return x.sum(), x.shape[0]
    """
    model = """
        import torch
        from tools import split
        class Model(torch.nn.Module):
            def forward(self, x: torch.Tensor):
                total, count = split(x)
                if count > 3:
                    return x
                if total > 3:
                    return x
    """
    linked, facts = project(tools=tools, model=model)
    (event,) = confirmed(linked, facts["model"])
    assert event.span.line == 9


def test_names_are_followed_through_re_exports() -> None:
    files = {
        "package__inner": "def leak(x):\n    print(x)\n",
        "package": "from package.inner import *\n",
        "model": """
            import torch
            from package import leak
            class Model(torch.nn.Module):
                def forward(self, x):
                    leak(x)
        """,
    }
    assert events(**files)["package.inner"] == ["call"]


def test_call_paths_and_certainty() -> None:
    source = """
        import torch
        def step(x):
            return inner(x)
        def inner(x):
            print(x)
        compiled = torch.compile(step)
        class M(torch.nn.Module):
            def forward(self, x):
                print(x)
    """
    linked, _ = project(m=source)
    region = linked.region("m.inner")
    assert region is not None and region.certain
    assert (
        region.call_path[0].startswith("m.step (passed to torch.compile")
        and "calls m.inner" in region.call_path[1]
    )
    forward = linked.region("m.M.forward")
    assert forward is not None and not forward.certain
    assert linked.region("m.<module>") is None


def test_compile_in_all_its_forms_starts_a_region() -> None:
    for use in (
        "f = torch.compile(f)",
        "torch.compile(f, dynamic=True)",
        "torch.cuda.make_graphed_callables(f, ())",
    ):
        linked, _ = project(m=f"import torch\ndef f(x):\n    print(x)\n{use}\n")
        assert linked.region("m.f") is not None, use
    linked, _ = project(m="import torch\n@torch.compile(fullgraph=True)\ndef f(x):\n    print(x)\n")
    assert linked.region("m.f") is not None
    linked, _ = project(
        m="import torch\nclass A:\n    def __call__(self, x):\n        print(x)\n"
        "torch.compile(A())\n"
    )
    assert linked.region("m.A.__call__") is not None


def test_a_capture_block_is_a_region() -> None:
    source = """
        import torch
        def train(model, x):
            g = torch.cuda.CUDAGraph()
            print(x)
            with torch.cuda.graph(g):
                y = model(x)
                print(y)
    """
    linked, facts = project(m=source)
    assert [event.span.line for event in confirmed(linked, facts["m"])] == [8]


def test_disable_ends_a_region() -> None:
    source = """
        import torch
        @torch.compiler.disable
        def log(x):
            print(x)
        class M(torch.nn.Module):
            def forward(self, x):
                log(x)
    """
    assert events(m=source) == {"m": []}


def test_what_a_disabled_function_calls_is_compiled_where_it_says_so() -> None:
    source = """
        import torch
        class M(torch.nn.Module):
            def forward(self, x):
                return self.loop(x)
            @torch.compiler.disable(recursive=False)
            def loop(self, x):
                print(x)
                return self.loop(x) if x is None else self.step(x)
            def step(self, x):
                print(x)
                print(x)
    """
    linked, facts = project(m=source)
    assert [event.span.line for event in confirmed(linked, facts["m"])] == [11, 12]
    region = linked.region("m.M.step")
    assert region is not None
    assert region.call_path[-1] == "is called by M.loop, which is disabled"
    assert events(m=source.replace("recursive=False", "recursive=True")) == {"m": []}


def test_a_call_through_disable_ends_a_region() -> None:
    source = """
        import torch
        def log(x):
            print(x)
        class M(torch.nn.Module):
            def forward(self, x):
                torch.compiler.disable(log)(x)
    """
    assert events(m=source) == {"m": ["effect.disabled-call"]}


def test_calls_that_leave_a_region_are_known() -> None:
    tools = """
        import torch
        @torch.compiler.disable
        def log(x):
            return x
        @torch.compiler.allow_in_graph
        def keep(x):
            return x
    """
    model = """
        import torch
        from tools import log, keep
        class M(torch.nn.Module):
            def forward(self, x):
                return keep(log(x)) + self.own(x)
            @torch.compiler.disable(recursive=False)
            def own(self, x):
                return log(x)
    """
    linked, _ = project(tools=tools, model=model)
    left = {
        name: [(target, call.span.line) for call, target in calls]
        for name in linked.program.functions
        if (calls := list(linked.disabled_calls(name)))
    }
    assert left == {"model.M.forward": [("tools.log", 6), ("model.M.own", 6)]}


def test_predicates_of_the_project_are_asked() -> None:
    tools = """
        import torch
        def is_tracing():
            return torch.compiler.is_compiling()
        def is_odd(x):
            return x % 2 == 1
    """
    model = """
        import torch
        from tools import is_tracing, is_odd
        class M(torch.nn.Module):
            def forward(self, x: torch.Tensor, n: int):
                if not is_tracing() and x.sum() > 0:
                    return x
                if is_odd(n) and x.sum() > 0:
                    return x
    """
    linked, facts = project(tools=tools, model=model)
    assert [event.span.line for event in confirmed(linked, facts["model"])] == [8]


def test_tables_of_functions_are_followed() -> None:
    tools = """
        def noisy(x):
            print(x)
        TABLE = {"noisy": noisy}
    """
    model = """
        import torch
        from tools import TABLE
        class M(torch.nn.Module):
            def forward(self, x):
                return TABLE["noisy"](x)
    """
    assert events(tools=tools, model=model)["tools"] == ["call"]


def test_overriding_methods_are_reached() -> None:
    source = """
        import torch
        class A(torch.nn.Module):
            def forward(self, x):
                return self.act(x)
            def act(self, x):
                return x
        class B(A):
            def act(self, x):
                print(x)
    """
    assert events(m=source) == {"m": ["call"]}


def test_submodules_pass_their_arguments_on() -> None:
    source = """
        import torch
        class Inner(torch.nn.Module):
            def forward(self, value):
                if value > 0:
                    return value
        class Outer(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = Inner()
            def forward(self, x: torch.Tensor):
                return self.inner(x)
    """
    assert events(m=source) == {"m": ["branch.if"]}


def test_a_name_defined_twice_is_looked_at_twice() -> None:
    source = """
        import torch
        class M(torch.nn.Module):
            def forward(self, x):
                return helper(x)
        if torch.cuda.is_available():
            def helper(x):
                print("a")
        else:
            def helper(x):
                print("b")
    """
    assert events(m=source) == {"m": ["call", "call"]}


SIZED = """
    import torch
    class Positions(torch.nn.Module):
        def forward(self, count: int, start: int = 0):
            return torch.arange(start, count, device="cuda")
"""


def test_a_parameter_annotated_as_a_number_may_get_a_tensor() -> None:
    """Only where a call gives nothing else: what may be a number often is one."""
    model = """
        import torch
        from positions import Positions
        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.positions = Positions()
            def forward(self, x: torch.Tensor, more):
                return self.positions({})
    """
    for given, seen in (
        ("x.max()", ["shape.from-value"]),
        ("count=x.max() + 1", ["shape.from-value"]),
        ("5, x.max()", []),
        ("x.shape[0]", []),
        ("more", []),
        ("x.max() if more else 3", []),
    ):
        found = events(positions=SIZED, model=model.format(given))
        assert found["positions"] == seen, given


SOLVER = """
    import torch
    def integrate(f, y, tolerance):
        error = torch.norm(y)
        if error < tolerance:
            return y
        return f(y)
    def named(y: torch.Tensor):  # pygraph: region
        return y.item()
    def helper(n):
        return n + 1
    class Loss:
        def __call__(self, out: torch.Tensor):
            return out.item()
"""


def regions_of(asked: RegionOptions, **files: str) -> dict[str, tuple[str, bool]]:
    """The functions in regions, with the first step of the call path."""
    linked, facts = project(asked, **files)
    found = {}
    for each in facts.values():
        for name in each.functions:
            region = linked.region(name)
            if region is not None:
                found[name] = (region.call_path[0], region.certain)
    return found


def test_a_comment_makes_a_region() -> None:
    assert regions_of(RegionOptions(), m=SOLVER) == {
        "m.named": ("m.named (marked as a region, m.py:8)", True)
    }


def test_entry_points_are_compiled() -> None:
    found = regions_of(RegionOptions(("m.integrate", "m.Lo*")), m=SOLVER)
    assert set(found) == {"m.named", "m.integrate", "m.Loss.__call__"}
    assert found["m.integrate"] == ("m.integrate (entry point m.integrate)", True)
    linked, facts = project(RegionOptions(("m.integrate",)), m=SOLVER)
    assert [event.kind for event in confirmed(linked, facts["m"])] == ["branch.if", "sync.item"]


def test_all_regions_are_functions_that_get_tensors() -> None:
    found = regions_of(RegionOptions(every=True), m=SOLVER)
    assert set(found) == {"m.named", "m.integrate", "m.Loss.__call__"}
    assert not found["m.integrate"][1]


# With `--regions all`: what a program does around compiled code, and its users do not compile.
AROUND = """
    import json, torch, transformers
    class Reader:
        def read(self, path):
            with open(path) as file:
                return json.load(file)
        def from_file(self, x: torch.Tensor, path):
            return x * len(self.read(path))
    def again(reader: Reader, x: torch.Tensor):
        return reader.from_file(x, "scale.json")
    def judged(model, test_loader):
        return sum(torch.sum(model(x)) for x in test_loader)
    def step(model, x: torch.Tensor, optimizer):
        model(x).backward()
        optimizer.step()
    class SoftTrainer(transformers.Trainer):
        def score(self, x: torch.Tensor):
            return x.mean().item()
    def scaled(x: torch.Tensor):
        return x * 2
"""


def test_what_a_program_does_around_compiled_code_is_no_region() -> None:
    found = regions_of(
        RegionOptions(every=True), m=AROUND, tests__helper=SOLVER, pkg__dataset__turn=SOLVER
    )
    assert set(found) == {"m.scaled", "tests.helper.named", "pkg.dataset.turn.named"}


def test_what_torch_compile_is_given() -> None:
    model = """
        import torch
        class GPT(torch.nn.Module):
            def forward(self, x):
                return x
        def make():
            return GPT()
    """
    for given in ("GPT()", "model.make()"):
        main = f"import torch, model\nfrom model import GPT\ncompiled = torch.compile({given})"
        found = regions_of(RegionOptions(), model=model, main=main)
        assert found["model.GPT.forward"][1], given
    off = "import torch\n@torch.compile(disable=True)\ndef f(x: torch.Tensor):\n    return x.item()"
    assert regions_of(RegionOptions(), m=off) == {}


def test_subclasses_say_what_an_abstract_method_returns() -> None:
    source = """
        import torch
        class Base(torch.nn.Module):
            def forward(self, x: torch.Tensor):
                if self.score(x) > 0:
                    return x
            def score(self, x):
                raise NotImplementedError
        class Sub(Base):
            def score(self, x: torch.Tensor):
                return x.sum()
    """
    assert events(m=source)["m"] == ["branch.if"]


def test_a_wrapper_gets_what_the_function_gets() -> None:
    source = """
        import torch, functools
        def checked(f):
            @functools.wraps(f)
            def inner(self, x):
                if x > 0:
                    return f(self, x)
            return inner
        class M(torch.nn.Module):
            def forward(self, x: torch.Tensor):
                return self.part(x.sum())
            @checked
            def part(self, x):
                return x
    """
    assert events(m=source)["m"] == ["branch.if"]
