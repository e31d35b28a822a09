"""What is measured on newer versions: shrinking, labels, plain classes, coverage, blind halves."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks.lint_truth import __main__ as command
from benchmarks.lint_truth import built, worker
from benchmarks.lint_truth.builders import Entry
from benchmarks.lint_truth.claims import break_claims
from benchmarks.lint_truth.device_breaks import (
    READ,
    add_breaks,
    as_on_device,
    programs_with,
    read_sites,
)
from benchmarks.lint_truth.findings import Finding
from benchmarks.lint_truth.ghost import observe
from benchmarks.lint_truth.ghost_patches import cuda_answered, unseen_recorded
from benchmarks.lint_truth.newer import labels, shrink
from benchmarks.lint_truth.newer.called import Called, Sampler
from benchmarks.lint_truth.score import score, withhold
from benchmarks.lint_truth.truth import part_of
from benchmarks.lint_truth.versions import SETS

FILE = "transformers/models/a/modeling_a.py"


class _Config:
    """As much of a configuration as shrinking touches."""

    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)

    def to_dict(self) -> dict[str, Any]:
        return dict(self.__dict__)


def test_every_set_has_its_own_files() -> None:
    for name in ("truth_file", "score_file", "records"):
        assert len({getattr(each, name) for each in SETS.values()}) == len(SETS)


class _Layered(_Config):
    """Six layers, of which the third has an expert and the last another kind of attention."""

    def __init__(self) -> None:
        super().__init__(
            num_hidden_layers=6,
            layer_types=["sliding"] * 5 + ["full"],
            mlp_layer_types=["dense", "dense", "sparse", "dense", "dense", "dense"],
            pad_token_id=None,
        )


def test_one_layer_of_each_kind_is_kept() -> None:
    config = _Layered()
    config.num_hidden_layers = 2
    shrink.fit(config)
    assert config.num_hidden_layers == 3
    assert config.layer_types == ["sliding", "sliding", "full"]
    assert config.mlp_layer_types == ["dense", "sparse", "dense"]
    assert config.pad_token_id == 1


def test_rotary_sections_fill_half_a_head() -> None:
    rope = {"mrope_section": [24, 20, 20]}
    config = _Config(head_dim=16, rope_parameters=rope, num_hidden_layers=2)
    shrink.fit(config)
    assert sum(rope["mrope_section"]) == 8


def test_fields_shrink_in_place_and_overrides_win() -> None:
    class Small(_Config):
        def __init__(self) -> None:
            super().__init__(vocab_size=50000, num_hidden_layers=40, image_token_id=49999, depth=1)

    config = shrink.WAYS[-1](Small, {"num_hidden_layers": 3})
    assert (config.vocab_size, config.num_hidden_layers, config.depth) == (120, 3, 1)
    assert config.image_token_id == 2


@pytest.mark.parametrize(
    ("cls", "names", "expected"),
    [
        ("AForSequenceClassification", ["input_ids", "labels"], {"labels"}),
        ("AForQuestionAnswering", ["start_positions", "end_positions"], None),
        ("AForUniversalSegmentation", ["mask_labels", "class_labels"], None),
        ("AModel", ["labels"], set()),
        ("AForCausalLM", ["input_ids"], set()),
    ],
)
def test_labels_are_those_that_forward_takes(
    cls: str, names: list[str], expected: set[str] | None
) -> None:
    made = labels.labels_for(cls, names, _Config(num_labels=3), {})
    assert set(made) == (set(names) if expected is None else expected)


def test_detection_targets_differ_in_number() -> None:
    rows = labels.labels_for("AForObjectDetection", ["labels"], _Config(num_labels=3), {})["labels"]
    assert len({len(row["boxes"]) for row in rows}) == len(rows)
    assert all(len(row["boxes"]) == len(row["class_labels"]) for row in rows)


class _Scheduler:
    """A scheduler whose times lie where `set_timesteps` puts them."""

    is_scale_input_called = False

    def set_timesteps(self, count: int, device: Any) -> None:
        self.timesteps = torch.arange(count, device=device)

    def step(self, sample: torch.Tensor, timestep: torch.Tensor) -> torch.Tensor:
        return sample * float(timestep)


def test_a_sampler_gets_the_time_of_its_step() -> None:
    sampler = Sampler(_Scheduler(), "step", {"count": 4})
    sampler.prepare(torch.device("cpu"))
    assert sampler(step=3, sample=torch.ones(2)).tolist() == [3.0, 3.0]
    assert sampler.scheduler.is_scale_input_called


def test_times_are_put_on_the_pretended_device_unobserved() -> None:
    sampler = Sampler(_Scheduler(), "step", {"count": 4})
    seen: list[torch.device] = []

    def call() -> None:
        seen.append(sampler.times[0].device)

    events = observe_prepared(sampler, call)
    assert seen == [torch.device("cuda", 0)]
    assert events == set()


def observe_prepared(sampler: Sampler, call: Any) -> set[Any]:
    """The pretended device's events, with the sampler prepared on it."""
    return observe(
        call, list(sampler.parameters()), prepare=lambda: worker.prepare_on(sampler, "cuda")
    )


