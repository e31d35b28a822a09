"""Where memory comes from, and how much there is."""

from __future__ import annotations

import ctypes
import gc

import torch
import torch.nn.functional as F

from tests.gpu.adverse.harness import CUDA, DEVICE, Context, Skip, case
from tests.gpu.adverse.parts import N, Net, opaque, step


class External:
    """Memory that torch did not allocate."""

    def __init__(self, n: int, managed: bool = False) -> None:
        lib = ctypes.CDLL(f"libcudart.so.{torch.version.cuda.partition('.')[0]}")
        self.ptr = ctypes.c_void_p()
        place, size = ctypes.byref(self.ptr), ctypes.c_size_t(4 * n)
        rc = lib.cudaMallocManaged(place, size, 1) if managed else lib.cudaMalloc(place, size)
        if rc:
            raise Skip(f"cudaMalloc gave {rc}")
        data = {"typestr": "<f4", "data": (self.ptr.value, False), "version": 3}
        self.__cuda_array_interface__ = {"shape": (n,), **data}


@case(env={"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"})
def env_no_caching(c: Context) -> object:
    """Without the caching allocator."""
    m = Net(c)
    f = c.compile(m)
    for _ in range(10):
        x = c.tensor(8, 32).requires_grad_()
        step(c, f, m, x)


@case(
    env={
        "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True,garbage_collection_threshold:0.5,"
        "roundup_power2_divisions:4"
    }
)
def env_expandable(c: Context) -> object:
    """Expandable segments, rounding, collection, and empty_cache in each step."""
    m = Net(c, 64, 0.3)
    f = c.compile(m)
    opt = torch.optim.SGD(m.parameters(), lr=1e-4)
    for _ in range(N):
        y = f(c.tensor(256, 64))
        y.sin().sum().backward()
        opt.step(), opt.zero_grad()
        c.keep(y)
        if CUDA:
            torch.cuda.empty_cache()
    return [p.detach() for p in m.parameters()]


@case(env={"CUDA_LAUNCH_BLOCKING": "1", "CUBLAS_WORKSPACE_CONFIG": ":16:8"})
def env_blocking(c: Context) -> object:
    """CUDA_LAUNCH_BLOCKING and a cuBLAS workspace of another size, deterministic algorithms on and
    off.
    """
    m = Net(c, 64)
    f = c.compile(m)
    for i in range(N):
        torch.use_deterministic_algorithms(i // 6 % 2 == 1)
        x = c.tensor(64, 64).requires_grad_()
        y = f(x)
        y.sin().sum().backward()
        c.keep(y, x.grad)
    torch.use_deterministic_algorithms(False)


@case(cuda=True)
def out_of_memory_while_served(c: Context) -> object:
    """A served call finds no memory; afterwards there is some again. Random numbers go on."""
    f = c.compile(lambda x: (F.dropout(x, 0.5) @ x.t()).softmax(-1))
    x = c.tensor(2048, 2048)
    total = torch.cuda.get_device_properties(0).total_memory
    with torch.no_grad():
        for i in range(18):
            if i in (6, 7, 12):
                torch.cuda.empty_cache()
                torch.cuda.set_per_process_memory_fraction(
                    min(1.0, (torch.cuda.memory_reserved() + (64 << 10)) / total)
                )
                before = torch.cuda.get_rng_state()
                r = c.attempt(f, x)
                c.keep(r if isinstance(r, str) else "fits")
                torch.cuda.set_per_process_memory_fraction(1.0)
                torch.cuda.set_rng_state(before)
                continue
            c.keep(f(x)[:2].clone())


@case(cuda=True)
def user_mempool_deleted(c: Context) -> object:
    """Served calls inside a pool of the caller's, which is then deleted and its memory taken by
    others.
    """
    m = Net(c, 64)
    f = c.compile(m)
    with torch.no_grad():
        for _ in range(8):
            c.keep(f(c.tensor(64, 64)))
        for _round in range(3):
            pool = torch.cuda.MemPool()
            with torch.cuda.use_mem_pool(pool):
                for _ in range(4):
                    c.note(f(c.tensor(64, 64)))
            gc.collect()
            del pool
            torch.cuda.empty_cache()
            _junk = [torch.full((1 << 18,), float("nan"), device=DEVICE) for _ in range(8)]
            for _ in range(4):
                c.keep(f(c.tensor(64, 64)))
            del _junk


@case(cuda=True)
def memory_history(c: Context) -> object:
    """The caller starts and stops a memory history between calls."""
    f = c.compile(Net(c, 64))
    with torch.no_grad():
        for i in range(N):
            if i in (1, 9):
                torch.cuda.memory._record_memory_history(max_entries=1000)
            if i in (5, 15):
                snapshot = torch.cuda.memory._snapshot()
                c.keep(len(snapshot["device_traces"]), bool(snapshot["device_traces"][0]))
                torch.cuda.memory._record_memory_history(enabled=None)
            c.keep(f(c.tensor(32, 64)))


@case(cuda=True)
def memory_that_is_not_torchs(c: Context) -> object:
    """Inputs and weights in memory of the driver's, managed memory, torch's, in turn; copied by an
    operator.
    """
    name = opaque("copied")

    @torch.library.custom_op(name, mutates_args=("y",))
    def copied(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        y.zero_()
        return x.clone()

    copied.register_fake(lambda x, y: torch.empty_like(x))
    f = c.compile(lambda x, y: (copied(x, y) * 2 + y, x.cumsum(0)))
    try:
        holders = [External(4096), External(4096, True), External(8192)]
    except OSError as error:
        raise Skip(str(error)) from None
    kinds = [c.tensor(4096), *[torch.as_tensor(h, device=DEVICE) for h in holders]]
    with torch.no_grad():
        for i in range(36):
            x = kinds[0 if i < 8 else i % 4][:4096]
            y = kinds[0 if i < 12 else (i // 4) % 4][-4096:].view(-1)
            if x.data_ptr() == y.data_ptr():
                y = c.tensor(4096)
            x.copy_(c.tensor(4096))
            c.keep(f(x, y), y)
