"""One file of a project, checked by reading a part of it, has the findings of the whole run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pygraph_lint.findings import Finding
from pygraph_lint.project import project_files
from pygraph_lint.project.relevant_files import Importers, UnreadFiles
from pygraph_lint.project.runner import Runner
from pygraph_lint.rules.catalogue import load

FILES = {
    "pyproject.toml": "",
    "pkg/__init__.py": "from .base import *\nfrom .models import *\n",
    "pkg/base.py": """
import torch
__all__ = ["Base", "scale"]
class Base(torch.nn.Module):
    def forward(self, x: torch.Tensor):
        return self.part(x)
    def part(self, x):
        raise NotImplementedError
def scale(x, limit):
    if x.sum() > limit:
        return x
    return -x
""",
    "pkg/tools.py": """
import torch
def pick(value, limit):
    if value > limit:
        return value
    return limit
def never(value):
    print(value)
class Meter:
    def update(self, value):
        self.last = float(value)
""",
    "pkg/models/__init__.py": "from .a import *\nfrom .b import *\n",
    "pkg/models/a.py": """
import torch
import pkg
from ..tools import pick
class A(pkg.Base):
    def part(self, x):
        return pick(x.sum(), 3)
""",
    "pkg/models/b.py": """
import torch
from pkg import Base, scale
class B(Base):
    def part(self, x: torch.Tensor):
        return scale(x, x.mean())
""",
    "pkg/other.py": "import torch\nclass Other(torch.nn.Module):\n    def forward(self, x): ...\n",
    "train.py": """
import torch
from pkg.models.a import A
from pkg.tools import Meter
model = torch.compile(A())
def train(loader, optimizer):
    meter = Meter()
    for x in loader:
        loss = model(x)
        loss.backward()
        meter.update(loss)
""",
}


HELPERS = """
import pkg
from pkg import settings, wrapped
pkg.settings.depth = 3
def keep(value):
    return value.max().item()
def apply(function, value):
    return function(value)
def run(loader, optimizer):
    for x in loader:
        apply(wrapped, x).backward()
        optimizer.step()
def report(value):
    return pkg.describe(pkg.settings.measure(keep(value)))
"""
MODEL = """
import torch
from .helpers import keep
class M(torch.nn.Module):
    def forward(self, x: torch.Tensor, limit=None):
        return x + 1 if keep(x) > self.level(limit) else x
    def level(self, limit):
        return 0 if limit is None else limit.sum()
"""


def _write(folder: Path) -> list[Path]:
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return sorted(folder.rglob("*.py"))


def _checked(paths: list[Path], **overrides: Any) -> list[tuple[Any, ...]]:
    return [_all(finding) for finding in Runner(load(), overrides).check(paths)]


def _all(finding: Finding) -> tuple[Any, ...]:
    place = (finding.filename, finding.code, finding.location, finding.message)
    return (*place, finding.region, finding.evidence, finding.consequences, finding.view)


@pytest.mark.parametrize("regions", ["forward", "compiled", "all"])
def test_one_file_has_its_slice_of_the_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, regions: str
) -> None:
    paths = _write(tmp_path)
    whole = _checked(paths, regions=regions)
    assert whole
    read: list[int] = []
    check = project_files._remember_check

    def noted(facts: dict[str, Any], *rest: Any) -> None:
        read.append(len(facts))
        check(facts, *rest)

    monkeypatch.setattr(project_files, "_MANY", 1)
    monkeypatch.setattr(project_files, "_remember_check", noted)
    for path in paths:
        mine = [row for row in whole if row[0] == str(path)]
        assert _checked([path], regions=regions) == mine, path
    assert min(read) < len(paths) - 2  # some files were checked without reading the others


def test_files_that_a_package_passes_on_are_not_read_for_names_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What other files patch, pass on and call outside of compiled code may be in each of them."""
    many = [f"m{n}" for n in range(20)]
    files = {
        "pkg/__init__.py": "".join(f"from .{name} import *\n" for name in many),
        "pkg/helpers.py": HELPERS,
        "pkg/model.py": MODEL,
        **{f"pkg/{name}/__init__.py": f"from .part_{name} import *\n" for name in many},
        **{f"pkg/{name}/part_{name}.py": f"def of_{name}(x): return x\n" for name in many},
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "pyproject.toml").write_text("")
    paths = sorted(tmp_path.rglob("*.py"))
    whole = _checked(paths)
    read: list[str] = []
    check = project_files._remember_check

    def noted(facts: dict[str, Any], *rest: Any) -> None:
        read.extend(facts)
        check(facts, *rest)

    monkeypatch.setattr(project_files, "_MANY", 1)
    monkeypatch.setattr(project_files, "_remember_check", noted)
    path = tmp_path / "pkg/model.py"
    mine = [row[:-1] for row in whole if row[0] == str(path)]
    assert mine
    assert [row[:-1] for row in _checked([path])] == mine
    assert not [name for name in read if Path(name).parent.name in many]


