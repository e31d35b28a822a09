"""Results compared bit for bit, at once or by what is left of them when their memory is needed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_PIECE = 1 << 20  # numbers that are compared at a time
_SEED = 20261128


def same_bits(a: Any, b: Any) -> bool:
    """Whether two results are equal bit for bit, with NaN equal to itself, wherever they are."""
    if not isinstance(a, torch.Tensor):
        return bool(a == b)  # pygraph: ignore[PG701] no tensors
    if not _alike(a, b):
        return False
    # A comparison needs the answer on the host.
    return all(torch.equal(x, y) for x, y in pieces(bits(a), bits(b)))


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """Its bits as integers; two for each complex number."""
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    if tensor.dtype is torch.bool:
        return tensor
    return tensor.view(_INTEGERS[tensor.element_size()])


def pieces(a: torch.Tensor, b: torch.Tensor) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """The numbers of two tensors of one shape, some at a time, where the second one is: what is
    computed of all at once may take several times their memory.
    """
    if a.stride() == b.stride() and is_dense(a):
        a, b = _in_memory_order(a), _in_memory_order(b)
    parts = torch.split(a.reshape(-1), _PIECE), torch.split(b.reshape(-1), _PIECE)
    for left, right in zip(*parts, strict=True):
        yield left.to(right.device), right


def is_dense(tensor: torch.Tensor) -> bool:
    """Whether its numbers lie side by side in memory, in any order, each once."""
    expected = 1
    for step, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size != 1:
            if step != expected:
                return False
            expected *= size
    return True


def _in_memory_order(dense: torch.Tensor) -> torch.Tensor:
    return dense.as_strided((dense.numel(),), (1,))


def _alike(a: torch.Tensor, b: Any) -> bool:
    """Whether a second result has the first one's kind of memory."""
    return bool(a.shape == b.shape and a.dtype == b.dtype and a.stride() == b.stride())


class Fingerprints:
    """Sums of random multiples of a dense tensor's bits, 128 bits for each piece of it.

    Two tensors that differ have the same one by chance, once in 2**64 or less.
    """

    def __init__(self, device: torch.device) -> None:
        # torch's own generators stay as they are.
        generator = torch.Generator(device).manual_seed(_SEED)
        low, high, size = -(1 << 63), (1 << 63) - 1, (_PIECE + 1,)
        self._factors = torch.randint(low, high, size, device=device, generator=generator)

    def of(self, tensor: torch.Tensor) -> torch.Tensor:
        """A tensor's, int64 of shape (pieces, 2)."""
        words = _in_memory_order(bits(tensor))
        if words.element_size() == 8:  # a product keeps little of the highest bits
            words = words.view(torch.int32)
        parts = torch.split(words, _PIECE)
        found = torch.empty((len(parts), 2), dtype=torch.int64, device=words.device)
        for part, sums in zip(parts, found, strict=True):
            for start, total in enumerate(sums):
                factors = self._factors[start : start + part.numel()]
                torch.sum(factors * part, 0, out=total)
        return found

    def same(self, found: torch.Tensor, like: torch.Tensor, other: Any) -> bool:
        """Whether a result has the bits that were `found` of one `like` it."""
        # A comparison needs the answer on the host.
        return _alike(like, other) and torch.equal(found, self.of(other))
