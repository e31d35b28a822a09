"""The callables that pages list by name: torch.compile breaks at each of them, and at nothing else.

One program a page: every line is a call, and Dynamo has to report every line.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from pygraph_lint.rules import catalogue
from tests.rules.examples import Example, load
from tests.rules.observe import Observed, observe

RULES = catalogue.load()
HEAD = """
import base64, bisect, concurrent.futures, contextvars, copy, datetime, decimal, gc, glob, hashlib
import heapq, importlib, inspect, io, json, logging, multiprocessing, os, pickle, pprint, random
import secrets, shutil
import statistics, subprocess, sys, tempfile, threading, time, types, uuid, warnings, zlib
import networkx, numpy, torch

VARIABLE = contextvars.ContextVar("variable", default=1)
INDEX, VALUE = torch.tensor([[0, 1], [1, 0]]), torch.ones(2)
STARTS, ENDS = torch.tensor([0, 1, 2]), torch.tensor([1, 0])
SPARSE, ROWS = torch.eye(4).to_sparse(), torch.eye(4).to_sparse_csr()
FILE, ARRAY = os.devnull, numpy.array([0.0, 1.0, 2.0])


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(4))

    def forward(self, x):
        y = x * self.weight
"""
TAIL = """
        return y * 2


def inputs():
    return (torch.rand(4, 4) + torch.eye(4),)
