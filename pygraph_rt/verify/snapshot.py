"""Copies of what a call may write to, kept while the call is made on the caller's own tensors."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

import torch

from pygraph_rt.memory.pool import whole
from pygraph_rt.plan.memory_blocks import ALIGNMENT
from pygraph_rt.verify.bits import Fingerprints, is_dense, same_bits

_HOST = torch.device("cpu")
# The part of the CPU's memory that copies may take, for a moment: one in so many.
_HOST_SHARE = 16
# Memory of this size and more is worth a way to the CPU and back.
_LARGE = 1 << 20
_CONTAINER = Path("/sys/fs/cgroup/memory.max")


def _room(nbytes: int, device: torch.device) -> torch.Tensor:
    """Memory of so many bytes. The CPU's is touched by many threads first: a copy from a GPU would
    wait for each page.
    """
    room = torch.empty(nbytes, dtype=torch.uint8, device=device)
    return room.fill_(0) if device == _HOST else room


def _clone_storage(source: torch.UntypedStorage, device: torch.device) -> torch.Tensor:
    """A copy of a storage's bytes on a device, whose address leaves the same residue: kernels were
    chosen by it.
    """
    nbytes = source.nbytes()
    room = _room(nbytes + ALIGNMENT, device)
    start = (source.data_ptr() - room.data_ptr()) % ALIGNMENT
    return room[start : start + nbytes].copy_(whole(source))


def _rebuild(tensor: torch.Tensor, copy: torch.Tensor) -> torch.Tensor:
    item = tensor.element_size()
    nbytes = copy.numel() // item * item
    typed = copy[:nbytes].view(tensor.dtype)
    offset = typed.storage_offset() + tensor.storage_offset()
    return torch.as_strided(typed, tensor.shape, tensor.stride(), offset)


def _addresses(args: Sequence[Any], positions: Iterable[int]) -> set[int]:
    """Where the storages of the tensors at these positions begin, of those with elements."""
    return {
        args[i].untyped_storage().data_ptr()
        for i in positions
        if isinstance(args[i], torch.Tensor) and args[i].numel()
    }


def _within(args: Sequence[Any], addresses: set[int]) -> list[int]:
    """Positions of the tensors with elements in these storages."""
    return [i for i in range(len(args)) if _addresses(args, (i,)) & addresses]


def with_copies(
    args: Sequence[Any], written: Iterable[int], device: torch.device | None = None
) -> list[Any]:
    """The arguments with every tensor at `written` replaced by a copy, on another device if one is
    given; tensors that share memory keep sharing it.
    """
    copies: dict[int, torch.Tensor] = {}
    result = list(args)
    for i in _within(args, _addresses(args, written)):
        storage = args[i].untyped_storage()
        if storage.data_ptr() not in copies:
            copies[storage.data_ptr()] = _clone_storage(storage, device or args[i].device)
        result[i] = _rebuild(args[i], copies[storage.data_ptr()])
    return result


def few_bytes(tensors: Iterable[Any]) -> bool:
    """Whether copies of these tensors' memory are small beside the CPU's memory; several processes
    of one machine may make some at the same time.
    """
    found = [t.untyped_storage() for t in tensors if isinstance(t, torch.Tensor)]
    nbytes: int = sum({s.data_ptr(): s.nbytes() for s in found}.values())
    said = os.environ.get("LOCAL_WORLD_SIZE", "")
    processes = int(said) if said.isdecimal() else 1
    return nbytes * max(_HOST_SHARE, _HOST_SHARE * processes // 2) <= _memory()


def _memory() -> int:
    """Bytes of memory that the CPU has, or that a container leaves of it; 0 where nothing says."""
    try:
        most = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 0
    try:
        return min(most, int(_CONTAINER.read_text()))
    except (OSError, ValueError):  # no container, or one without a limit
        return most


def _restore(tensor: torch.Tensor, copy: torch.Tensor) -> None:
    """Fill a tensor's storage with the bytes that `with_copies` took of it for `copy`."""
    target = whole(tensor.untyped_storage())
    start = (copy.storage_offset() - tensor.storage_offset()) * copy.element_size()
    target.copy_(whole(copy.untyped_storage())[start : start + target.numel()])


class Kept:
    """A call's arguments as they were before it, with copies of what it may write to.

    The copies are in the CPU's memory where that is large enough (`on_host`). Of what somebody sees
    after the call, the originals are held too.
    """

    def __init__(
        self, args: Sequence[Any], written: frozenset[int], scratch: frozenset[int]
    ) -> None:
        """`scratch` are those of `written` whose contents nobody reads after the call; nothing is
        held of them but the copies. Raises OutOfMemoryError.
        """
        touched = _addresses(args, written)
        seen = _addresses(args, (i for i in range(len(args)) if i not in scratch))
        self._copied = _within(args, touched)
        self._originals = {i: args[i] for i in _within(args, touched & seen)}
        self._device = args[self._copied[0]].device if self._copied else None
        self.on_host = few_bytes(args[i] for i in written)
        self.tensors = with_copies(args, written, _HOST if self.on_host else None)

    def nbytes(self) -> int:
        """Bytes of one set of copies."""
        found = [self.tensors[i].untyped_storage() for i in self._copied]
        return sum({s.data_ptr(): s.nbytes() for s in found}.values())

    def again(self) -> list[Any]:
        """One more set of them, where the call's own were."""
        return with_copies(self.tensors, self._copied, self._device)

    def held(self) -> list[Any]:
        """The call's own arguments that are held."""
        return [*self.tensors, *self._originals.values()]

    def release(self) -> None:
        """Let go of everything."""
        self.tensors, self._originals = [], {}

    def put_back(self, args: list[Any]) -> None:
        """Undo a call that has failed, and fill `args`, which it has emptied, so that it can be
        made again. Nothing else is held afterwards. May raise OutOfMemoryError; then it can be
        tried again.
        """
        done: set[int] = set()
        for i, tensor in self._originals.items():
            address = tensor.untyped_storage().data_ptr()
            if address not in done:
                done.add(address)
                _restore(tensor, self.tensors[i])
        found = [self._originals.get(i, value) for i, value in enumerate(self.tensors)]
        lost = [i for i in self._copied if i not in self._originals]
        given = with_copies(found, lost, self._device) if self.on_host else found
        self.release()
        args[:] = given


