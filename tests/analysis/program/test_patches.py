"""What other files of a project mean for a file."""

from __future__ import annotations

from tests.analysis.programs import project


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
    assert view.key == linked.view(facts["base"]).key