DRAWING = """
import torch
class Sampler{n}(torch.nn.Module):
    def draw(self, x: torch.Tensor):
        return x.sum().item()
"""
USES_ONE = """
import torch
class Model(torch.nn.Module):
    def __init__(self, sampler):
        super().__init__()
        self.sampler = sampler
    def forward(self, x: torch.Tensor):
        return x + self.sampler.draw(x)
class Own(torch.nn.Module):
    def draw(self, x: torch.Tensor):
        return x.max().item()
"""


def _draws(folder: Path, others: int) -> Path:
    (folder / "pyproject.toml").write_text("")
    (folder / "model.py").write_text(USES_ONE)
    for n in range(others):
        (folder / f"sampler_{n}.py").write_text(DRAWING.replace("{n}", str(n)))
    return folder / "model.py"


@pytest.mark.parametrize("others", [0, 1, 5, 12])
def test_a_method_is_told_by_its_name_from_all_files_that_have_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, others: int
) -> None:
    """A method of few classes is meant by its name alone, in a part as in the whole."""
    path = _draws(tmp_path, others)
    whole = [row for row in _checked(sorted(tmp_path.glob("*.py"))) if row[0] == str(path)]
    assert bool(whole) == (others < 3)
    monkeypatch.setattr(project_files, "_MANY", 1)
    found = _checked([path])
    assert [row[:-1] for row in found] == [row[:-1] for row in whole]


@pytest.mark.parametrize(("folders", "told"), [(1, True), (12, False)])
def test_a_family_of_classes_in_one_folder_is_told_by_a_method_of_many_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folders: int, told: bool
) -> None:
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "base.py").write_text("class Scheduler: ...\n")
    (tmp_path / "run.py").write_text(
        "def run(scheduler, steps: torch.Tensor, x: torch.Tensor):\n"
        "    for t in steps:\n        x = scheduler.advance(t, x)\n    return x\n"
        "import torch\nfrom kind_0.scheduler_0 import Scheduler0\n"
    )
    for n in range(12):
        folder = tmp_path / f"kind_{n % folders}"
        folder.mkdir(exist_ok=True)
        (folder / f"scheduler_{n}.py").write_text(
            f"import torch\nfrom base import Scheduler\nclass Scheduler{n}(Scheduler):\n"
            "    def advance(self, t, x: torch.Tensor):\n        return x * 2 if t > 0 else x\n"
        )
    path = tmp_path / "kind_0/scheduler_0.py"
    whole = _checked(sorted(tmp_path.rglob("*.py")), regions="all")
    mine = [row[:-1] for row in whole if row[0] == str(path)]
    assert bool(mine) is told
    monkeypatch.setattr(project_files, "_MANY", 1)
    assert [row[:-1] for row in _checked([path], regions="all")] == mine


