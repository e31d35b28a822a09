"""The report: what it says, how it is saved and drawn, and the rules it names."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from pygraph_rt.__main__ import main
from pygraph_rt.errors import ReportError
from pygraph_rt.inductor import cuts
from pygraph_rt.reports.render import WIDTH, render
from pygraph_rt.reports.report import Region, Report

ROOT = Path(__file__).parents[2]
SPREAD = {"median": 0.7321, "low": 0.73, "high": 0.7381, "blocks": 6, "limit": "host"}


def chosen() -> dict[str, Any]:
    region = Region("graph 1/0 forward partition 1 of 2", "forward at models/encoder.py:10-42")
    region.state, region.choice, region.graphs, region.nodes = "serving", "graph", 1, 208
    region.served, region.unserved, region.patched = 1000, 24, 2500
    region.choice_why = (
        "a call takes 0.732 ms with graph and 2.760 ms with no graph (277 % more, block by block)"
    )
    region.candidates = {"no graph": {**SPREAD, "median": 2.76, "high": 2.8}, "graph": SPREAD}
    region.moving_bytes, region.static_bytes, region.arena_bytes = 2048, 220 << 20, 12 << 20
    region.capture_ms, region.graph_bytes, region.launches = 87.4, 13 << 20, 3
    region.cuts = [
        cuts.Cut("split", "aten::nonzero makes a tensor", "models/encoder.py:31", "PG401").to_dict()
    ]
    return asdict(region)


def declined() -> dict[str, Any]:
    region = Region("graph 2/0 partition 1 of 1", "head at models/head.py:7")
    region.decline("it takes a CPU tensor")
    region.misses = {"another thread was preparing its graph": 2}
    return asdict(region)


def left() -> dict[str, Any]:
    region = Region("graph 3/0 partition 1 of 1", "tail at models/tail.py:3")
    region.choice, region.choice_why = "no graph", "a call takes 0.1 ms with no graph"
    region.decline(region.choice_why)
    return asdict(region)


def test_a_reader_learns_why_a_region_runs_as_it_does() -> None:
    text = render([chosen(), declined(), left()])
    assert "0.732 ±0.004" in text
    assert "2.5" in text.splitlines()[1]
    assert "graph, because a call takes 0.732 ms with graph and 2.760 ms" in text
    words = " ".join(text.split())
    assert "2.0 KiB of inputs where they are (stock CUDA graphs copy them)" in words
    assert "12.0 MiB of memory while it runs in 3 launches; the driver keeps about 13.0" in words
    assert "pygraph-lint check models/encoder.py --select PG401" in " ".join(text.split())
    assert "runs without a graph because it takes a CPU tensor" in text
    assert "pygraph-lint check models/head.py --target cudagraph" in text
    assert "models/tail.py --target" not in text  # nothing stands in the way there
    assert "2 calls ran without a graph, because another thread was preparing its graph" in words


def test_no_line_of_the_program_is_blamed_for_what_the_machine_lacks() -> None:
    region = Region("graph 2/0", "head at models/head.py:7")
    region.decline("this build of torch has no CUDA")
    assert "pygraph-lint" not in render([asdict(region)])


def test_a_region_that_is_open_says_what_it_waits_for() -> None:
    region = Region("g")
    assert "too few calls so far" in render([asdict(region)])
    region.state = "deciding"
    assert "alternate" in render([asdict(region)])


def test_the_table_fits_a_terminal() -> None:
    wide = {**chosen(), "name": "graph 12/34 backward partition 10 of 12 and more", "served": 10**7}
    for line in render([wide, declined(), left()]).splitlines():
        assert len(line) <= WIDTH, line


def test_a_saved_report_comes_back_as_it_was(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = Report((chosen(), declined()))
    assert Report.from_json(report.to_json()) == report
    file = tmp_path / "report.json"
    file.write_text(report.to_json())
    assert main(["report", str(file)]) == 0
    assert capsys.readouterr().out.strip() == str(report)


def test_a_report_of_an_earlier_version_is_shown_as_far_as_it_goes() -> None:
    (row,) = Report.from_json('{"regions": [{"name": "g", "served": 3, "new": 1}]}').regions
    assert (row["name"], row["served"], row["candidates"]) == ("g", 3, {})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"regions": 3}',
        '{"regions": [3]}',
        '{"regions": [{}]}',
        '{"regions": [{"name": 3}]}',
        '{"regions": [{"name": "g", "served": "many"}]}',
        '{"regions": [{"name": "g", "candidates": {"graph": 3}}]}',
        '{"regions": [{"name": "g", "candidates": {"graph": {"median": "a"}}}]}',
        '{"regions": [{"name": "g", "cuts": [[]]}]}',
        '{"regions": [{"name": "g", "cuts": [{"why": 3}]}]}',
        '{"regions": [{"name": "g"}], "detectors": [], "events": []}',
    ],
)
def test_what_is_no_report_is_one_sentence(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ReportError):
        Report.from_json(text)
    file = tmp_path / "other.json"
    file.write_text(text)
    for command in ("report", "plot"):
        assert main([command, str(file)]) == 2
    said = capsys.readouterr().err.splitlines()
    assert all(line.startswith(f"error: {file}: this is not") for line in said)
    assert len(said) == 2


def test_a_missing_file_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "no/such/file.json"]) == 2
    said = capsys.readouterr().err
    assert said == "error: no/such/file.json cannot be read: No such file or directory\n"


def test_a_report_is_drawn(tmp_path: Path) -> None:
    file = tmp_path / "r.json"
    strange = {**declined(), "name": "<g> & co"}
    file.write_text(Report((chosen(), strange, left())).to_json())
    assert main(["plot", str(file)]) == 0
    root = ElementTree.fromstring((tmp_path / "r.svg").read_text())
    texts = [t.text for t in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "<g> & co" in texts
    bars = list(root.iter("{http://www.w3.org/2000/svg}rect"))[1:]
    widths = [float(b.attrib["width"]) for b in bars]
    assert widths[0] / widths[1] == pytest.approx(2.76 / 0.7321, rel=1e-2)
    assert max(float(b.attrib["x"]) + w for b, w in zip(bars, widths, strict=True)) < 860


def test_inputs_that_would_be_copied_are_counted_apart() -> None:
    region = Region("g")
    region.moving = frozenset({0, 2})
    region.note_inputs([torch.zeros(4), torch.zeros(100), 7, None])
    assert (region.moving_bytes, region.static_bytes) == (16, 400)


def test_every_rule_that_is_named_is_in_the_catalogue() -> None:
    codes = {code for _, code in cuts._BREAKS} | {c for _, c in cuts._OPERATORS.values()}
    codes |= {"PG102", "PG106", "PG204"}
    for code in codes:
        assert (ROOT / "rules" / f"{code}.md").exists(), code


def broken_at(function: Any) -> list[cuts.Cut]:
    """The cuts that Dynamo makes of a function."""
    found: list[cuts.Cut] = []

    def backend(gm: Any, inputs: Any) -> Any:
        cut = cuts.graph_break(gm)
        if cut is not None:
            found.append(cut)
        return gm.forward

    torch._dynamo.reset()
    torch.compile(function, backend=backend)(torch.ones(3))
    torch._dynamo.reset()
    return found


def branch(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if (x + 1).sum() > 0 else x


def item(x: torch.Tensor) -> Any:
    return x * (x + 1).sum().item()


def printing(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    print("a line", end="")
    return y * 2


def asked_for(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    torch._dynamo.graph_break()
    return y * 2


@pytest.mark.parametrize(
    ("function", "rule", "words"),
    [
        (branch, "PG301", "branch on a tensor's value"),
        (item, "PG201", "item"),
        (printing, "PG501", "print|builtin"),
        (asked_for, "", "graph_break"),
    ],
)
def test_a_graph_break_names_line_and_rule(function: Any, rule: str, words: str) -> None:
    cut = broken_at(function)[0]
    assert cut.rule == rule
    assert re.search(words, cut.why)
    path, line = cut.source.rsplit(":", 1)
    first = function.__code__.co_firstlineno
    assert Path(path) == Path(__file__)
    assert first < int(line) <= first + 3
    assert cut.command == (f"pygraph-lint check {path} --select {rule}" if rule else "")


def test_a_whole_graph_has_no_cut() -> None:
    assert broken_at(lambda x: x + 1) == []


def node(target: Any, device: str, *inputs: Any, line: int = 5) -> Any:
    value = torch.empty(2, device="meta")
    return SimpleNamespace(
        op="call_function",
        target=target,
        all_input_nodes=list(inputs),
        meta={"val": _Tensor(value, device), "stack_trace": f'File "m.py", line {line}, in f'},
    )


class _Tensor(torch.Tensor):
    """A tensor that says it lives on a device this machine lacks."""

    _device: Any

    def __new__(cls, value: torch.Tensor, device: str) -> _Tensor:
        made = torch.Tensor._make_subclass(cls, value)
        made._device = torch.device(device)
        return made

    @property
    def device(self) -> Any:
        return self._device


aten = torch.ops.aten


def test_splits_are_explained_once_each() -> None:
    on_gpu = node(aten.add.Tensor, "cuda")
    on_cpu = node(aten.full.default, "cpu")
    found = cuts.splits(
        [
            on_gpu,
            node(aten._local_scalar_dense.default, "cpu", on_gpu),
            node(aten.nonzero.default, "cuda", on_gpu),
            node(aten.nonzero.default, "cuda", on_gpu),
            on_cpu,
            node(aten.mul.Tensor, "cpu", on_cpu),
            node(aten._to_copy.default, "cpu", on_gpu),
            node(torch.ops.prims.device_put.default, "cuda", on_cpu),
        ]
    )
    assert [cut.rule for cut in found] == ["PG201", "PG401", "PG102", "", "PG204", "PG106"]
    assert all(cut.source == "m.py:5" for cut in found)
    assert found[1].command == "pygraph-lint check m.py --select PG401"


def test_to_json_is_json() -> None:
    assert json.loads(Report((chosen(),)).to_json())["regions"][0]["choice"] == "graph"


def saved(folder: Path, **ranks: list[dict[str, Any]]) -> list[str]:
    files = []
    for name, regions in ranks.items():
        files.append(str(folder / f"{name}.json"))
        Path(files[-1]).write_text(Report(tuple(regions)).to_json())
    return files


def test_reports_of_ranks_are_merged_and_what_differs_is_marked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    refused = {**chosen(), "state": "refused", "choice": "", "reason": "It is too large."}
    files = saved(
        tmp_path, rank0=[chosen(), left()], rank1=[refused, left(), left()], rank2=[chosen()]
    )
    assert main(["report", *files]) == 0
    text = capsys.readouterr().out
    words = " ".join(text.split())
    assert text.startswith("3 ranks (rank0, rank1, rank2): 3 of 3 regions differ")
    assert "differs: state is serving on rank0, rank2; refused on rank1" in words
    assert "differs: only rank0, rank1 compiled it" in words
    assert "differs: only rank1 compiled it" in words
    assert all(len(line) <= WIDTH for line in text.splitlines())


def test_ranks_that_did_the_same_do_not_differ(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Each captures when it has seen enough calls: how many were served is its own affair.
    files = saved(tmp_path, a=[chosen()], b=[{**chosen(), "served": 1016, "unserved": 8}])
    assert main(["report", *files]) == 0
    text = capsys.readouterr().out
    assert "no region differs" in text
    assert "differs:" not in text


def test_one_unreadable_rank_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = saved(tmp_path, a=[chosen()])
    assert main(["report", *files, str(tmp_path / "none.json")]) == 2
    assert "none.json cannot be read" in capsys.readouterr().err
