"""The measured packages, their halves, and their programs."""

from __future__ import annotations

import importlib
from types import ModuleType

from benchmarks.lint_truth.truth import half_of
from benchmarks.lint_truth_packages.programs import Program, programs_of

#: Name in the package index -> name to import. The driver's file has the latter name.
PACKAGES: dict[str, str] = {
    "asteroid-filterbanks": "asteroid_filterbanks",
    "auraloss": "auraloss",
    "captum": "captum",
    "deepinv": "deepinv",
    "e3nn": "e3nn",
    "egnn-pytorch": "egnn_pytorch",
    "entmax": "entmax",
    "flow-matching": "flow_matching",
    "geomloss": "geomloss",
    "geoopt": "geoopt",
    "julius": "julius",
    "kornia": "kornia",
    "linear-operator": "linear_operator",
    "local-attention": "local_attention",
    "mambapy": "mambapy",
    "nflows": "nflows",
    "normflows": "normflows",
    "piq": "piq",
    "ptwt": "ptwt",
    "pykan": "kan",
    "pypose": "pypose",
    "pyro-ppl": "pyro",
    "pytorch-crf": "torchcrf",
    "pytorch-metric-learning": "pytorch_metric_learning",
    "pytorch-minimize": "torchmin",
    "pytorch-optimizer": "pytorch_optimizer",
    "pytorch-tcn": "pytorch_tcn",
    "reformer-pytorch": "reformer_pytorch",
    "roma": "roma",
    "schedulefree": "schedulefree",
    "snntorch": "snntorch",
    "st-moe-pytorch": "st_moe_pytorch",
    "stable-baselines3": "stable_baselines3",
    "torch-geometric": "torch_geometric",
    "torch-kmeans": "torch_kmeans",
    "torchattacks": "torchattacks",
    "torchcde": "torchcde",
    "torchdiffeq": "torchdiffeq",
    "torchjd": "torchjd",
    "torchmetrics": "torchmetrics",
    "torchode": "torchode",
    "torchopt": "torchopt",
    "torchquad": "torchquad",
    "torchsde": "torchsde",
    "vector-quantize-pytorch": "vector_quantize_pytorch",
    "x-transformers": "x_transformers",
    "xitorch": "xitorch",
    "zuko": "zuko",
}

DEVELOP = "develop"
HELD_OUT = "held-out"
HALVES = (DEVELOP, HELD_OUT)


def half_of_package(name: str) -> str:
    """ "develop" or "held-out", fixed by a hash of the package's name in the index."""
    return DEVELOP if half_of(name) == "tune" else HELD_OUT


def half_of_file(file: str) -> str:
    """The half of a measured file, "import_name/path.py". Raises KeyError for other files."""
    return half_of_package(_INDEX_NAMES[file.partition("/")[0]])


_INDEX_NAMES = {imported: name for name, imported in PACKAGES.items()}


def driver(name: str) -> ModuleType:
    """The module with the programs of package `name`; imports the package."""
    return importlib.import_module(f"benchmarks.lint_truth_packages.drivers.{PACKAGES[name]}")


def programs(name: str) -> list[Program]:
    """The programs of package `name`."""
    return programs_of(name, driver(name))
