"""Loops over experts in the spellings that other people's code uses."""

from __future__ import annotations

import pytest
import torch

from tests.fixes.equivalence import assert_near, breaks, module_of, run
from tests.fixes.support import marked, offer

EXPERTS_HEAD = """
import torch
from torch import nn
import torch.nn.functional as F

"""
EXPERTS = {
    "transformers 5.23": """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.num_experts = 4
        self.gate_up_proj = nn.Parameter(torch.randn(4, 16, 8))
        self.down_proj = nn.Parameter(torch.randn(4, 8, 8))
        self.act_fn = nn.SiLU()

    def forward(
        self, hidden_states: torch.Tensor, top_k_index: torch.Tensor, top_k_weights: torch.Tensor
    ):
        final = torch.zeros_like(hidden_states)
        with torch.no_grad():
            expert_mask = F.one_hot(top_k_index, num_classes=self.num_experts + 1)
            expert_mask = expert_mask.permute(2, 1, 0)
            expert_hit = torch.greater(expert_mask.sum(dim=(-1, -2)), 0).nonzero()

        for expert_idx in expert_hit:
            expert_idx = expert_idx[0]
            if expert_idx == self.num_experts:
                continue
            top_k_pos, token_idx = «torch.where(expert_mask[expert_idx])»
            current_state = hidden_states[token_idx]
            gate_up = F.linear(current_state, self.gate_up_proj[expert_idx])
            gate, up = gate_up.chunk(2, dim=-1)
            current = self.act_fn(gate) * up
            current = F.linear(current, self.down_proj[expert_idx])
            current = current * top_k_weights[token_idx, top_k_pos, None]
            final.index_add_(0, token_idx, current.to(final.dtype))

        return final
""",
    "mistral": """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.experts = nn.ModuleList(nn.Linear(8, 8) for _ in range(4))
    def forward(
        self, inputs: torch.Tensor, selected_experts: torch.Tensor, weights: torch.Tensor
    ):
        results = torch.zeros_like(inputs)
        for i, expert in enumerate(self.experts):
            batch_idx, nth_expert = «torch.where(selected_experts == i)»
            results[batch_idx] += weights[batch_idx, nth_expert, None] * expert(inputs[batch_idx])
        return results
""",
    "nllb": """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.experts = nn.ModuleDict({f"expert_{i}": nn.Linear(8, 8) for i in range(4)})
        self.num_experts = 4
    def forward(
        self, hidden_states: torch.Tensor, top_k_index: torch.Tensor, top_k_weights: torch.Tensor
    ):
        final = torch.zeros_like(hidden_states)
        expert_mask = F.one_hot(top_k_index, self.num_experts)
        expert_mask = expert_mask.permute(2, 1, 0)
        expert_hit = torch.greater(expert_mask.sum(dim=(-1, -2)), 0).nonzero()
        for expert_idx in expert_hit:
            idx, top_x = «torch.where(expert_mask[expert_idx].squeeze(0))»
            current_state = hidden_states[None, top_x].reshape(-1, hidden_states.shape[-1])
            current = self.experts[f"expert_{expert_idx[0]}"](current_state)
            current = current * top_k_weights[top_x, idx, None]
            final.index_add_(0, top_x, current.to(hidden_states.dtype))
        return final
""",
    "jamba": """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.experts = nn.ModuleList(nn.Linear(8, 8) for _ in range(4))
        self.num_experts = 4
    def forward(
        self, x: torch.Tensor, selected_experts: torch.Tensor, routing_weights: torch.Tensor
    ):
        out = torch.zeros_like(x)
        expert_mask = F.one_hot(selected_experts, self.num_experts).permute(2, 1, 0)
        for expert_idx in range(self.num_experts):
            expert_layer = self.experts[expert_idx]
            idx, top_x = «torch.where(expert_mask[expert_idx])»
            if top_x.shape[0] == 0:
                continue
            # lists are faster
            top_x_list = top_x.tolist()
            idx_list = idx.tolist()
            state = x[None, top_x_list].reshape(-1, 8)
            # weigh
            current = expert_layer(state) * routing_weights[top_x_list, idx_list, None]
            out.index_add_(0, top_x, current.to(x.dtype))
        return out
""",
    "a mask with a name": """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.experts = nn.ModuleList(nn.Linear(8, 8) for _ in range(4))
    def forward(self, rows: torch.Tensor, picks: torch.Tensor, weights: torch.Tensor):
        out = torch.zeros_like(rows)
        for number, expert in enumerate(self.experts):
            mask = picks == number
            token, nth = «torch.where(mask)»
            out[token] += weights[token, nth, None] * expert(rows[token])
        return out
""",
    "only where there are tokens": """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.experts = nn.ModuleList(nn.Linear(8, 8) for _ in range(4))
    def forward(self, x: torch.Tensor, picks: torch.Tensor, weights: torch.Tensor):
        out = torch.zeros_like(x)
        expert_mask = F.one_hot(picks, num_classes=4).permute(2, 1, 0)
        for number in range(4):
            layer = self.experts[number]
            idx, top_x = «torch.where(expert_mask[number])»
            # those that got none
            if top_x.numel() > 0:
                # go on
                state = x[None, top_x].reshape(-1, 8)
                current = layer(state) * weights[top_x, idx, None]

                # add
                out.index_add_(0, top_x, current.to(x.dtype))
        return out
""",
}


@pytest.mark.parametrize("name", EXPERTS)
def test_experts_work_on_every_token(name: str) -> None:
    text = EXPERTS_HEAD + EXPERTS[name]
    fix, after = offer(text, "PG401")
    assert fix is not None and fix.applicability == "unsafe", fix
    torch.manual_seed(0)
    old, new = (module_of(source).Model() for source in (marked(text)[0], after))
    new.load_state_dict(old.state_dict())
    index = torch.tensor([[0, 1], [1, 3], [1, 0], [3, 0], [0, 3]])  # nobody asks for expert 2
    arguments = (torch.randn(5, 8, requires_grad=True), index, torch.rand(5, 2, requires_grad=True))
    assert_near(run(old, arguments), run(new, arguments))
    assert breaks(old, arguments) > breaks(new, arguments) == 0


ALIKE = {
    "nobody asked": ("if top_x.numel() > 0:", "if top_x.numel() == 0:"),
    "a comment that would go": ("numel() > 0:", "numel() > 0:  # some"),
    "or else": (
        "top_x, current.to(x.dtype))\n",
        "top_x, current.to(x.dtype))\n            else:\n                out += 1\n",
    ),
}


@pytest.mark.parametrize("name", ALIKE)
def test_what_looks_like_an_expert_without_tokens_stays(name: str) -> None:
    text = EXPERTS_HEAD + EXPERTS["only where there are tokens"].replace(*ALIKE[name])
    fix, after = offer(text, "PG401")
    assert after == marked(text)[0], fix


def test_a_mask_of_another_turn_is_none_of_this_expert() -> None:
    named = EXPERTS_HEAD + EXPERTS["a mask with a name"]
    line = "            mask = picks == number\n"
    before = "        mask = picks == 0\n        for number, expert"
    text = named.replace(line, "").replace("        for number, expert", before)
    assert offer(text, "PG401")[1] == marked(text)[0]
