"""Tiny models of timm: created by registered name, fed with random images."""

from __future__ import annotations

import importlib
from typing import Any

import torch

from benchmarks.lint_truth.builders import Entry, Inputs
from benchmarks.lint_truth.shapes import BATCH

#: Registered name -> (image size or None for the model's own, constructor arguments).
MODELS: dict[str, tuple[int | None, dict[str, Any]]] = {
    "test_vit": (None, {"drop_path_rate": 0.1}),
    "test_resnet": (None, {"drop_path_rate": 0.1}),
    "test_efficientnet": (None, {"drop_path_rate": 0.1}),
    "test_convnext": (None, {"drop_path_rate": 0.1}),
    "test_mambaout": (None, {}),
    "test_nfnet": (None, {}),
    "test_byobnet": (None, {}),
    "swin_tiny_patch4_window7_224": (
        64,
        {"depths": (1, 1, 1, 1), "embed_dim": 24, "img_size": 64, "window_size": 4},
    ),
    "swinv2_tiny_window8_256": (
        64,
        {"depths": (1, 1, 1, 1), "embed_dim": 24, "img_size": 64, "window_size": 4},
    ),
    "swinv2_cr_tiny_ns_224": (
        64,
        {"depths": (1, 1, 1, 1), "embed_dim": 24, "img_size": 64, "window_size": 2},
    ),
    "beit_base_patch16_224": (64, {"depth": 2, "embed_dim": 48, "num_heads": 4, "img_size": 64}),
    "eva02_tiny_patch14_224": (56, {"depth": 2, "img_size": 56}),
    "cait_xxs24_224": (64, {"depth": 2, "img_size": 64}),
    "coat_tiny": (None, {}),
    "convit_tiny": (64, {"depth": 3, "img_size": 64, "local_up_to_layer": 2}),
    "crossvit_9_240": (None, {}),
    "deit3_small_patch16_224": (64, {"depth": 2, "img_size": 64}),
    "edgenext_xx_small": (64, {}),
    "efficientformer_l1": (None, {}),
    "efficientformerv2_s0": (None, {}),
    "fastvit_t8": (64, {}),
    "gcvit_xxtiny": (None, {}),
    "ghostnet_050": (64, {}),
    "hiera_tiny_224": (None, {"stages": (1, 1, 1, 1)}),
    "levit_128s": (None, {}),
    "maxvit_rmlp_pico_rw_256": (None, {}),
    "mixer_s32_224": (64, {"img_size": 64}),
    "mobilenetv3_small_050": (64, {"drop_path_rate": 0.1}),
    "mobilevit_xxs": (64, {}),
    "mobilevitv2_050": (64, {}),
    "mvitv2_tiny": (None, {}),
    "naflexvit_base_patch16_gap": (64, {"depth": 2, "embed_dim": 48, "num_heads": 4}),
    "nest_tiny": (None, {}),
    "pit_ti_224": (None, {}),
    "poolformer_s12": (64, {}),
    "repvit_m0_9": (64, {}),
    "rexnet_100": (64, {}),
    "sequencer2d_s": (None, {"layers": (1, 1, 1, 1)}),
    "samvit_base_patch16_224": (64, {"depth": 2, "embed_dim": 48, "num_heads": 4, "img_size": 64}),
    "tiny_vit_5m_224": (None, {"depths": (1, 1, 1, 1)}),
    "tnt_s_legacy_patch16_224": (None, {"depth": 2}),
    "twins_svt_small": (None, {}),
    "vit_relpos_small_patch16_224": (None, {"depth": 2}),
    "volo_d1_224": (None, {}),
    "xcit_nano_12_p16_224": (None, {"depth": 2}),
    "densenet121": (64, {}),
    "res2net50_14w_8s": (64, {}),
}


def entries() -> list[Entry]:
    """All measured models of timm."""
    return [
        Entry(f"timm/{name}", "timm", name, family=f"timm/{name.partition('_')[0]}")
        for name in MODELS
    ]


def build(entry: Entry) -> tuple[torch.nn.Module, Inputs]:
    """The model of `entry` and one batch of images."""
    size, arguments = MODELS[entry.cls]
    timm = importlib.import_module("timm")
    model = timm.create_model(entry.cls, pretrained=False, num_classes=10, **arguments)
    if size is None:
        channels, height, width = model.default_cfg["input_size"]
    else:
        channels, height, width = 3, size, size
    return model, {"x": torch.randn(BATCH, channels, height, width)}
