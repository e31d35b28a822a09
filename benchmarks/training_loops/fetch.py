"""Bring the packages that have marked loops: download with pip or git, unpack, never install."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path

from benchmarks.training_loops.marks import Package

#: One platform for everybody, so that everybody reads the same wheel.
PLATFORMS = ("manylinux_2_28_x86_64", "manylinux2014_x86_64", "any")
WHEEL = [
    *("--only-binary=:all:", "--python-version", "3.11", "--implementation", "cp"),
    *(option for abi in ("cp311", "abi3", "none") for option in ("--abi", abi)),
    *(option for platform in PLATFORMS for option in ("--platform", platform)),
]
SDIST = ["--no-binary=:all:", "--no-build-isolation"]

#: Makes the unpacked folder a project of its own for the linter.
SETTINGS = "# A package that is read by `make bench-training-loops`; default settings.\n"


class FetchError(Exception):
    """A package could not be downloaded."""


def fetch(packages: Iterable[Package], folder: Path) -> None:
    """Unpack each package to `folder`/NAME-VERSION unless it is there. Raises FetchError."""
    folder.mkdir(parents=True, exist_ok=True)
    for package in packages:
        target = folder / package.folder
        if (target / "pygraph-lint.toml").is_file():
            continue
        shutil.rmtree(target, ignore_errors=True)
        if package.source == "git":
            _check_out(package, target)
        else:
            with tempfile.TemporaryDirectory(dir=folder) as scratch:
                archive = _download(package, Path(scratch))
                _unpack(archive, target)
        (target / "pygraph-lint.toml").write_text(SETTINGS)
        print(f"fetched {package.folder}", flush=True)


def _download(package: Package, folder: Path) -> Path:
    options = SDIST if package.source == "sdist" else WHEEL
    wanted = f"{package.name}=={package.version}"
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "-q", "-d", str(folder)]
    done = subprocess.run([*command, *options, wanted], capture_output=True, text=True, check=False)
    files = [path for path in folder.iterdir() if path.suffix in (".whl", ".gz", ".zip")]
    if done.returncode or len(files) != 1:
        raise FetchError(f"pip could not download {wanted}: {done.stderr.strip()[-500:]}")
    return files[0]


def _check_out(package: Package, target: Path) -> None:
    """One commit of a public repository, without its history."""
    address = f"https://github.com/{package.name}.git"
    git = ["git", "-C", str(target)]
    target.mkdir()
    for command in (
        ["init", "-q"],
        ["fetch", "-q", "--depth", "1", address, package.version],
        ["checkout", "-q", "FETCH_HEAD"],
    ):
        done = subprocess.run([*git, *command], capture_output=True, text=True, check=False)
        if done.returncode:
            raise FetchError(f"git could not fetch {package.name}: {done.stderr.strip()[-500:]}")


def _unpack(archive: Path, target: Path) -> None:
    """Unpack a wheel, or a source distribution without its outermost folder."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            wheel.extractall(target)
        return
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        with tarfile.open(archive) as sdist:
            sdist.extractall(scratch, filter="data")
        (outermost,) = Path(scratch).iterdir()
        shutil.move(str(outermost), str(target))