def test_a_method_that_another_file_gets_changes_what_its_name_means(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = _draws(tmp_path, 12)
    for n in range(2, 12):
        (tmp_path / f"sampler_{n}.py").write_text("import torch\nclass Other: ...\n")
    monkeypatch.setattr(project_files, "_MANY", 1)
    runner = Runner(load(), {}, isolated=True)
    before = runner.check([path])
    assert before
    other = tmp_path / "sampler_2.py"
    text = other.read_bytes()
    runner.replace_content({other: DRAWING.replace("{n}", "2").encode()})
    assert not runner.check([path])
    runner.replace_content({other: text})
    assert runner.check([path]) == before


def test_importers_are_found_through_files_and_by_name_through_packages() -> None:
    words = {
        "pkg/a.py": frozenset[bytes](),
        "pkg/b.py": frozenset({b"a", b"Model"}),
        "pkg/c.py": frozenset({b"b", b"made"}),
        "pkg/__init__.py": frozenset({b"a", b"."}),
        "d.py": frozenset({b"pkg"}),
        "e.py": frozenset({b"c"}),
        "other.py": frozenset({b"b", b"plain"}),
        "f.py": frozenset({b"pkg"}),
        **{f"more_{n}.py": frozenset[bytes]() for n in range(20)},
    }
    texts = dict.fromkeys(words, b"")
    texts["pkg/a.py"] = b"class Model: ..."
    texts["pkg/b.py"] = b"from a import Model\ndef made():\n    return Model()\nplain = 1\n"
    texts["pkg/c.py"] = b"from b import made\n@wraps\nclass C:\n    kept = made()\n"
    texts |= {"e.py": b"import c\nc.C()", "other.py": b"from b import plain\nplain()"}
    texts |= {"d.py": b"import pkg\npkg.Model()", "f.py": b"import pkg\npkg.Models()"}
    found = Importers(words, texts.__getitem__)
    leading = {"pkg/a.py", "pkg/b.py", "pkg/c.py", "pkg/__init__.py", "d.py", "e.py"}
    assert found.of(["pkg/a.py"]).files == leading
    assert found.of(["pkg/__init__.py"]).files == {"pkg/__init__.py", "d.py", "f.py"}


def test_a_file_binds_only_names_in_its_text() -> None:
    texts = {"m.py": b"class Model: ...", "p/__init__.py": b""}
    unread = UnreadFiles({"m": "m.py", "p": "p/__init__.py"}, texts.__getitem__)
    assert unread.may_define("m", "Model") and not unread.may_define("m", "Other")
    assert unread.may_define("m", "") and unread.may_define("p", "Anything")
    assert not unread.may_define("x", "Model") and unread.has("m") and not unread.has("x")


def test_a_file_among_others_is_checked_with_what_is_read_for_all_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = _write(tmp_path)
    read: list[int] = []
    links: list[None] = []
    check, linked = project_files._check_names, project_files.Project._link_all

    def noted(names: Sequence[str]) -> list[tuple[str, tuple[Finding, ...]]]:
        read.append(len(project_files._linked[0]))
        return check(names)

    def counted(project: project_files.Project, options: Any) -> Any:
        links.append(None)
        return linked(project, options)

    monkeypatch.setattr(project_files, "_MANY", 1)
    monkeypatch.setattr(project_files, "_FEW", 2)
    monkeypatch.setattr(project_files, "_check_names", noted)
    monkeypatch.setattr(project_files.Project, "_link_all", counted)
    runner = Runner(load(), {}, isolated=True)
    for path in paths:
        mine = runner.check([path], among=paths)
        assert mine == [each for each in runner.check(paths) if each.filename == str(path)]
    assert len(set(read)) == 1
    assert len(links) == 1  # nothing changed in between
    runner.replace_content({paths[0]: b"x = 1\n"})
    runner.check(paths)
    assert len(links) == 2


CALLED_BY_NAME = """
import torch
class Score{n}:
    def rate(self, x):
        return x * 2 if x.sum() > 0 else x
"""
CALLS_BY_NAME = """
import torch
class Model(torch.nn.Module):
    def __init__(self, score):
        super().__init__()
        self.score = score
    def forward(self, x: torch.Tensor):
        return self.score.rate(x)
"""


def _others(folder: Path) -> None:
    """A project with files of no importance, so that a part of it is read."""
    (folder / "pyproject.toml").write_text("")
    for n in range(9):
        (folder / f"other_{n}.py").write_text("import torch\n")


@pytest.mark.parametrize("others", [0, 12])
def test_who_calls_a_method_by_its_name_is_read_with_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, others: int
) -> None:
    """The caller imports nothing of the class; where many folders have the method, the name alone
    says too little, in the part as in the whole.
    """
    _others(tmp_path)
    (tmp_path / "model.py").write_text(CALLS_BY_NAME)
    for n in range(others + 1):
        (tmp_path / f"in_{n}").mkdir()
        (tmp_path / f"in_{n}" / f"score_{n}.py").write_text(CALLED_BY_NAME.replace("{n}", str(n)))
    path = tmp_path / "in_0" / "score_0.py"
    whole = [row for row in _checked(sorted(tmp_path.rglob("*.py"))) if row[0] == str(path)]
    assert bool(whole) == (not others)
    monkeypatch.setattr(project_files, "_MANY", 1)
    assert [row[:-1] for row in _checked([path])] == [row[:-1] for row in whole]


