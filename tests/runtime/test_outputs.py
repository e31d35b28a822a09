"""Which allocation becomes which output, on code like the generated one, with CPU memory."""

from __future__ import annotations

import textwrap
import types
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.multiprocessing.reductions import StorageWeakRef

from pygraph_rt.capture import generated as code
from pygraph_rt.capture import observe
from pygraph_rt.capture.generated import AllocationTrace, PlacedAllocator
from pygraph_rt.errors import Unprovable
from pygraph_rt.inductor.partition_info import Signature
from pygraph_rt.plan.outputs import Fixed, Fresh, OfInput, OutputPlan


def empty(size: Any, stride: Any, dtype: torch.dtype) -> torch.Tensor:
    return torch.empty_strided(size, stride, dtype=dtype)


def generated(body: str) -> Callable[[list[Any]], Any]:
    """A function in a module of its own, whose buffers come from `empty_strided_cuda`."""
    module = types.ModuleType("generated")
    module.__dict__.update(
        empty_strided_cuda=empty,
        torch=torch,
        view=torch._C._dynamo.guards._reinterpret_tensor,
        constant=torch.ones(3),
    )
    lines = textwrap.indent(textwrap.dedent(body).strip(), "    ")
    exec(f"def partition_0(args):\n{lines}\n", module.__dict__)
    return module.__dict__["partition_0"]  # type: ignore[no-any-return]


def learn(body: str, inputs: list[Any]) -> OutputPlan:
    function = generated(body)
    trace = AllocationTrace(code.allocator_of(function))
    given = observe.weak_inputs(inputs)
    results = code.with_allocator(function, trace)(inputs)
    constants = [function.__globals__["constant"]]
    return observe.learn_outputs(
        results, given, constants, trace, Signature(0), observe.Draws(), device_type="cpu"
    )


def test_an_output_is_traced_to_its_allocation_past_dead_intermediates() -> None:
    plan = learn(
        """
        a, = args
        args.clear()
        buf0 = empty_strided_cuda((4,), (1,), torch.float32)
        del buf0
        buf1 = empty_strided_cuda((4,), (1,), torch.float32)
        buf2 = empty_strided_cuda((2, 2), (2, 1), torch.float32)
        return (buf2, buf1)
        """,
        [torch.ones(4)],
    )
    assert [s.allocation for s in plan.storages] == [2, 1]
    assert plan.outputs == (
        Fresh(0, (2, 2), (2, 1), 0, True),
        Fresh(1, (4,), (1,), 0, True),
    )


def test_views_of_one_buffer_share_a_storage() -> None:
    plan = learn(
        """
        buf0 = empty_strided_cuda((8,), (1,), torch.float32)
        return (view(buf0, (4,), (2,), 1), buf0)
        """,
        [],
    )
    assert len(plan.storages) == 1
    assert plan.outputs == (Fresh(0, (4,), (2,), 1, False), Fresh(0, (8,), (1,), 0, True))


def test_inputs_views_of_inputs_and_fixed_results() -> None:
    plan = learn(
        "a, b = args\nreturn (b, view(a, (2,), (1,), 3), None, 7, constant)",
        [torch.ones(8)[2:], torch.ones(2)],
    )
    assert plan.storages == ()
    assert plan.outputs[:2] == (OfInput(1, True, (), (), 0), OfInput(0, False, (2,), (1,), 3))
    assert [type(o) for o in plan.outputs[2:]] == [Fixed] * 3


def test_memory_that_a_library_call_returns_is_known_as_such() -> None:
    plan = learn("x = torch.ones(6)\nreturn (x[2:], x)", [])
    (storage,) = plan.storages
    assert (storage.allocation, storage.nbytes, storage.size) == (None, 24, (6,))


def test_memory_that_a_call_let_go_of_is_not_taken_for_what_it_made_afterwards() -> None:
    """torch gives the identity of a storage that is gone to one of the next."""
    body = """
        args.clear()
        return tuple([torch.ones(4) for _ in range(50)])
        """
    plan = learn(body, [torch.ones(4), torch.ones(4)])
    assert [type(o) for o in plan.outputs] == [Fresh] * 50


def test_what_a_call_was_given_is_not_held() -> None:
    base = torch.ones(8, dtype=torch.float16)
    view, alive, gone = base[3:7], weakref.ref(base), torch.ones(2)
    known = observe.weak_inputs([7, view, None, gone])
    assert sorted(known) == [1, 3]
    assert (known[1].dtype, known[1].offset) == (torch.float16, 3)
    assert known[1].span == (base.data_ptr() + 6, base.data_ptr() + 14)
    assert known[1].address == view.data_ptr()
    assert known[1].same(view)
    assert not known[1].same(base[3:7])
    held = StorageWeakRef(base.untyped_storage())
    del base, view
    assert alive() is None
    assert held.expired()


@pytest.mark.parametrize(
    ("returned", "shapes"),
    [
        ("view(x, (3, 4), (4, 1), 0)", [((3, 4), (4, 1))]),
        ("view(x, (4, 3), (1, 4), 0)", [((4, 3), (1, 4))]),
        ("view(x, (2, 4), (4, 1), 0)", None),  # less than all of it
        ("view(x, (2, 4), (4, 1), 4)", None),
        ("view(x, (3, 4), (4, 1), 0), x", None),  # returned twice
    ],
)
def test_memory_that_one_output_fills_is_made_in_its_shape(returned: str, shapes: Any) -> None:
    plan = learn(f"x = empty_strided_cuda((12,), (1,), torch.float32)\nreturn ({returned},)", [])
    direct = plan.direct()
    if shapes is None:
        assert direct == plan
        return
    assert [(s.size, s.stride) for s in direct.storages] == shapes
    assert [(o.whole, o.storage) for o in direct.outputs] == [(True, 0)]
    made = empty(*shapes[0], torch.float32).untyped_storage().nbytes()
    assert made == direct.storages[0].nbytes == plan.storages[0].nbytes


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("return (torch.ones(2, device='meta'),)", "CPU tensor"),
        ("return (torch.ones(2).to_sparse(),)", "no dense tensor"),
        ("return ('text',)", "no dense tensor"),
        ("a, b = args\nreturn (view(a, (1,), (1,), 0),)", "cannot be told"),
        ("a, b = args\nreturn (a.view(torch.int32),)", "cannot be told"),
        (
            "x = empty_strided_cuda((4,), (1,), torch.float32)\nreturn (x, x.view(torch.int32))",
            "two dtypes",
        ),
    ],
)
def test_results_that_cannot_be_rebuilt_are_refused(body: str, words: str) -> None:
    base = torch.ones(4)
    with pytest.raises(Unprovable, match=words):
        learn(body, [base, base[1:]])


def test_a_placed_allocation_is_handed_out_and_others_are_not() -> None:
    requests = [((4,), (1,), torch.float32), ((2,), (1,), torch.float32)]
    mine = torch.empty(2)
    allocator = PlacedAllocator(empty, requests, {1: mine})
    assert allocator((4,), (1,), torch.float32) is not mine
    assert allocator((2,), (1,), torch.float32) is mine
    with pytest.raises(Unprovable, match="other memory"):
        allocator((2,), (1,), torch.float32)


def test_code_that_is_no_python_function_is_refused() -> None:
    with pytest.raises(Unprovable, match="not a Python function"):
        code.with_allocator(print, empty)
    with pytest.raises(Unprovable, match="not known to pygraph"):
        code.allocator_of(print)
