"""What users of a library do not compile, and names that a mask says nothing of."""

from __future__ import annotations

import pytest

from tests.analysis.regions.test_library_code import seen


@pytest.mark.parametrize(
    ("write", "expected"), [("@knots.setter", []), ("@staticmethod", ["sync.tolist"])]
)
def test_the_setter_of_a_property_is_not_compiled(write: str, expected: list[str]) -> None:
    source = f"""
class Spline(nn.Module):
    @property
    def knots(self):
        return self._knots
    {write}
    def knots(self, value: torch.Tensor):
        self._knots = value.tolist()
"""
    assert (
        seen(source.replace("(self, value", "(value") if "static" in write else source) == expected
    )


@pytest.mark.parametrize(
    ("index", "expected"),
    [
        ("idx[idx >= limit]", []),  # `idx` is one: nothing says that `limit` is
        ("idx[limit > 0]", ["branch.if"]),
    ],
)
def test_a_name_beside_a_tensor_in_a_mask(index: str, expected: list[str]) -> None:
    source = f"""
def translate(x: torch.Tensor, limit):
    idx = x.floor()
    if limit > 3:
        idx = idx + 1
    return {index}
"""
    assert [kind for kind in seen(source) if kind == "branch.if"] == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("taps: int, rate: float = 2.0", []),
        ("taps: int, device: torch.device", ["sync.item"]),
        ("taps: int, x: torch.Tensor", ["sync.item"]),
    ],
)
def test_what_gets_numbers_alone_is_not_compiled(given: str, expected: list[str]) -> None:
    body = "    w = torch.ones(taps, device='cuda')\n    return w.sum().item()\n"
    assert seen(f"def design({given}):\n{body}") == expected


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("apply_model", "self.size = torch.ones(taps).sum().item()", ["sync.item"]),
        ("set_model", "self.size = torch.ones(taps).sum().item()", []),
        ("apply_model", "return Head(taps.sum().item())", []),
        ("print_parameters", "self.size = torch.ones(taps).sum().item()", []),
    ],
)
def test_what_sets_up_or_gives_a_module_is_not_compiled(
    name: str, given: str, expected: list[str]
) -> None:
    source = f"""
class Head(nn.Module):
    def __init__(self, size):
        super().__init__()
class Wrapper:
    def {name}(self, taps: torch.Tensor):
        {given}
"""
    assert [kind for kind in seen(source) if kind == "sync.item"] == expected


def test_a_field_that_may_be_a_number_is_no_tensor() -> None:
    source = """
from typing import Optional, Union
class Space:
    low: Optional[Union[int, torch.Tensor]] = None
    high: torch.Tensor
    def size(self, x: torch.Tensor):
        return x * int(self.{})
"""
    assert [seen(source.format(name)) for name in ("low", "high")] == [[], ["sync.number"]]


@pytest.mark.parametrize(
    ("name", "caller", "expected"),
    [
        ("_unpack", "show", []),
        ("_unpack", "plot_all", []),
        ("_unpack", "scale", ["sync.item"]),
        ("unpack", "show", ["sync.item"]),
    ],
)
def test_what_only_plots_call_is_not_compiled(name: str, caller: str, expected: list[str]) -> None:
    source = f"""
def {name}(image: torch.Tensor):
    return image / image.sum().item()
def {caller}(image):
    return draw({name}(image))
"""
    assert seen(source) == expected


@pytest.mark.parametrize(
    ("library", "axes", "expected"),
    [
        ("matplotlib.pyplot", "ax", []),
        ("matplotlib.pyplot", "axis", ["sync.tolist"]),
        ("math", "ax", ["sync.tolist"]),
    ],
)
def test_what_gets_axes_of_matplotlib_draws(library: str, axes: str, expected: list[str]) -> None:
    source = f"""
import {library} as used
def arrows({axes}, points: torch.Tensor):
    {axes}.arrow(used.e, points.tolist())
"""
    assert seen(source) == expected


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("neighbours", "n", ["sync.tolist"]),
        ("build_neighbours", "n", []),
        ("_precompute", "n", []),
        ("configure", "n", []),
        ("build_neighbours", "n: torch.Tensor", ["sync.tolist"]),
    ],
)
def test_what_makes_something_of_no_tensor_is_not_compiled(
    name: str, given: str, expected: list[str]
) -> None:
    source = f"""
class Walks:
    def {name}(self, {given}):
        return torch.randint(4, (self.size, 2), device="cuda").unique().tolist()
"""
    assert [each for each in seen(source) if each == "sync.tolist"] == expected


@pytest.mark.parametrize(
    ("name", "also", "expected"),
    [
        ("_padded", "pickle.loads(bytes(3))", []),
        ("padded", "pickle.loads(bytes(3))", ["sync.item"]),
        ("_padded", "len(bytes(3))", ["sync.item"]),
    ],
)
def test_what_is_private_and_serves_only_what_uses_files(
    name: str, also: str, expected: list[str]
) -> None:
    source = f"""
import pickle
def gathered(group):
    x = {name}(torch.zeros(3, device="cuda"), group)
    return x, {also}
def {name}(x: torch.Tensor, group):
    return x.sum().item()
"""
    assert [each for each in seen(source) if each == "sync.item"] == expected
