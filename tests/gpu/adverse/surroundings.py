"""What happens around and in the middle of calls: errors, modes, finalizers."""

from __future__ import annotations

import ctypes
import gc
import sys
import threading
import time
import warnings

import torch

from tests.gpu.adverse.harness import CUDA, Context, case
from tests.gpu.adverse.parts import Net, grads


@case()
def breaks_and_exceptions(c: Context) -> object:
    """Graph breaks, and exceptions from the middle of the function."""

    class Stop(Exception):
        pass

    def g(x, fail):
        y = (x * 2).sin()
        torch._dynamo.graph_break()
        if fail == 1:
            raise Stop
        y.add_(1)
        if y.sum().item() > 1e9:
            y = y * 0
        z = y @ y
        if fail == 2:
            raise KeyboardInterrupt
        return z, y

    f = c.compile(g)
    with torch.no_grad():
        for i in range(30):
            try:
                c.keep(f(c.tensor(8, 8), [0, 0, 0, 1, 0, 2][i % 6] if i > 5 else 0))
            except (Stop, KeyboardInterrupt) as error:
                c.keep(type(error).__name__)


@case()
def modes_of_the_dispatcher(c: Context) -> object:
    """A flop counter, a dispatch mode, a profiler and anomaly mode around calls."""
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils.flop_counter import FlopCounterMode

    class Count(TorchDispatchMode):
        def __init__(self):
            super().__init__()
            self.n = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.n += "mm" in str(func)
            return func(*args, **(kwargs or {}))

    m = Net(c)
    f = c.compile(m)
    with torch.no_grad():
        for i in range(20):
            x = c.tensor(8, 32)
            if i % 5 == 2:
                with FlopCounterMode(display=False) as counter:
                    y = f(x)
                c.keep(counter.get_total_flops())
            elif i % 5 == 3:
                with Count() as mode:
                    y = f(x)
                c.keep(mode.n)
            elif i % 5 == 4:
                with torch.autograd.set_detect_anomaly(True), torch.profiler.profile():
                    y = f(x)
            else:
                y = f(x)
            c.keep(y)


@case()
def sync_is_an_error(c: Context) -> object:
    """Synchronizing calls are errors from the second call on, warnings are errors."""
    m = Net(c, 32, 0.2)
    f = c.compile(lambda x: m(x) * torch.sqrt(torch.tensor(float(x.shape[0]))), dynamic=True)
    found = []
    for i in range(24):
        x = c.tensor([8, 8, 8, 12][i % 4], 32)
        if CUDA and i >= 2:
            torch.cuda.set_sync_debug_mode("error" if i % 2 else "warn")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", UserWarning)
                y = f(x)
            found.append("ok")
        except Exception as error:
            found.append(type(error).__name__)
            y = None
        finally:
            if CUDA:
                torch.cuda.set_sync_debug_mode(0)
        c.keep(y)
    return found


@case()
def near_the_recursion_limit(c: Context) -> object:
    """Calls are made when few Python frames are left, for observed, captured, compared and served
    calls.
    """
    found = []
    m = Net(c)
    given = c.tensor(8, 32)

    def deep(n, f):
        return f(given) if n <= 0 else deep(n - 1, f)

    def depth():
        frame, n = sys._getframe(), 0
        while frame is not None:
            frame, n = frame.f_back, n + 1
        return n

    for margin in (400, 200, 120, 90, 70, 55, 45):
        f = c.compile(m)
        with torch.no_grad():
            f(given)
            for _ in range(6):
                found.append(
                    (margin, c.attempt(deep, sys.getrecursionlimit() - depth() - margin, f))
                )
            found.append(f(given))
        c.reset()
    return found


class Interrupt(BaseException):
    """What one thread throws into another one."""


def disturb(thread: int, stop: threading.Event) -> None:
    """Throw into a thread until it has stopped this one."""
    while not stop.is_set():
        time.sleep(0.004)
        thrown = ctypes.py_object(Interrupt)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), thrown)


@case()
def interrupts_while_graphs_are_made(c: Context) -> object:
    """An exception is thrown into the thread at any moment of its calls; then it goes on."""
    m = Net(c, 32, 0.3)
    f = c.compile(m)
    given = [c.tensor(8, 32) for _ in range(60)]
    with torch.no_grad():
        f(given[0])
    stop = threading.Event()
    t = threading.Thread(target=disturb, args=(threading.get_ident(), stop))
    try:
        t.start()
        for i in range(400):
            try:
                with torch.no_grad():
                    f(given[i % 60])
            except Interrupt:
                continue
    except Interrupt:
        pass
    finally:
        while True:
            try:
                stop.set()
                t.join()
                for _ in range(1000):
                    pass
                break
            except Interrupt:
                continue
    torch.manual_seed(3)
    with torch.no_grad():
        for i in range(20):
            c.keep(f(given[i]))


@case()
def finalizers_call_compiled_code(c: Context) -> object:
    """Finalizers and garbage collection in the middle of calls call the same compiled code."""
    m = Net(c)
    f = c.compile(m)
    given, seen = [c.tensor(8, 32) for _ in range(200)], []

    class Last:
        def __init__(self, k):
            self.k, self.me = k, self

        def __del__(self):
            if seen_on[0]:
                with torch.no_grad():
                    seen.append((self.k, f(given[100 + self.k])))

    seen_on = [True]
    old = gc.get_threshold()
    gc.set_threshold(20, 2, 2)
    try:
        with torch.no_grad():
            for i in range(40):
                Last(i)
                c.keep(f(given[i]))
            gc.collect()
    finally:
        gc.set_threshold(*old)
        seen_on[0] = False
    return [r for _, r in sorted(seen, key=lambda p: p[0])]


@case()
def reset_in_the_middle(c: Context) -> object:
    """c.reset() between forward and backward, and inside of a hook."""
    m = Net(c)
    f = c.compile(m)
    for i in range(24):
        x = c.tensor(8, 32).requires_grad_()
        y = f(x)
        if i == 7:
            c.reset()
        if i == 15:
            y.register_hook(lambda g: (c.reset(), g)[1])
        y.sin().sum().backward()
        c.keep(y, x.grad, grads(m))
        m.zero_grad()
