"""Triton kernels; needs Triton."""

import triton
import triton.language as tl


@triton.jit
def count_kernel(x, out, n, k, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n, other=0)
    tl.atomic_add(out + (v % k), 1, mask=i < n)


@triton.jit
def scale_kernel(x, y, out, n, s, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    tl.store(out + i, tl.load(x + i, mask=mask) * s + tl.load(y + i, mask=mask), mask=mask)


@triton.jit
def add_inplace_kernel(x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i, mask=i < n) + 1.0, mask=i < n)


@triton.jit
def tma_add(dx, dy, do, B: tl.constexpr):
    i, j = tl.program_id(0) * B, tl.program_id(1) * B
    do.store([i, j], dx.load([i, j]) + dy.load([i, j]))


@triton.jit
def tma_inside(x, out, M, K, B: tl.constexpr):
    i, j = tl.program_id(0) * B, tl.program_id(1) * B
    d = tl.make_tensor_descriptor(x, shape=[M, K], strides=[K, 1], block_shape=[B, B])
    o = tl.make_tensor_descriptor(out, shape=[M, K], strides=[K, 1], block_shape=[B, B])
    o.store([i, j], d.load([i, j]) * 3)


@triton.jit
def put_pointer(x, table):
    tl.store(table, x.to(tl.int64))


@triton.jit
def fill_with(x, v, flag, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(x + i, v, mask=(i < n) & (tl.load(flag) > 0))


@triton.jit
def read_through(table, out, n, B: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    source = tl.load(table).to(tl.pointer_type(tl.float32))
    tl.store(out + i, tl.load(source + (n - 1 - i), mask=i < n) * 2, mask=i < n)
