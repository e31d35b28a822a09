"""CLIP as TorchMultimodal builds it (TorchBench suite, torch_multimodal_clip): inference at batch
1.

Stands for a model that loses its whole graph to one CPU tensor: the text encoder builds its causal
mask on the CPU in ``forward`` and sends it to the GPU. Reported as 0 to 99.3 % of kernels in graphs
and 2.31x once the mask is moved. ViT-B/16 at 224 pixels and a 12-layer text encoder of width 512
over 77 tokens, both from torch's own ``nn.TransformerEncoder``, as the original; written anew, with
random weights. The image tower averages nothing and reads the class token; the original's options
that are off by default are left out.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.workloads.base import Batch, Case, Draw, Setting, Workload


def _encoder(width: int, heads: int, layers: int) -> nn.TransformerEncoder:
    layer = nn.TransformerEncoderLayer(
        width,
        heads,
        dim_feedforward=4 * width,
        dropout=0.0,
        activation=_quick_gelu,
        batch_first=True,
        norm_first=True,
    )
    return nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)


def _quick_gelu(hidden: torch.Tensor) -> torch.Tensor:
    return hidden * torch.sigmoid(1.702 * hidden)


class ImageEncoder(nn.Module):
    """Images (batch, 3, pixels, pixels) to embeddings (batch, embedding)."""

    def __init__(
        self, pixels: int, patch: int, width: int, heads: int, layers: int, embedding: int
    ) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, stride=patch, bias=False)
        self.class_token = nn.Parameter(torch.randn(width) * width**-0.5)
        count = (pixels // patch) ** 2 + 1
        self.positions = nn.Parameter(torch.randn(count, width) * width**-0.5)
        self.norm_before = nn.LayerNorm(width)
        self.encoder = _encoder(width, heads, layers)
        self.norm_after = nn.LayerNorm(width)
        self.projection = nn.Parameter(torch.randn(width, embedding) * width**-0.5)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """See the class."""
        hidden = self.patches(images).flatten(2).transpose(1, 2)
        first = self.class_token.expand(hidden.shape[0], 1, -1)
        hidden = self.norm_before(torch.cat([first, hidden], dim=1) + self.positions)
        hidden = self.encoder(hidden)
        return self.norm_after(hidden[:, 0]) @ self.projection


class TextEncoder(nn.Module):
    """Token ids (batch, length) to embeddings (batch, embedding), read at the largest token id."""

    def __init__(
        self, vocabulary: int, length: int, width: int, heads: int, layers: int, embedding: int
    ) -> None:
        super().__init__()
        self.length = length
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Parameter(torch.randn(length, width) * 0.01)
        self.encoder = _encoder(width, heads, layers)
        self.norm = nn.LayerNorm(width)
        self.projection = nn.Linear(width, embedding, bias=False)

    def causal_mask(self) -> torch.Tensor:
        """(length, length) of 0 and -inf, made on the CPU on every call."""
        return torch.full((self.length, self.length), float("-inf"), device="cpu").triu(1)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """See the class."""
        hidden = self.tokens(tokens) + self.positions
        mask = self.causal_mask().to(device=hidden.device, dtype=hidden.dtype)
        hidden = self.norm(self.encoder(hidden, mask=mask, is_causal=False))
        last = tokens.argmax(dim=-1)
        return self.projection(hidden[torch.arange(hidden.shape[0], device=last.device), last])


class Clip(nn.Module):
    """Both encoders; returns unit embeddings of image and text."""

    def __init__(self, image: ImageEncoder, text: TextEncoder) -> None:
        super().__init__()
        self.image = image
        self.text = text

    def forward(
        self, images: torch.Tensor, tokens: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """See the encoders."""
        return F.normalize(self.image(images), dim=-1), F.normalize(self.text(tokens), dim=-1)


def _build(setting: Setting) -> Case:
    pixels, patch, width, heads, layers = setting.pick((224, 16, 768, 12, 12), (32, 16, 32, 2, 2))
    vocabulary, length, text_width, text_heads = setting.pick((49408, 77, 512, 8), (100, 8, 32, 2))
    embedding = setting.pick(512, 16)
    model = Clip(
        ImageEncoder(pixels, patch, width, heads, layers, embedding),
        TextEncoder(vocabulary, length, text_width, text_heads, layers, embedding),
    )
    model = model.to(device=setting.device, dtype=setting.dtype).eval()

    def draw_batch(draw: Draw, index: int) -> Batch:
        images = draw.normal(1, 3, pixels, pixels, dtype=setting.dtype)
        return Batch(args=(images, draw.integers(0, vocabulary, 1, length)))

    return Case(model, draw_batch)


WORKLOADS = (
    Workload(
        name="multimodal_clip_inference",
        suite="TB",
        batch=1,
        build=_build,
        traits=("CPU tensors",),
    ),
)