def test_an_object_that_is_no_module_is_made_on_the_device() -> None:
    made: list[torch.device] = []

    def make(device: torch.device) -> Any:
        made.append(device)
        return lambda a, b, scale: (a - b) * scale

    called = Called(make, ("a", "b"))
    called.prepare(torch.device("cpu"))
    assert called(scale=2, b=torch.ones(1), a=torch.zeros(1)).item() == -2
    assert made == [torch.device("cpu")]


def test_every_call_of_a_list_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[int] = []

    class Model(torch.nn.Module):
        def forward(self, step: int) -> None:
            given.append(step)

    calls = [{"step": 0}, {"step": 1}, {"step": 2}]
    monkeypatch.setattr(worker, "build", lambda entry, mode: (Model(), calls))
    worker.STAGES["lines"](Entry("m", "p", "M"), "eval")
    assert given == [0, 1, 2]


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        ("_ModelFailed: _ModelFailed: not tiny: 900 million parameters (r.py:1)", "still large"),
        ("_ModelFailed: KeyError: 'x' (r.py:1)", "no tiny configuration"),
        ("ImportError: X requires the y library (z.py:1)", "another package"),
        ("TypeError: forward() missing 1 required positional argument: 'p'", "unknown inputs"),
        ("RuntimeError: mat1 and mat2 shapes cannot be multiplied", "no inputs"),
    ],
)
def test_reasons(error: str, reason: str) -> None:
    assert reason in built.reason_of(error)


def test_coverage_counts_by_kind_and_reason() -> None:
    models = {
        "AModel": {"package": "p", "family": "A", "modes": {"eval": {"graphs": 1}}},
        "loss/B": {"package": "p", "family": "B", "modes": {"train": {"graphs": 0}}},
        "CModel": {
            "package": "p",
            "family": "C",
            "modes": {"eval": {"errors": {"lines": "_ModelFailed: x"}}},
        },
    }
    counted = built.coverage(models)
    assert (counted["measured"], counted["not_built"]) == (2, 1)
    assert counted["by_kind"] == {"p": 1, "loss": 1}
    assert counted["reasons"] == {"no tiny configuration was found": 1}


@pytest.mark.parametrize(
    ("file", "part"),
    [
        ("diffusers/schedulers/scheduling_ddim.py", "samplers"),
        ("transformers/loss/loss_utils.py", "losses"),
        ("timm/loss/jsd.py", "losses"),
        ("transformers/generation/logits_process.py", "generation"),
        ("timm/models/vit.py", "models"),
        ("transformers/trainer.py", None),
    ],
)
def test_parts(file: str, part: str | None) -> None:
    assert part_of(file) == part


def _finding(line: int, gb_type: str = "") -> Finding:
    return Finding(FILE, line, "PG1", "m", True, True, False, False, False, gb_type)


def _truth() -> dict[str, Any]:
    def site(line: int, kind: str, what: str, seen_in: str) -> dict[str, Any]:
        kinds = {kind: {"what": [what], "in": [seen_in]}}
        return {"file": FILE, "line": line, "text": f"line {line}", "kinds": kinds}

    return {
        "models": {"A": {"half": "tune"}, "B": {"half": "held-out"}},
        "sites": [
            site(1, "break", "Data-dependent branching", "A:eval"),
            site(2, "break", "Dynamic shape operator", "B:eval"),
            site(3, "sync", "nonzero", "B:eval"),
            site(4, "dynamo_error", "TypeError", "B:eval"),
        ],
        "files": {FILE: ["A", "B"]},
        "ran": {FILE: "1-9"},
        "traced": {FILE: "1-7"},
    }


def test_claims_of_breaks_and_their_names() -> None:
    findings = [_finding(line) for line in (2, 3, 4, 8)]
    findings += [_finding(1, "Data-dependent branching"), _finding(1, "Wrong")]
    result = break_claims(_truth(), findings, lambda file, line: line)
    # line 3 only synchronises; 4 is Dynamo's own error and 8 was never traced
    assert result["break_claims"] == {"claims": 3, "without_a_break": 1, "share": 0.3333}
    assert result["gb_types"] == {"matched": 2, "named": 1, "right": 1, "share": 0.5}


def test_names_are_not_available_where_no_finding_has_one() -> None:
    result = break_claims(_truth(), [_finding(1)], lambda file, line: line)
    assert result["gb_types"] is None


def test_a_claim_at_a_statement_that_never_ran_is_not_judged() -> None:
    truth = _truth() | {"ran": {FILE: "1-2"}}
    result = break_claims(truth, [_finding(1), _finding(3)], lambda file, line: line)
    assert result["break_claims"] == {"claims": 1, "without_a_break": 0, "share": 0.0}


LEAKED = "requires_grad_() intermediate leaked as output"