def test_a_caller_by_name_that_an_edit_makes_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _others(tmp_path)
    (tmp_path / "score.py").write_text(CALLED_BY_NAME.replace("{n}", ""))
    (tmp_path / "model.py").write_text(CALLS_BY_NAME.replace("score.rate(x)", "score.other(x)"))
    monkeypatch.setattr(project_files, "_MANY", 1)
    runner = Runner(load(), {}, isolated=True)
    path = tmp_path / "score.py"
    assert not runner.check([path])
    runner.replace_content({tmp_path / "model.py": CALLS_BY_NAME.encode()})
    assert runner.check([path])
    own = CALLS_BY_NAME.replace("self.score.rate(x)", "self.rate(x)")
    runner.replace_content({tmp_path / "model.py": own.encode()})
    assert not runner.check([path])


def _slice(
    folder: Path, files: dict[str, str], checked: str, monkeypatch: pytest.MonkeyPatch
) -> tuple[list[tuple[Any, ...]], set[str]]:
    """The findings of one file, the same alone as in the whole, and the files that were read."""
    _others(folder)
    for n in range(20):
        (folder / f"more_{n}.py").write_text("import torch\n")
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    path, read = folder / checked, set[str]()
    whole = [row for row in _checked(sorted(folder.rglob("*.py"))) if row[0] == str(path)]
    check = project_files._remember_check

    def noted(facts: dict[str, Any], *rest: Any) -> None:
        read.update(facts)
        check(facts, *rest)

    monkeypatch.setattr(project_files, "_MANY", 1)
    monkeypatch.setattr(project_files, "_remember_check", noted)
    assert [row[:-1] for row in _checked([path])] == [row[:-1] for row in whole]
    return whole, read


DECIDES = """
import torch
def decide(x):
    return x * 2 if x.sum() > 0 else x
def other(x):
    return x
"""


@pytest.mark.parametrize(
    ("between", "passed_on", "imported"),
    [
        ("def apply(x):\n    return decide(x)\n", "from .block import apply", "apply"),
        ("def apply(x):\n    return decide(x)\n", "from .block import *", "apply"),
        ("def apply(x):\n    return decide(x)\n", "from .block import apply as run", "run"),
        ("apply = decide\n", "from .block import apply", "apply"),
        ("", "from .steps import decide\ndef apply(x):\n    return decide(x)", "apply"),
    ],
)
def test_who_uses_what_rests_on_a_file_is_read_through_packages(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    between: str,
    passed_on: str,
    imported: str,
) -> None:
    files = {
        "pkg/__init__.py": "",
        "pkg/parts/__init__.py": f"{passed_on}\n",
        "pkg/parts/steps.py": DECIDES,
        "pkg/parts/block.py": f"from .steps import decide, other\n{between}"
        "def unrelated(x):\n    return other(x)\n",
        "pkg/model.py": f"import torch\nfrom pkg.parts import {imported}\n"
        "class Model(torch.nn.Module):\n    def forward(self, x: torch.Tensor):\n"
        f"        return {imported}(x)\n",
        "use.py": "import torch\nfrom pkg.model import Model\nmodel = Model()\n",
    }
    found, read = _slice(tmp_path, files, "pkg/parts/steps.py", monkeypatch)
    assert found
    assert "other_1.py" not in read