"""

# A call of each callable that a page lists, as a statement.
BREAKS: dict[str, dict[str, str]] = {
    "PG303": {
        "torch._check_tensor_all": "torch._check_tensor_all(y > -9)",
        "torch._check_tensor_all_with": "torch._check_tensor_all_with(ValueError, y > -9)",
    },
    "PG408": {
        "torch.corrcoef": "torch.corrcoef(y)",
        "torch.cov": "torch.cov(y)",
        "torch.linalg.lstsq": "torch.linalg.lstsq(y, y)",
        "torch.nn.functional.gaussian_nll_loss": (
            "torch.nn.functional.gaussian_nll_loss(y, y, y * y)"
        ),
    },
    "PG501": {
        "print": "print(end='')",
        "pprint.pprint": "pprint.pprint('', stream=open(FILE, 'w'))",
        "sys.stdout.write": "sys.stdout.write('')",
        "sys.stderr.write": "sys.stderr.write('')",
        "sys.stdout.flush": "sys.stdout.flush()",
        "sys.stderr.flush": "sys.stderr.flush()",
    },
    "PG502": {
        "logging.critical": "logging.critical('')",
        "logging.debug": "logging.debug('')",
        "logging.error": "logging.error('')",
        "logging.exception": "logging.exception('')",
        "logging.getLogger": "logging.getLogger('a')",
        "logging.info": "logging.info('')",
        "logging.log": "logging.log(10, '')",
        "logging.warning": "logging.warning('')",
    },
    "PG503": {
        "warnings.warn": "warnings.warn('')",
        "warnings.warn_explicit": "warnings.warn_explicit('', UserWarning, 'a', 1)",
        "warnings.simplefilter": "warnings.simplefilter('ignore')",
        "warnings.filterwarnings": "warnings.filterwarnings('ignore')",
    },
    "PG504": {
        "random.betavariate": "random.betavariate(1, 2)",
        "random.choice": "random.choice([1, 2])",
        "random.choices": "random.choices([1, 2])",
        "random.expovariate": "random.expovariate(1.0)",
        "random.gauss": "random.gauss(0, 1)",
        "random.getrandbits": "random.getrandbits(3)",
        "random.getstate": "random.getstate()",
        "random.lognormvariate": "random.lognormvariate(0, 1)",
        "random.normalvariate": "random.normalvariate(0, 1)",
        "random.randbytes": "random.randbytes(2)",
        "random.random": "random.random()",
        "random.sample": "random.sample([1, 2], 1)",
        "random.seed": "random.seed(0)",
        "random.setstate": "random.setstate(random.getstate())",
        "random.shuffle": "random.shuffle([1, 2])",
        "random.triangular": "random.triangular()",
        "secrets.*": "secrets.randbelow(3)",
    },
    "PG505": {
        "time.*": "time.monotonic_ns()",
        "datetime.datetime.now": "datetime.datetime.now()",
        "datetime.datetime.utcnow": "datetime.datetime.utcnow()",
        "datetime.datetime.today": "datetime.datetime.today()",
        "datetime.date.today": "datetime.date.today()",
    },
    "PG506": {
        "torch.manual_seed": "torch.manual_seed(0)",
        "torch.initial_seed": "torch.initial_seed()",
        "torch.get_rng_state": "torch.get_rng_state()",
        "torch.set_rng_state": "torch.set_rng_state(torch.get_rng_state())",
        "torch.random.manual_seed": "torch.random.manual_seed(0)",
        "torch.random.initial_seed": "torch.random.initial_seed()",
        "torch.random.get_rng_state": "torch.random.get_rng_state()",
        "torch.random.set_rng_state": "torch.random.set_rng_state(torch.get_rng_state())",
        "torch.random.fork_rng": "torch.random.fork_rng().__enter__()",
        "torch.cuda.manual_seed": "torch.cuda.manual_seed(0)",
        "torch.cuda.manual_seed_all": "torch.cuda.manual_seed_all(0)",
    },
    "PG507": {
        "exec": "exec('pass')",
        "compile": "compile('1', 'a', 'eval')",
        "property": "property(len)",
        "bytearray": "bytearray(3)",
        "memoryview": "memoryview(b'1')",
        "globals": "globals()",
        "torch.nn.utils.rnn.pack_sequence": "torch.nn.utils.rnn.pack_sequence([x])",
        "numpy.asfortranarray": "numpy.asfortranarray(ARRAY)",
        "numpy.add.*": "numpy.add.reduce(ARRAY)",
        "numpy.divide.*": "numpy.divide.outer(ARRAY, ARRAY)",
        "numpy.logical_and.*": "numpy.logical_and.reduce(ARRAY)",
        "numpy.logical_or.*": "numpy.logical_or.accumulate(ARRAY)",
        "numpy.maximum.*": "numpy.maximum.accumulate(ARRAY)",
        "numpy.minimum.*": "numpy.minimum.reduceat(ARRAY, [0])",
        "numpy.multiply.*": "numpy.multiply.outer(ARRAY, ARRAY)",
        "numpy.subtract.*": "numpy.subtract.at(ARRAY, [0], 1)",
        "numpy.allclose": "numpy.allclose(ARRAY, ARRAY)",
        "numpy.argwhere": "numpy.argwhere(ARRAY)",
        "numpy.array_equal": "numpy.array_equal(ARRAY, ARRAY)",
        "numpy.bincount": "numpy.bincount([1, 2])",
        "numpy.corrcoef": "numpy.corrcoef(ARRAY, ARRAY)",
        "numpy.cov": "numpy.cov(ARRAY)",
        "numpy.datetime64": "numpy.datetime64('2020')",
        "numpy.errstate": "numpy.errstate(all='ignore')",
        "numpy.flatnonzero": "numpy.flatnonzero(ARRAY)",
        "numpy.frombuffer": "numpy.frombuffer(b'ab', dtype=numpy.uint8)",
        "numpy.iscomplexobj": "numpy.iscomplexobj(1.0)",
        "numpy.isin": "numpy.isin(ARRAY, ARRAY)",
        "numpy.isscalar": "numpy.isscalar(1.0)",
        "numpy.ndim": "numpy.ndim(1.0)",
        "numpy.nonzero": "numpy.nonzero(ARRAY)",
        "numpy.set_printoptions": "numpy.set_printoptions(precision=3)",
        "numpy.seterr": "numpy.seterr(all='ignore')",
        "numpy.size": "numpy.size(ARRAY)",
        "numpy.unique": "numpy.unique(ARRAY)",
        "numpy.vectorize": "numpy.vectorize(float)",
        "decimal.Decimal": "decimal.Decimal(1)",
        "statistics.mean": "statistics.mean([1, 2])",
        "types.SimpleNamespace": "types.SimpleNamespace(a=1)",
        "importlib.import_module": "importlib.import_module('math')",
        "torch.can_cast": "torch.can_cast(y.dtype, y.dtype)",
        "torch.is_inference_mode_enabled": "torch.is_inference_mode_enabled()",
        "torch.result_type": "torch.result_type(y, y)",
        "torch.func.linearize": "torch.func.linearize(torch.sin, x)",
        "numpy.apply_along_axis": "numpy.apply_along_axis(numpy.sum, 0, ARRAY)",
        "numpy.argpartition": "numpy.argpartition(ARRAY, 1)",
        "numpy.delete": "numpy.delete(ARRAY, 0)",
        "numpy.digitize": "numpy.digitize(ARRAY, ARRAY)",
        "numpy.fromfunction": "numpy.fromfunction(lambda i: i, (2,))",
        "numpy.fromiter": "numpy.fromiter([1.0], float)",
        "numpy.insert": "numpy.insert(ARRAY, 0, 1)",
        "numpy.interp": "numpy.interp(0.5, ARRAY, ARRAY)",
        "numpy.intersect1d": "numpy.intersect1d(ARRAY, ARRAY)",
        "numpy.lexsort": "numpy.lexsort((ARRAY,))",
        "numpy.nanargmax": "numpy.nanargmax(ARRAY)",
        "numpy.nanargmin": "numpy.nanargmin(ARRAY)",
        "numpy.nanmax": "numpy.nanmax(ARRAY)",
        "numpy.nanmean": "numpy.nanmean(ARRAY)",
        "numpy.nanmedian": "numpy.nanmedian(ARRAY)",
        "numpy.nanmin": "numpy.nanmin(ARRAY)",
        "numpy.nanpercentile": "numpy.nanpercentile(ARRAY, 5)",
        "numpy.nanquantile": "numpy.nanquantile(ARRAY, 0.5)",
        "numpy.nanstd": "numpy.nanstd(ARRAY)",
        "numpy.nansum": "numpy.nansum(ARRAY)",
        "numpy.nanvar": "numpy.nanvar(ARRAY)",
        "numpy.partition": "numpy.partition(ARRAY, 1)",
        "numpy.piecewise": "numpy.piecewise(ARRAY, [ARRAY > 1], [1.0, 0.0])",
        "numpy.poly": "numpy.poly(ARRAY)",
        "numpy.polyfit": "numpy.polyfit(ARRAY, ARRAY, 1)",
        "numpy.polynomial.*": "numpy.polynomial.legendre.leggauss(2)",
        "numpy.polyval": "numpy.polyval(ARRAY, 1.0)",
        "numpy.ravel_multi_index": "numpy.ravel_multi_index((1, 1), (2, 2))",
        "numpy.roots": "numpy.roots(ARRAY)",
        "numpy.select": "numpy.select([ARRAY > 1], [ARRAY])",
        "numpy.setdiff1d": "numpy.setdiff1d(ARRAY, ARRAY)",
        "numpy.trapezoid": "numpy.trapezoid(ARRAY)",
        "numpy.union1d": "numpy.union1d(ARRAY, ARRAY)",
        "numpy.unravel_index": "numpy.unravel_index(1, (2, 2))",
        "networkx.*": "networkx.Graph()",
        "open": "open(FILE)",
        "gc.collect": "gc.collect(0)",
        "gc.disable": "gc.disable()",
        "gc.enable": "gc.enable()",
        "subprocess.*": "subprocess.run(['true'])",
        "pickle.*": "pickle.dumps(1)",
        "json.*": "json.dumps({'a': 1})",
        "inspect.currentframe": "inspect.currentframe()",
        "inspect.getsource": "inspect.getsource(torch.optim.SGD)",
        "os.path.abspath": "os.path.abspath('a')",
        "inspect.stack": "inspect.stack(0)",
        "os.makedirs": "os.makedirs('/', exist_ok=True)",
        "os.listdir": "os.listdir()",
        "os.getcwd": "os.getcwd()",
        "os.getpid": "os.getpid()",
        "os.path.exists": "os.path.exists(FILE)",
        "os.path.getsize": "os.path.getsize(FILE)",
        "os.path.isdir": "os.path.isdir(FILE)",
        "os.path.isfile": "os.path.isfile(FILE)",
        "os.system": "os.system('true')",
        "shutil.*": "shutil.which('true')",
        "numpy.save": "numpy.save(io.BytesIO(), numpy.ones(1))",
        "numpy.savez": "numpy.savez(io.BytesIO(), numpy.ones(1))",
        "torch.save": "torch.save(1, io.BytesIO())",
        "torch.set_num_threads": "torch.set_num_threads(1)",
        "torch.cuda.device_count": "torch.cuda.device_count()",
        "torch.cuda.max_memory_allocated": "torch.cuda.max_memory_allocated()",
        "torch.cuda.memory_allocated": "torch.cuda.memory_allocated()",
        "torch.cuda.memory_reserved": "torch.cuda.memory_reserved()",
        "base64.*": "base64.b64encode(b'a')",
        "bisect.*": "bisect.bisect([1, 2], 1)",
        "copy.copy": "copy.copy([1])",
        "glob.*": "glob.glob('/')",
        "hashlib.*": "hashlib.md5(b'a')",
        "heapq.heapify": "heapq.heapify([2, 1])",
        "heapq.heappop": "heapq.heappop([1, 2])",
        "heapq.heappush": "heapq.heappush([1], 2)",
        "heapq.heappushpop": "heapq.heappushpop([1], 2)",
        "heapq.heapreplace": "heapq.heapreplace([1], 2)",
        "io.BytesIO": "io.BytesIO()",
        "io.StringIO": "io.StringIO()",
        "os.cpu_count": "os.cpu_count()",
        "sys.getsizeof": "sys.getsizeof(1)",
        "tempfile.*": "tempfile.TemporaryFile()",
        "threading.current_thread": "threading.current_thread()",
        "torch.get_num_threads": "torch.get_num_threads()",
        "torch.jit.script": "torch.jit.script(torch.nn.functional.relu)",
        "torch.jit.trace": "torch.jit.trace(torch.nn.functional.relu, torch.ones(1))",
        "torch.utils.dlpack.to_dlpack": "torch.utils.dlpack.to_dlpack(torch.ones(1))",
        "uuid.*": "uuid.uuid4()",
        "zlib.*": "zlib.crc32(b'a')",
    },
    "PG510": {
        "torch.autograd.functional.*": (
            "torch.autograd.functional.jacobian(lambda v: v * 2, torch.ones(1))"
        ),
        "torch.autograd.backward": "torch.autograd.backward(y.sum(), retain_graph=True)",
        "torch.autograd.grad": "torch.autograd.grad(y.sum(), self.weight, retain_graph=True)",
        "torch.autograd.graph.get_gradient_edge": "torch.autograd.graph.get_gradient_edge(y)",
        "torch.autograd.Variable": "torch.autograd.Variable(y)",
    },
    "PG513": {
        "torch.Generator": "torch.Generator()",
        "threading.Lock": "threading.Lock()",
        "threading.RLock": "threading.RLock()",
        "threading.Thread": "threading.Thread()",
        "threading.Event": "threading.Event()",
        "contextvars.ContextVar.get": "VARIABLE.get()",
        "contextvars.ContextVar.set": "VARIABLE.set(2)",
        "multiprocessing.*": "multiprocessing.cpu_count()",
        "concurrent.futures.ThreadPoolExecutor": "concurrent.futures.ThreadPoolExecutor(1)",
        "concurrent.futures.ProcessPoolExecutor": "concurrent.futures.ProcessPoolExecutor(1)",
    },
    "PG514": {
        "torch.sparse_coo_tensor": "torch.sparse_coo_tensor(INDEX, VALUE)",
        "torch.sparse_csr_tensor": "torch.sparse_csr_tensor(STARTS, ENDS, VALUE)",
        "torch.sparse_csc_tensor": "torch.sparse_csc_tensor(STARTS, ENDS, VALUE)",
        "torch.sparse_compressed_tensor": (
            "torch.sparse_compressed_tensor(STARTS, ENDS, VALUE, layout=torch.sparse_csr)"
        ),
        "torch.sparse_bsr_tensor": "torch.sparse_bsr_tensor(STARTS, ENDS, torch.ones(2, 1, 1))",
        "torch.sparse_bsc_tensor": "torch.sparse_bsc_tensor(STARTS, ENDS, torch.ones(2, 1, 1))",
        "torch.sparse.spdiags": "torch.sparse.spdiags(torch.ones(1, 3), torch.tensor([0]), (3, 3))",
        "torch.sparse.FloatTensor": "torch.sparse.FloatTensor(INDEX, VALUE)",
        "torch.sparse.DoubleTensor": "torch.sparse.DoubleTensor(INDEX, VALUE.double())",
    },
}
# Each in a program of its own: torch.compile leaves what follows the read of a sparse tensor
# uncompiled.
ALONE: dict[str, str] = {
    "torch.sparse.mm": "torch.sparse.mm(SPARSE, y)",
    "torch.sparse.addmm": "torch.sparse.addmm(y, SPARSE, y)",
    "torch.sparse.sampled_addmm": "torch.sparse.sampled_addmm(ROWS, y.detach(), y.detach())",
    "torch.sparse.softmax": "torch.sparse.softmax(SPARSE, 1)",
    "torch.sparse.log_softmax": "torch.sparse.log_softmax(SPARSE, 1)",
    "torch.sparse.sum": "torch.sparse.sum(SPARSE, 1)",
    "torch.hspmm": "torch.hspmm(SPARSE, y)",
    "torch.smm": "torch.smm(SPARSE, y.detach())",
    "torch.sspaddmm": "torch.sspaddmm(SPARSE, SPARSE, y.detach())",
}
# Listed callables that a test cannot call: they wait for a person, a network, a file or a device,
# or belong to a package that the tests do not need.
NOT_CALLED = {
    "input",
    "tqdm.tqdm",
    "tqdm.tqdm.*",
    "tqdm.trange",
    "tqdm.auto.tqdm",
    "tqdm.auto.tqdm.*",
    "tqdm.auto.trange",
    "breakpoint",
    "pdb.set_trace",
    "os.mkdir",
    "os.remove",
    "requests.*",
    "urllib.request.*",
    "numpy.load",
    "numpy.trapz",
    "pandas.*",
    "sklearn.*",
    "cv2.*",
    "pywt.*",
    "qpsolvers.*",
    "skimage.*",
    "scipy.optimize.linear_sum_assignment",
    "scipy.optimize.linprog",
    "scipy.optimize.minimize",
    "scipy.optimize.minimize_scalar",
    "scipy.optimize.root_scalar",
    "scipy.fft.*",
    "scipy.fftpack.*",
    "scipy.integrate.*",
    "scipy.interpolate.*",
    "scipy.linalg.*",
    "scipy.ndimage.*",
    "scipy.signal.*",
    "scipy.spatial.*",
    "scipy.special.*",
    "scipy.stats.*",
    "torch.load",
    "torch.cuda.initial_seed",
    "torch.cuda.seed",
    "torch.cuda.seed_all",
    "torch.cuda.get_rng_state",
    "torch.cuda.get_rng_state_all",
    "torch.cuda.set_rng_state",
    "torch.cuda.set_rng_state_all",
}
METHODS = {
    "PG507": {
        "is_pinned": "y.detach().is_pinned()",
        "is_shared": "y.detach().is_shared()",
        "as_subclass": "y.as_subclass(torch.Tensor)",
        "share_memory_": "y.detach().clone().share_memory_()",
        "storage": "y.detach().storage()",
        "storage_offset": "y.storage_offset()",
    },
    "PG509": {
        "resize_": "torch.ones(4).mul(2).resize_(2)",
        "resize_as_": "torch.ones(4).mul(2).resize_as_(torch.ones(2))",
    },
    "PG510": {"backward": "y.sum().backward(retain_graph=True)"},
    "PG514": {
        "to_sparse": "y.detach().to_sparse()",
        "to_sparse_coo": "y.detach().to_sparse_coo()",
        "to_sparse_csr": "y.detach().to_sparse_csr()",
        "to_sparse_csc": "y.detach().to_sparse_csc()",
        "to_sparse_bsr": "y.detach().to_sparse_bsr((1, 1))",
        "to_sparse_bsc": "y.detach().to_sparse_bsc((1, 1))",
    },
}
TRACED = {
    "PG408": {
        "torch.cholesky": "torch.cholesky(y @ y.mT + torch.eye(4))",
        "torch.inverse": "torch.inverse(y)",
        "torch.linalg.cond": "torch.linalg.cond(y)",
        "torch.linalg.ldl_factor": "torch.linalg.ldl_factor(y @ y.mT)",
        "torch.linalg.lu_factor": "torch.linalg.lu_factor(y)",
        "torch.linalg.matrix_exp": "torch.linalg.matrix_exp(y)",
        "torch.linalg.matrix_rank": "torch.linalg.matrix_rank(y)",
        "torch.linalg.pinv": "torch.linalg.pinv(y)",
        "torch.linalg.tensorinv": "torch.linalg.tensorinv(y.view(2, 2, 4), ind=2)",
        "torch.pca_lowrank": "torch.pca_lowrank(y, q=2)",
        "torch.pinverse": "torch.pinverse(y)",
        "torch.svd": "torch.svd(y)",
        "torch.svd_lowrank": "torch.svd_lowrank(y, q=2)",
        "torch.linalg.cholesky": "torch.linalg.cholesky(y @ y.mT + torch.eye(4))",
        "torch.linalg.eig": "torch.linalg.eig(y)",
        "torch.linalg.eigh": "torch.linalg.eigh(y)",
        "torch.linalg.eigvals": "torch.linalg.eigvals(y)",
        "torch.linalg.eigvalsh": "torch.linalg.eigvalsh(y)",
        "torch.linalg.inv": "torch.linalg.inv(y)",
        "torch.linalg.solve": "torch.linalg.solve(y, y)",
        "torch.linalg.tensorsolve": "torch.linalg.tensorsolve(y.view(2, 2, 4), y[:2, :2])",
        "torch.linalg.svd": "torch.linalg.svd(y)",
        "torch.linalg.svdvals": "torch.linalg.svdvals(y)",
    },
    "PG517": {
        "random.randint": "random.randint(0, 3)",
        "random.randrange": "random.randrange(3)",
        "random.uniform": "random.uniform(0, 1)",
    },
    "none": {
        "known to be traced": "torch.cuda.empty_cache()",
        "signatures": "inspect.signature(self.forward)",
        "settings": "os.environ.get('HOME'), os.getenv('HOME'), os.path.join('a', 'b')",
        "layers without parameters": "torch.nn.ReLU()(y), torch.nn.Softmax(-1)(y)",
        "text put off": "f'{y.sum()}', '{}'.format(y.sum())",
        "maximum": "max(y.sum(), y.max()), min(y.sum(), 1.0), sum([y, y])",
    },
}


def run(name: str, statements: list[str], folder: Path) -> tuple[Observed, list[int]]:
    """Observe a program of ``statements``, tensor work in between; also the line of each."""
    text = HEAD + "".join(f"        {statement}; y = y + 1\n" for statement in statements) + TAIL
    first = HEAD.count("\n") + 1
    example = Example(name, False, 1, text, {}, {}, "")
    return observe(load(example, folder)), list(range(first, first + len(statements)))


@pytest.mark.parametrize("code", BREAKS)
def test_each_listed_call_breaks(code: str, tmp_path: Path) -> None:
    listed = BREAKS[code]
    assert set(listed) <= set(RULES[code].calls)
    seen, lines = run(code, list(listed.values()), tmp_path)
    missing = [
        call for call, line in zip(listed, lines, strict=True) if line not in seen.break_lines
    ]
    assert missing == []


@pytest.mark.parametrize("call", ALONE)
def test_each_use_of_a_sparse_tensor_breaks(call: str, tmp_path: Path) -> None:
    assert call in RULES["PG514"].calls
    seen, lines = run("sparse", [ALONE[call]], tmp_path)
    assert set(lines) <= set(seen.break_lines)


@pytest.mark.parametrize("code", METHODS)
def test_each_listed_method_breaks(code: str, tmp_path: Path) -> None:
    listed = METHODS[code]
    assert set(listed) <= set(RULES[code].methods)
    seen, lines = run(code, list(listed.values()), tmp_path)
    missing = [
        call for call, line in zip(listed, lines, strict=True) if line not in seen.break_lines
    ]
    assert missing == []


@pytest.mark.parametrize("code", TRACED)
def test_what_is_said_to_be_traced_is(code: str, tmp_path: Path) -> None:
    seen, _ = run(code, list(TRACED[code].values()), tmp_path)
    assert seen.break_lines == ()


def test_pages_list_only_calls_that_are_tried() -> None:
    tried = {*NOT_CALLED, *ALONE}
    for table in (BREAKS, TRACED):
        tried.update(call for listed in table.values() for call in listed)
    on_a_device = set(RULES["PG205"].calls)
    listed = {call for rule in RULES.values() for call in rule.calls}
    missing = sorted(listed - tried - on_a_device)
    assert not missing, f"add to BREAKS, or to NOT_CALLED what cannot run here: {missing}"
