"""Addresses for tensors that nothing will read or write.

A capture executes nothing, so the tensors given to it need addresses, not memory. Each one gets
an address range of its own in reserved address space, and all pages of it map the same small piece
of physical memory: valid addresses for gigabytes of inputs cost 2 to 32 MiB while a capture lasts.
Gaps between ranges catch pointers just before or past a tensor.

While a captured graph is tried out, the piece is filled with 0xFF: a pointer that was not patched
reads NaN, or leaves a trace when it writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch

from pygraph_rt.capture.address_words import SMALL
from pygraph_rt.cuda.driver import ABOVE_4_GIB, Driver
from pygraph_rt.plan.memory_blocks import ALIGNMENT, Block, Range, aligned

# Each page costs tens of microseconds to map and to unmap, and the physical piece is one page: up
# to so many pages are mapped before the next size is taken, up to so many times the smallest.
_PAGES = 64
_LARGEST_PAGE = 16
_GAP = 64 << 10
_WINDOW = 4 << 30


class Request(NamedTuple):
    """A block of `nbytes` whose address must leave `residue` when divided by ALIGNMENT."""

    block: Block
    nbytes: int
    residue: int


def layout(requests: Sequence[Request]) -> tuple[list[Range], int]:
    """Ranges from address 0, a gap before and after each, and the bytes they span in all.

    Where they are then put so far above a multiple of 4 GiB as `Driver.reserve` asks for, no range
    of less than that holds an address that padding beside a small number looks like.
    """
    ranges: list[Range] = []
    cursor = 0
    for block, nbytes, residue in requests:
        size = aligned(residue + max(nbytes, 1)) + 2 * _GAP
        cursor = _past_small_numbers(cursor, size)
        ranges.append(Range(cursor + _GAP + residue, nbytes, block, _GAP, _GAP - ALIGNMENT))
        cursor += size
    return ranges, cursor


def _past_small_numbers(start: int, size: int) -> int:
    """Where to put so many bytes, from `start` on."""
    multiple = (start + ABOVE_4_GIB) // _WINDOW * _WINDOW - ABOVE_4_GIB
    if start >= multiple + SMALL:
        multiple += _WINDOW
    fits = size + SMALL <= _WINDOW
    return multiple + SMALL if start + size > multiple and fits else start


def page_size(span: int, granularity: int) -> int:
    """Bytes of the pages that map `span` bytes: a multiple of `granularity`."""
    times = 1
    while times < _LARGEST_PAGE and span > _PAGES * times * granularity:
        times *= 2
    return times * granularity


class Placeholders:
    """One capture's placeholder addresses. `close` gives the address space back."""

    def __init__(self, driver: Driver, device: int, requests: Sequence[Request]) -> None:
        self._driver = driver
        self._device = device
        relative, size = layout(requests)
        self._page = page_size(size, driver.allocation_granularity(device))
        self._span = aligned(size, self._page)
        self._handle = driver.create_memory(self._page, device)
        self._mapped = 0
        self._base = 0
        try:
            self._base = driver.reserve(self._span, self._page)
            for start in range(0, self._span, self._page):
                driver.map_memory(self._base + start, self._page, self._handle)
                self._mapped = start + self._page
            driver.allow_access(self._base, self._span, device)
        except BaseException:
            self.close()
            raise
        self.ranges = [r._replace(base=r.base + self._base) for r in relative]
        self._range_of = {r.block: r for r in self.ranges}

    def tensor(
        self, block: Block, size: Sequence[int], stride: Sequence[int], dtype: torch.dtype
    ) -> torch.Tensor:
        """A tensor at the block's address. It must not outlive `close`."""
        found = self._range_of[block]
        return tensor_at(found.base, found.size, size, stride, dtype, self._device)

    def physical(self) -> torch.Tensor:
        """The shared memory behind all ranges, as bytes."""
        return tensor_at(self._base, self._page, (self._page,), (1,), torch.uint8, self._device)

    def close(self) -> None:
        """Unmap and free everything; later calls do nothing."""
        if self._mapped:
            self._driver.unmap(self._base, self._mapped)
            self._mapped = 0
        if self._base:
            self._driver.free_reservation(self._base, self._span)
            self._base = 0
        if self._handle:
            self._driver.release_memory(self._handle)
            self._handle = 0


def tensor_at(
    address: int,
    nbytes: int,
    size: Sequence[int],
    stride: Sequence[int],
    dtype: torch.dtype,
    device: int,
) -> torch.Tensor:
    """A tensor over memory that it does not own."""
    place = torch.device("cuda", device)
    storage = torch._C._construct_storage_from_data_pointer(address, place, nbytes)
    empty = torch.empty((0,), dtype=dtype, device=place)
    return empty.set_(storage, 0, tuple(size), tuple(stride))
