"""Values that are a number or a tensor, masks by their name, and tensors of an unknown place."""

from __future__ import annotations

import textwrap

import pytest

from pygraph_lint.analysis.extract import extract
from pygraph_lint.analysis.link import link
from pygraph_lint.analysis.program.patches import VALIDATES
from pygraph_lint.analysis.regions.compiled import RegionOptions
from tests.analysis.programs import SINKS, confirmed, project


def seen(source: str) -> list[str]:
    head = "import torch\nfrom typing import Optional, Union\nfrom torch import Tensor\n"
    linked, facts = project(RegionOptions(every=True), m=head + textwrap.dedent(source))
    return [event.kind for event in confirmed(linked, facts["m"])]


@pytest.mark.parametrize("kind", ["Union[float, Tensor]", "Optional[Tensor]", "Tensor"])
@pytest.mark.parametrize(("given", "expected"), [("x[0]", ["sync.number"]), ("1.5", []), ("", [])])
def test_a_default_number_may_be_a_tensor_of_a_caller(
    kind: str, given: str, expected: list[str]
) -> None:
    source = f"""
    def _scale(x: Tensor, t: {kind} = 0.0):
        return x * float(t)
    def use(x: Tensor):
        return _scale(x{", " + given if given else ""})
    """
    assert seen(source) == expected


@pytest.mark.parametrize(
    ("index", "expected"),
    [
        ("x.argmax() % n", ["shape.from-value"]),
        ("torch.div(x.argmax(), n, rounding_mode='floor') - 1", ["shape.from-value"]),
        ("x.argmax(dim=1) % n", []),
        ("x.argmax() % y", []),
    ],
)
def test_a_number_or_a_single_tensor_keeps_the_rank(index: str, expected: list[str]) -> None:
    source = f"""
    def pick(x: Tensor, y: Tensor, n=101):
        place = {index}
        return x[place]
    """
    assert seen(source) == expected


@pytest.mark.parametrize(
    ("index", "expected"),
    [("mask", ["shape.mask-read"]), ("mask[0]", ["shape.mask-read"]), ("places[0]", [])],
)
def test_a_part_of_a_mask_is_a_mask(index: str, expected: list[str]) -> None:
    source = f"""
    def pick(x: Tensor, mask: Tensor, places: Tensor):
        return x[{index}]
    """
    assert seen(source) == expected


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        ("x.view(-1)", ["host.moved"]),
        ("torch.zeros(3)", ["host.factory"]),  # all of it is on the host
    ],
)
def test_a_host_attribute_moved_to_where_a_result_is(result: str, expected: list[str]) -> None:
    source = f"""
    class M(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.mean = torch.zeros(1, 1, 1, 1)
        def padded(self, x):
            return {result}
        def forward(self, x: Tensor):
            x = self.padded(x)
            mean = self.mean.type_as(x)
            return mean.sum()
    """
    assert [kind for kind in seen(source) if kind != "host.attribute"] == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [("lowest(x.dtype)", []), ("total(x)", ["shape.mask-write"]), ("1.0", [])],
)
def test_a_number_that_a_function_gives_is_filled_in(value: str, expected: list[str]) -> None:
    source = f"""
    def lowest(dtype):
        return torch.finfo(dtype).min
    def total(x: Tensor):
        return x.sum()
    def use(x: Tensor):
        x[x == 0] = {value}
        return x
    """
    assert seen(source) == expected


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("Distribution.set_default_validate_args(False)", []),
        ("Distribution.set_default_validate_args(settings.checked)", []),
        ("Distribution._validate_args = False", []),
        ("Distribution.set_default_validate_args(True)", ["sync.validated"]),
        ("Distribution._validate_args = True", ["sync.validated"]),
        ("Other._validate_args = False", ["sync.validated"]),
        ("def later():\n    Distribution.set_default_validate_args(False)", []),
        ("from torch.distributions import Normal\nNormal.set_default_validate_args(False)", []),
    ],
)
def test_a_project_may_turn_off_what_distributions_check(said: str, expected: list[str]) -> None:
    settings = f"from torch.distributions import Distribution\nclass Other:\n    pass\n{said}\n"
    use = """
    import torch
    def use(x: torch.Tensor):
        return torch.distributions.Normal(x, x.abs())
    """
    linked, facts = project(RegionOptions(every=True), m__settings=settings, m__use=use)
    assert [event.kind for event in confirmed(linked, facts["m.use"])] == expected
    assert (VALIDATES in facts["m.settings"].patched) == (not expected)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("a, b, c, flag, y", []),  # b and c are sizes
        ("a, b, c, flag, flag_too, y", []),
        ("flag, b, c, kept, y", ["branch.if"]),
        ("a, *b, flag, y", ["branch.if"]),  # any of them
    ],
)
def test_what_stands_beside_an_unpacked_shape_is_found_from_both_ends(
    names: str, expected: list[str]
) -> None:
    source = f"""
    class M(torch.nn.Module):
        def __init__(self, flag=False):
            super().__init__()
            self.flag = flag
        def forward(self, x: Tensor):
            {names} = x.sum(), *x.shape, self.flag, x
            if flag:
                return x + 1
            return x * 2
    """
    assert seen(source) == expected


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("torch.distributed.ProcessGroup", []),
        ("Optional[torch.cuda.Stream]", []),
        ("torch.distributed.tensor.DTensor", ["branch.if"]),
    ],
)
def test_groups_and_streams_are_no_tensors(kind: str, expected: list[str]) -> None:
    source = f"""
    def use(x: Tensor, group: {kind}):
        if group:
            x = x * group.size()[0]
        return x
    """
    assert seen(source) == expected


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        ("torch.stack(b) if len(b) > 0 else torch.tensor(b, device=x.device)", []),
        ("torch.stack(b) if len(b) != 0 else torch.tensor(b, device=x.device)", []),
        ("torch.tensor(b, device=x.device) if not b else torch.stack(b)", []),
        ("torch.tensor(b, device=x.device) if len(b) == 0 else torch.stack(b)", []),
        ("torch.tensor(b, device=x.device) if b else x", ["host.data-tensor", "sync.number"]),
        ("x if len(b) > 1 else torch.tensor(b)", ["sync.number"]),
    ],
)
def test_a_list_without_elements_holds_no_tensors(made: str, expected: list[str]) -> None:
    source = f"""
    def use(x: Tensor, n: int):
        b = []
        for i in range(n):
            b.append(x * i)
        return {made}
    """
    assert sorted(seen(source)) == expected


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("torch.library.custom_op('a::use', use, mutates_args=())", []),
        ("OP = torch.library.custom_op('a::use', use, mutates_args=())", []),
        ("torch.library.register_fake('a::use', use)", []),
        ("torch.library.register_autograd('a::b', lambda c, g: g, setup_context=use)", []),
        ("print(use)", ["sync.tolist"]),
        ("torch.library.register_fake('a::use', other)", ["sync.tolist"]),
    ],
)
def test_an_operator_of_the_library_is_not_compiled(call: str, expected: list[str]) -> None:
    source = f"""
    def use(x: Tensor):
        return x.tolist()
    def other(x: Tensor):
        return x + 1
    {call}
    """
    assert seen(source) == expected