def free_below_peak(device: int) -> int:
    """Bytes that may be allocated until torch has had as many as ever on a GPU."""
    return torch.cuda.max_memory_allocated(device) - torch.cuda.memory_allocated(device)


class Aside:
    """Results whose memory is given back for a while.

    Where the same results are expected again, only their fingerprints are kept: nothing has to be
    moved. Otherwise their bytes wait in the CPU's memory.
    """

    def __init__(
        self, own: Collection[int] = (), beside: int = 0, expected_again: bool = False
    ) -> None:
        """`own`: numbers of the results in memory that nobody else has. `beside`: the same results
        need so many bytes more for a moment.
        """
        self._own = own
        self._beside = beside
        self._expected_again = expected_again
        self._waiting: dict[int, tuple[torch.UntypedStorage, torch.Tensor]] = {}
        self._fingerprints: Fingerprints | None = None
        self._found: dict[int, torch.Tensor] = {}

    def take(self, results: Sequence[Any], held: Iterable[Any], more: int = 0) -> None:
        """Set aside what is large of the own results, and not in the memory of what is `held`.
        Nothing is done where the same results and `more` bytes have room beside them, below the
        program's own peak, and nothing is moved where the CPU has too little memory.
        """
        stay = {t.untyped_storage()._cdata for t in held if _is_tensor(t)}
        storages = [t.untyped_storage() for i, t in enumerate(results) if i in self._own]
        large = {
            s._cdata: s
            for s in storages
            if s._cdata not in stay and s.nbytes() >= _LARGE and s.resizable()
        }
        needed = self._beside + more + sum(s.nbytes() for s in large.values())
        if not large or _has_room(next(iter(large.values())).device, needed):
            return
        if self._expected_again:
            self._forget(results, large)
        elif few_bytes(results):
            self._move(large)

    def _forget(self, results: Sequence[Any], large: dict[int, torch.UntypedStorage]) -> None:
        inside = [t for t in results if _is_tensor(t) and t.untyped_storage()._cdata in large]
        with_gaps = {
            key: large[key]
            for tensor in inside
            if not is_dense(tensor) and (key := tensor.untyped_storage()._cdata) in large
        }
        dense = [t for t in inside if t.untyped_storage()._cdata not in with_gaps]
        if with_gaps and few_bytes(results):
            self._move(with_gaps)
        if dense:
            self._fingerprints = Fingerprints(dense[0].device)
            self._found = {id(t): self._fingerprints.of(t) for t in dense}
        for key, storage in large.items():
            if key not in with_gaps:
                _give_back(storage)

    def _move(self, large: dict[int, torch.UntypedStorage]) -> None:
        for key, storage in large.items():
            copy = _room(storage.nbytes(), _HOST).copy_(whole(storage))
            self._waiting[key] = (storage, copy)
            _give_back(storage)

    def has(self, result: Any) -> bool:
        """Whether a result is set aside."""
        return self.has_only_fingerprint(result) or self._is_on_host(result)

    def has_only_fingerprint(self, result: Any) -> bool:
        """Whether only a result's fingerprint is left."""
        return id(result) in self._found

    def _is_on_host(self, result: Any) -> bool:
        return _is_tensor(result) and result.untyped_storage()._cdata in self._waiting

    def same(self, result: Any, other: Any) -> bool:
        """Whether a result is equal to another one bit for bit."""
        if not self.has_only_fingerprint(result):
            return same_bits(self.read(result), other)
        assert self._fingerprints is not None
        return self._fingerprints.same(self._found[id(result)], result, other)

    def read(self, result: Any) -> Any:
        """A result, or one like it in the CPU's memory where it is there."""
        if not self._is_on_host(result):
            return result
        return _rebuild(result, self._waiting[result.untyped_storage()._cdata][1])

    def give_up(self) -> None:
        """What is set aside gets its memory never again: others have taken its place."""
        self._waiting, self._found = {}, {}

    @property
    def lost(self) -> bool:
        """Whether there are results that are nowhere else."""
        return bool(self._found)

    def put_back(self) -> bool:
        """Give all results their memory again; whether they are there."""
        try:
            for storage, copy in self._waiting.values():
                storage.resize_(copy.numel())
                whole(storage).copy_(copy)
        except torch.OutOfMemoryError:
            return False
        finally:
            self._waiting = {}
        return not self.lost


def _give_back(storage: torch.UntypedStorage) -> None:
    """Give a storage's memory back. The graph may get it for the same results: they must not be
    there already.
    """
    whole(storage).fill_(255)
    storage.resize_(0)


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def _has_room(device: torch.device, nbytes: int) -> bool:
    return device.type == "cuda" and free_below_peak(device.index) >= nbytes
