"""The package's own tests, run on the fixed copies: what passed before has to pass after.

transformers' source distribution holds the tests that all its models share
(``tests/test_modeling_common.py``), but not the small models that they are run on; those are this
benchmark's. Nothing is downloaded: ``--source`` is the unpacked distribution.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from benchmarks.fix_models.copies import BEFORE, PACKAGE

ROOT = Path(__file__).resolve().parents[2]
FIXED = ("safe", "unsafe")
MODELS = [
    "BartModel",
    "BambaModel",
    "BigBirdModel",
    "DetrModel",
    "LongformerModel",
    "LEDModel",
    "Wav2Vec2Model",
    "XLMModel",
]


def outcomes(copy: Path, source: Path, models: list[str]) -> dict[str, str]:
    """Test name -> "passed", "failed" or "skipped", with the package of one copy."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        here = Path(__file__).with_name("shared_tests.py")
        command = [sys.executable, "-m", "pytest", "-q", str(here), f"--junitxml={report}"]
        command += ["-p", "no:cacheprovider", "-c", os.devnull, f"--rootdir={ROOT}"]
        paths = [str(copy), str(source), str(ROOT), os.environ.get("PYTHONPATH", "")]
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(paths),
            "FIX_MODELS_TESTED": " ".join(models),
            "HF_HUB_OFFLINE": "1",
        }
        subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, check=False)
        return {
            f"{case.get('classname', '').rpartition('.')[2]}.{case.get('name')}": _outcome(case)
            for case in ElementTree.parse(report).iter("testcase")
        }


def _outcome(case: ElementTree.Element) -> str:
    found = {child.tag for child in case}
    if "skipped" in found:
        return "skipped"
    return "failed" if found & {"failure", "error"} else "passed"


def compared(seen: dict[str, dict[str, str]]) -> dict[str, Any]:
    """Counts for each copy, and the tests that passed before the fixes and do not after."""
    before = seen[BEFORE]
    passed = {name for name, outcome in before.items() if outcome == "passed"}
    return {
        "outcomes": {copy: dict(Counter(found.values())) for copy, found in seen.items()},
        "passed_before": len(passed),
        "no_longer_pass": {
            copy: sorted(name for name in passed if found.get(name) != "passed")
            for copy, found in seen.items()
            if copy != BEFORE
        },
    }


def main() -> int:
    """Command line; returns 1 if a test that passed before does not pass after."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=ROOT / ".venv-truth" / "fix_models")
    parser.add_argument("--source", type=Path, required=True, help="unpacked distribution")
    parser.add_argument("--models", nargs="*", default=MODELS)
    results = ROOT / "benchmarks" / "results"
    parser.add_argument("--out", type=Path, default=results / "fix_models_own_tests.json")
    arguments = parser.parse_args()
    folder, source = arguments.folder.resolve(), arguments.source.resolve()
    seen: dict[str, dict[str, str]] = {}
    for copy in (BEFORE, *FIXED):
        if not (folder / copy / PACKAGE).is_dir():
            raise SystemExit(f"{folder / copy}: no copy; make it with the step `fix`")
        seen[copy] = outcomes(folder / copy, source, arguments.models)
        print(copy, dict(Counter(seen[copy].values())), flush=True)
    result = {"package": PACKAGE, "models": arguments.models, **compared(seen)}
    arguments.out.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result["no_longer_pass"], indent=1))
    return int(any(result["no_longer_pass"].values()))


if __name__ == "__main__":
    raise SystemExit(main())
