"""A replay plan is frozen, and tells how much memory a call has."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields

import pytest
import torch

from pygraph_rt.plan import replay_plan
from pygraph_rt.plan.graph import Patch, PatchPlan, SubGraph
from pygraph_rt.plan.memory_blocks import Block
from pygraph_rt.plan.outputs import Fixed, OfInput, OutputPlan
from pygraph_rt.plan.replay_plan import (
    InputPlan,
    LaunchPlan,
    MemoryPlan,
    ReplayPlan,
    TensorInput,
    TensorLayout,
)

LAYOUT = TensorLayout((4,), (1,), torch.float32, torch.device("cuda", 1))
POOL, LATER = Block("pool", 0), Block("pool", 1)
PLAN = ReplayPlan(
    PatchPlan((Patch(0, 0, 0, Block("input", 0), 0), Patch(2, 0, 0, POOL, 64)), 3),
    (
        SubGraph(range(2), (POOL,), (), (1,), (POOL,)),
        SubGraph(range(2, 3), (LATER,), (0,)),
    ),
    InputPlan((TensorInput(0, 256, True, LAYOUT),), ((2, 5),), (3,)),
    OutputPlan((), (OfInput(0, True, (), (), 0), Fixed(None))),
    MemoryPlan({POOL: 3 << 20, LATER: 2 << 20}),
    LaunchPlan(1, 0xAB, 4),
)


def test_the_most_memory_is_what_one_sub_graph_has() -> None:
    assert PLAN.most_allocated() == 3 << 20


def test_no_part_can_be_changed() -> None:
    for part in (PLAN, PLAN.patches, PLAN.inputs, PLAN.outputs, PLAN.memory, PLAN.launch):
        with pytest.raises(FrozenInstanceError):
            setattr(part, fields(part)[0].name, None)


def test_no_part_has_more_than_twelve_fields() -> None:
    parts = [
        value for value in vars(replay_plan).values() if hasattr(value, "__dataclass_fields__")
    ]
    assert ReplayPlan in parts
    assert all(len(fields(part)) <= 12 for part in parts)
