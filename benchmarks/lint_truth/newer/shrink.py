"""Ways to make a configuration of transformers tiny, the one that changes most first."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.lint_truth.builders import config_kwargs
from benchmarks.lint_truth.shapes import DEPTH_FIELDS, TINY, VOCABULARY, sub_configs

#: Beside `TINY`: fields that must not stay larger than what was made small.
_MORE = {
    "num_experts_per_tok": 2,
    "moe_topk": 2,
    "moe_k": 2,
    "top_k_experts": 2,
    "num_experts_per_token": 2,
    "n_shared_experts": 1,
    "num_shared_experts": 1,
    "n_group": 2,
    "topk_group": 1,
    "moe_num_experts": 8,
    "first_k_dense_replace": 1,
    "num_dense_layers": 1,
    "global_head_dim": 16,
    "num_global_key_value_heads": 2,
    "hidden_size_per_layer_input": 16,
    "vocab_size_per_layer_input": VOCABULARY,
    "out_hidden_size": 64,
    "n_mels": 80,
    "sliding_window": 8,
}

#: Fields that only count things: they never have to fit other fields.
_COUNTS = frozenset(
    {"vocab_size", "text_vocab_size", "num_hidden_layers", "num_layers", "n_layer", "n_layers"}
    | {"encoder_layers", "decoder_layers", "num_decoder_layers", "num_encoder_layers", "depth"}
    | {"num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"}
    | {"num_experts_per_tok", "moe_topk", "top_k_experts", "max_position_embeddings"}
    | {"vocab_size_per_layer_input", "first_k_dense_replace"}
)
_WIDTHS = frozenset({"intermediate_size", "moe_intermediate_size", "ffn_dim", "num_queries"})

MOST_LAYERS = 4

#: Lists with one entry a layer.
_LAYER_LISTS = ("layer_types", "mlp_layer_types", "attention_types", "layers_block_type")


def _all_fields(config_cls: Any, overrides: Mapping[str, Any]) -> Any:
    """Every field that a tiny value is known for."""
    return config_cls(**config_kwargs(config_cls, overrides, {**TINY, **_MORE}))


def _equal_heads(config_cls: Any, overrides: Mapping[str, Any]) -> Any:
    """Every field, with as many heads of keys as of queries: latent attention wants that."""
    sizes = {**TINY, **_MORE, "num_key_value_heads": TINY["num_attention_heads"]}
    return config_cls(**config_kwargs(config_cls, overrides, sizes))


def _in_place(fields: frozenset[str] | None) -> Callable[[Any, Mapping[str, Any]], Any]:
    """A way that changes the default configuration, past its checks; `fields`: only these."""

    def shrink(config_cls: Any, overrides: Mapping[str, Any]) -> Any:
        config = config_cls()
        for part in sub_configs(config):
            _shrink_part(part, fields)
        _override(config, overrides)
        return config

    return shrink


def _read(part: Any, name: str) -> Any:
    with contextlib.suppress(Exception):  # fields that differ by layer refuse to be read
        return getattr(part, name, None)
    return None


def _write(part: Any, name: str, value: Any) -> None:
    with contextlib.suppress(Exception):  # properties without a setter
        setattr(part, name, value)


def _shrink_part(part: Any, fields: frozenset[str] | None) -> None:
    for name, tiny in {**TINY, **_MORE}.items():
        if fields is not None and name not in fields:
            continue
        value = _read(part, name)
        if isinstance(value, int) and not isinstance(value, bool) and value > tiny:
            _write(part, name, tiny)
    for name in DEPTH_FIELDS:
        value = _read(part, name)
        if isinstance(value, (list, tuple)):
            _write(part, name, [1] * len(value))
    for name in vars(part):
        value = _read(part, name)
        if name.endswith(("_token_id", "_token_index")) and isinstance(value, int):
            _write(part, name, value if value < VOCABULARY else 2)


def _override(config: Any, overrides: Mapping[str, Any]) -> None:
    for name, value in overrides.items():
        child = getattr(config, name, None)
        if isinstance(value, Mapping) and hasattr(child, "to_dict"):
            _override(child, value)
        else:
            _write(config, name, value)


def fit(config: Any) -> None:
    """Make fields agree that one of the ways left apart."""
    for part in sub_configs(config):
        if _read(part, "pad_token_id") is None:
            _write(part, "pad_token_id", 1)
        _keep_kinds_of_layers(part)
        _fit_rotary_sections(part)
    text, vision = _read(config, "text_config"), _read(config, "vision_config")
    if text is not None and isinstance(_read(vision, "out_hidden_size"), int):
        _write(vision, "out_hidden_size", _read(text, "hidden_size"))


def _keep_kinds_of_layers(part: Any) -> None:
    """One layer of each kind that the default configuration has, and lists of that length."""
    try:
        template = type(part)()
    except Exception:  # a part that cannot be made alone
        return
    found = {name: _read(template, name) for name in _LAYER_LISTS}
    lists = {name: list(kinds) for name, kinds in found.items() if isinstance(kinds, (list, tuple))}
    layers = _read(part, "num_hidden_layers")
    depth = _read(template, "num_hidden_layers")
    lists = {name: kinds for name, kinds in lists.items() if len(kinds) == depth}
    if not lists or not isinstance(layers, int):
        return
    firsts = {kinds.index(kind) for kinds in lists.values() for kind in kinds}
    chosen = sorted({*firsts, *range(max(0, layers - len(firsts)))})[:MOST_LAYERS]
    _write(part, "num_hidden_layers", len(chosen))
    for name, kinds in lists.items():
        _write(part, name, [kinds[index] for index in chosen])


def _fit_rotary_sections(part: Any) -> None:
    """Three sections of rotary positions fill half of a head."""
    rope, head = _read(part, "rope_parameters"), _read(part, "head_dim")
    if isinstance(rope, dict) and all(isinstance(kind, dict) for kind in rope.values()):
        for kind in _read(part, "layer_types") or ():  # kinds of layers without rotary positions
            rope.setdefault(kind, None)
    if not isinstance(rope, dict) or not isinstance(rope.get("mrope_section"), list):
        return
    if not isinstance(head, int):
        hidden, heads = _read(part, "hidden_size"), _read(part, "num_attention_heads")
        if not isinstance(hidden, int) or not isinstance(heads, int):
            return
        head = hidden // heads
    half = int(head * rope.get("partial_rotary_factor", 1.0)) // 2
    if sum(rope["mrope_section"]) != half:
        third = half // 3
        rope["mrope_section"] = [half - 2 * third, third, third]


_LAYERS = (
    *("num_hidden_layers", "num_layers", "n_layer", "n_layers", "depth"),
    *("encoder_layers", "decoder_layers", "num_encoder_layers", "num_decoder_layers"),
)


def _one_layer(config_cls: Any, overrides: Mapping[str, Any]) -> Any:
    """Every field, and one layer where all layers are of one kind: tracing takes half the time."""
    config = _all_fields(config_cls, overrides)
    fit(config)
    for part in sub_configs(config):
        lists = [_read(part, name) for name in _LAYER_LISTS]
        if any(isinstance(kinds, list) for kinds in lists):
            continue
        for name in _LAYERS:
            if _read(part, name) == TINY[name] and name not in overrides:
                _write(part, name, 1)
    return config


#: From the one that changes most to the one that changes least.
WAYS: tuple[Callable[[Any, Mapping[str, Any]], Any], ...] = (
    _one_layer,
    _all_fields,
    _equal_heads,
    _in_place(None),
    _in_place((frozenset(TINY) | frozenset(_MORE)) - {"head_dim", "num_key_value_heads"}),
    _in_place(_COUNTS | _WIDTHS),
    _in_place(_COUNTS),
)