def test_who_uses_something_else_of_a_file_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {
        "steps.py": DECIDES,
        "block.py": "import steps\nimport torch\ndef apply(x):\n    return steps.decide(x)\n"
        "class Plain(torch.nn.Module):\n    def forward(self, x: torch.Tensor):\n"
        "        return apply(x)\ndef unrelated(x):\n    return -x\n",
        "user.py": "import torch\nfrom block import unrelated\nunrelated(torch.ones(3))\n",
    }
    found, read = _slice(tmp_path, files, "steps.py", monkeypatch)
    assert found
    assert {"steps.py", "block.py"} <= read and "user.py" not in read


STEPS = """
def update(model, batch, optimizer):
    loss = model(batch).mean()
    loss.backward()
    optimizer.step()
    return loss
"""
PLAYS = """
import torch
import steps
def train(model, batch, optimizer, log):
    loss = steps.update(model, batch, optimizer)
    log.append(loss.item())
def main(model, env, optimizer, log):
    state = env.reset()
    for _ in range(100):
        action = model(torch.as_tensor(state).cuda()).cpu().numpy()
        state = env.step(action)
        train(model, state, optimizer, log)
"""


def test_a_training_step_of_another_file_counts_for_the_loops_of_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {"steps.py": STEPS, "play.py": PLAYS}
    assert _slice(tmp_path, files, "play.py", monkeypatch)[0]


LOOP = """
import torch
import settings
def train(model, loader, optimizer):
    for batch in loader:
        loss = model(batch).mean()
        loss.backward()
        optimizer.step()
        print(loss.item())
"""


def test_a_device_that_an_imported_file_names_counts_for_a_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {"settings.py": "def place(x):\n    return x.to('cuda')\n", "loop.py": LOOP}
    assert _slice(tmp_path, files, "loop.py", monkeypatch)[0]


@pytest.mark.parametrize("says", ["", "torch.distributions.Distribution"])
def test_a_file_that_turns_checks_of_distributions_off_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str
) -> None:
    model = """
import torch
class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor):
        return torch.distributions.Normal(x, x.abs()).sample()
"""
    turned_off = f"import torch\n{says}.set_default_validate_args(False)\n" if says else ""
    files = {"model.py": model, "start.py": turned_off}
    found, _ = _slice(tmp_path, files, "model.py", monkeypatch)
    assert bool(found) is not bool(says)


def test_a_use_that_an_edit_of_a_file_between_makes_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    block = "import steps\ndef apply(x):\n    return steps.decide(x)\n"
    files = {
        "steps.py": DECIDES,
        "block.py": block.replace("decide", "other"),
        "model.py": "import torch\nimport block\nclass Model(torch.nn.Module):\n"
        "    def forward(self, x: torch.Tensor):\n        return block.apply(x)\n",
    }
    found, _ = _slice(tmp_path, files, "steps.py", monkeypatch)
    assert not found
    runner = Runner(load(), {}, isolated=True)
    path = tmp_path / "steps.py"
    assert not runner.check([path])
    runner.replace_content({tmp_path / "block.py": block.encode()})
    assert runner.check([path])
    runner.replace_content({tmp_path / "block.py": files["block.py"].encode()})
    assert not runner.check([path])