@pytest.mark.parametrize(
    ("line", "gb_type", "first", "last", "counted"),
    [
        (3, "Data-dependent branching", 1, 4, 0),  # the device was waited for, and nothing traced
        (3, "Data-dependent branching", 4, 9, 1),  # in another function
        (5, LEAKED, 1, 6, 0),
        (5, LEAKED, 6, 9, 1),
        (5, "Data-dependent branching", 1, 6, 1),  # traced without a break
    ],
)
def test_a_break_that_another_one_hides_is_not_judged(
    line: int, gb_type: str, first: int, last: int, counted: int
) -> None:
    frame = {"file": FILE, "line": first, "end": last, "name": "f", "why": "graph break in loop"}
    truth = _truth() | {"skipped_frames": [frame]}
    claims = break_claims(truth, [_finding(line, gb_type)], lambda file, line: line)
    assert claims["break_claims"]["claims"] == counted


def test_a_claim_is_right_by_a_break_in_a_model_of_the_other_half() -> None:
    findings = [_finding(line) for line in (1, 2, 3)]
    halves = score(_truth(), findings, lambda f, n: n, lambda f, n: "t")["halves"]
    assert halves["tune"]["break_claims"] == {"claims": 3, "without_a_break": 1, "share": 0.3333}
    assert halves["held-out"]["break_claims"]["claims"] == 0
    assert [each["place"] for each in halves["tune"]["claims_without_a_break"]] == [f"{FILE}:3"]


def test_a_break_that_only_a_device_has_is_added_where_a_number_is_read() -> None:
    def site(line: int, *kinds: str) -> dict[str, Any]:
        what = {"what": [READ], "in": ["A:eval"]}
        return {"file": FILE, "line": line, "end": line, "kinds": dict.fromkeys(kinds, what)}

    truth = {"sites": [site(1, "sync"), site(2, "sync", "break"), site(3, "h2d"), site(4, "sync")]}
    sites = read_sites(truth)
    assert programs_with(sites) == ["A:eval"]
    seen = [{"file": FILE, "line": line, "kind": "Data dependent operator"} for line in (1, 2, 3)]
    assert add_breaks(sites, "B:eval", seen) == 0
    assert add_breaks(sites, "A:eval", seen) == 1
    assert truth["sites"][0]["kinds"]["break"]["what"] == ["Data dependent operator"]
    assert [each["line"] for each in read_sites(truth)] == [4]


def test_a_number_of_an_input_is_read_while_tracing_only_on_the_cpu() -> None:
    def pick(x: Any, t: Any) -> Any:
        return x[t] * 2

    x, t = torch.randn(4), torch.tensor(1)
    torch._dynamo.reset()
    torch.compile(pick, backend="eager", fullgraph=True)(x, t)
    torch._dynamo.reset()
    with as_on_device(), pytest.raises(torch._dynamo.exc.UserError):
        torch.compile(pick, backend="eager", fullgraph=True)(x, t)


def test_of_a_blind_half_only_numbers_are_told() -> None:
    truth = _truth()
    withhold(truth)
    assert [("text" in site) for site in truth["sites"]] == [True, False, False, False]

    def scored(table: dict[str, Any]) -> dict[str, Any]:
        return score(table, [_finding(1)], lambda f, n: n, lambda f, n: "t")["halves"]

    hidden, shown = scored(truth)["held-out"], scored(_truth())["held-out"]
    assert (
        hidden["breaks"]
        == shown["breaks"]
        == {
            "sites": 1,
            "found": 0,
            "recall": 0.0,
            "noticed": 0,
        }
    )
    assert not [name for name in (*hidden, *shown) if name.startswith("missed")]
    assert "missed_breaks" in scored(copy.deepcopy(truth))["tune"]


def test_stand_ins_of_the_pretended_device_stay_good_for_isinstance() -> None:
    seen: list[tuple[int, str]] = []
    with unseen_recorded(lambda made, name: seen.append((made.numel(), name))), cuda_answered():
        made = torch.LongTensor([1, 2])
        assert isinstance(made, torch.LongTensor)
        assert not isinstance(made, torch.FloatTensor)
        assert torch.cuda.get_device_capability() == (9, 0)
        generator = torch.Generator(device="cuda")
        assert isinstance(generator, torch.Generator)
    assert seen == [(2, "LongTensor")]
    assert generator.device == torch.device("cpu")
    assert torch.Generator is type(generator)


def test_findings_in_stripped_copies_are_told_of_the_package(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    package = tmp_path / "site" / "pkg"
    package.mkdir(parents=True)
    (package / "a.py").write_text("def f(x: int) -> int:\n    return x\n")
    read: list[str] = []

    def lint(roots: dict[str, str], options: list[str]) -> list[dict[str, Any]]:
        path = Path(roots["pkg"]) / "a.py"
        read.append(path.read_text())
        return [{"filename": str(path)}]

    monkeypatch.setattr(command, "_run_linter", lint)
    monkeypatch.setattr(command, "_linter", lambda: {"commit": "c"})
    rows = command._linted({"pkg": f"{package}/"}, True, [])
    assert rows["default"] == rows["preview"] == [{"filename": str(package / "a.py")}]
    assert ": int" not in read[0]
    assert rows["linter"] == {"commit": "c", "options": [], "stripped": True}