def test_an_operator_that_is_called_as_a_function_is_compiled() -> None:
    source = """
    def use(x: Tensor):
        return x.tolist()
    def caller(x: Tensor):
        return use(x)
    torch.library.custom_op("a::use", use, mutates_args=())
    """
    assert seen(source) == ["sync.tolist"]


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ("self", []),
        ("self, x: Tensor", ["effect.kept-output", "effect.parameter-made", "sync.copy"]),
    ],
)
def test_a_method_that_makes_parameters_of_nothing_runs_once(
    parameters: str, expected: list[str]
) -> None:
    source = f"""
    class M(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.nn.Parameter(torch.zeros(3))
        def quantize({parameters}):
            self.q = torch.nn.Parameter(self.w.round().cpu())
    """
    assert sorted(seen(source)) == expected


@pytest.mark.parametrize(
    ("module", "expected"), [("pkg.__main__", []), ("pkg.tool", ["sync.item"])]
)
def test_a_command_is_not_compiled(module: str, expected: list[str]) -> None:
    source = "import torch\ndef check(x: torch.Tensor):\n    return x.max().item()\n"
    facts = extract(source, f"{module}.py", module, False, SINKS)
    linked = link([facts], RegionOptions(every=True))
    assert [event.kind for event in confirmed(linked, facts)] == expected


@pytest.mark.parametrize(
    ("other", "expected"), [("x.q_scale()", []), ("x.max()", ["sync.builtin"])]
)
def test_the_scale_of_a_quantized_tensor_is_a_number(other: str, expected: list[str]) -> None:
    assert seen(f"def use(x: Tensor):\n    return max(0.5, {other})\n") == expected


@pytest.mark.parametrize("module", ["m", "zz"])  # names are kept in alphabetical order
@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("torch.dot", "lambda a, b: a.mul(b).sum()", ["branch.if"]),
        ("torch.dot", "torch.inner", ["branch.if"]),
        ("torch.dot", "lambda a, b: 3", []),
        ("torch.dot", "math.hypot", []),
    ],
)
def test_one_of_several_functions_is_called(
    module: str, first: str, second: str, expected: list[str]
) -> None:
    source = f"""
    import math
    import torch
    def use(x: torch.Tensor, n: int):
        if n == 1:
            product = {first}
        else:
            product = {second}
        return x if product(x, x) > 0 else -x
    """
    linked, facts = project(RegionOptions(every=True), **{module: source})
    found = [event.kind for event in confirmed(linked, facts[module])]
    assert [kind.replace("ternary", "if") for kind in found] == expected


@pytest.mark.parametrize(
    ("probability", "expected"),
    [
        ("self.layerdrop", ["branch.random-skip"]),
        ("settings.layerdrop", ["branch.random-skip"]),
        ("self.p", ["branch.random-skip"]),
        ("rate", ["branch.random-skip"]),
        ("x.mean()", ["branch.if"]),
    ],
)
def test_what_a_draw_is_compared_with_is_a_number(probability: str, expected: list[str]) -> None:
    use = f"""
    import torch
    from m.settings import Settings
    class M(torch.nn.Module):
        def __init__(self, settings: Settings, p=0.1):
            super().__init__()
            self.layerdrop = settings.layerdrop
            self.p = p
        def forward(self, x: torch.Tensor, settings: Settings, rate=0.5):
            if torch.rand([]) < {probability}:
                return x
            return x + 1
    """
    other = """
    class Settings:
        def __init__(self, layerdrop=0.0):
            self.layerdrop = layerdrop
    """
    linked, facts = project(RegionOptions(every=True), m__settings=other, m__use=use)
    found = [event.kind for event in confirmed(linked, facts["m.use"])]
    assert [kind for kind in found if kind.startswith("branch.")] == expected
