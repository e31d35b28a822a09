"""Which functions and classes of a file no other file can mean."""

from __future__ import annotations

import pytest

from tests.analysis.programs import project

FILE = """
    import torch
    __all__ = ["Model"]
    class Model(torch.nn.Module):
        def forward(self, x):
            return helper(x)
    class Part:
        def run(self):
            pass
    def helper(x):
        return x
"""


def own(text: str = FILE, **others: str) -> set[str]:
    """The file's own names."""
    linked, _ = project(pkg__file=text, **others)
    return set(linked.program.private.get("pkg.file", ()))


def test_what_all_leaves_out_is_the_files_own() -> None:
    assert own() == {"Part", "helper"}
    assert own(FILE.replace('["Model"]', '("Model", "helper")')) == {"Part"}


@pytest.mark.parametrize(
    "names",
    ['["Model"] + more', "more", '[*more, "Model"]', '["Model"]\n    __all__ += ["Part"]', "NAMES"],
)
def test_a_list_that_is_not_written_out_once_says_nothing(names: str) -> None:
    assert own(FILE.replace('["Model"]', names)) == set()


def test_a_file_without_all_offers_everything() -> None:
    assert own(FILE.replace("__all__", "names")) == set()
    assert own(FILE.replace('["Model"]', '["Model"]\n    __all__.append("Part")')) == set()


@pytest.mark.parametrize(
    ("other", "left"),
    [
        ("from pkg.file import Part", {"helper"}),
        ("from pkg.file import Part as P, helper", set()),
        ("from pkg.file import *", {"Part", "helper"}),
        ("from pkg import file", set()),
        ("import pkg.file as file", set()),
        ("def late():\n    from pkg.file import helper\n    return helper", {"Part"}),
        ("from pkg.else_ import Part", {"Part", "helper"}),
    ],
)
def test_other_files_of_the_project_are_asked(other: str, left: set[str]) -> None:
    assert own(pkg__other=other) == left


def test_what_other_files_assign_to_or_derive_from() -> None:
    base = """
        __all__ = ["Base"]
        class Base: ...
        class Other: ...
        def helper(): ...
        def kept(): ...
    """
    other = """
        import base
        from base import Base as B, Other
        class Derived(B): ...
        base.helper = print
        setattr(Other, "run", print)
        def f(self, x):
            self.kept = x.kept = 1
    """
    linked, facts = project(base=base, other=other)
    view = linked.view(facts["base"])
    assert view.patched == {"base.helper", "base.Other.run"}
    assert view.subclassed == {"base.Base"}
    assert view.private == set()  # the file is imported as a whole
    assert view.key == linked.view(facts["base"]).key
