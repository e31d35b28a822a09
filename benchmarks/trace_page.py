"""The page of `pygraph-lint trace --output-format html` with 5,000 events, in a browser.

`make bench-trace-page CHROMIUM=/usr/bin/chromium` needs playwright and a Chromium.
Writes benchmarks/results/trace_page.json: seconds until the rows stand there, seconds of keys, what
the browser complained about, and how many requests it made. `--screenshots FOLDER` keeps pictures.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
from tests.lint.trace.traces import document, event, frame, write  # noqa: E402

RESULT = ROOT / "benchmarks" / "results" / "trace_page.json"
PLACES = 2500
RUNS = 5


def make_page(folder: Path) -> Path:
    """A page with two events on each of 2,500 lines."""
    head = "import torch\n\n\nclass Model(torch.nn.Module):\n"
    head += "    def forward(self, x: torch.Tensor) -> torch.Tensor:\n"
    lines = [f"        x = x + x.sum().item() * {i}\n" for i in range(PLACES)]
    model = folder / "model.py"
    model.write_text(head + "".join(lines) + "        return x\n", "utf-8")
    (folder / "pyproject.toml").write_text("[project]\nname = 'sample'\n", "utf-8")
    events = []
    for i in range(PLACES):
        at = [[i * 0.01, None]]
        place = [frame(model, 6 + i)]
        events.append(event("graph_break", place, 2 * i + 1, gb_id="GB0124", times=at))
        waits = [[i * 0.01, 0.001]] * 3
        events.append(event("sync", place, 2 * i + 2, frame=None, duration_s=0.003, times=waits))
    write(folder / "t.json", document(folder, [model], events, duration_s=26.0))
    command = [sys.executable, "-m", "pygraph_lint", "trace", "--join", "t.json"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    options = ["--output-format", "html", "--output-file", "page.html"]
    subprocess.run([*command, *options], cwd=folder, env=environment, check=False)
    return folder / "page.html"


def look(browser: Browser, page_file: Path, scheme: Any, pictures: Path | None) -> dict[str, Any]:
    """Open the page and use its keys."""
    context = browser.new_context(color_scheme=scheme, viewport={"width": 1300, "height": 900})
    page = context.new_page()
    errors: list[str] = []
    requests: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    began = time.perf_counter()
    page.goto(page_file.as_uri())
    page.wait_for_selector("#rows li")
    opened = time.perf_counter() - began
    page.keyboard.press("j")
    page.keyboard.press("ArrowDown")
    picked = page.get_attribute("#rows", "aria-activedescendant")
    if pictures is not None:
        page.screenshot(path=pictures / f"trace-{scheme}.png")
    page.keyboard.press("/")
    began = time.perf_counter()
    page.keyboard.type("sync 777")
    matching = page.inner_text("#number")
    filtered = time.perf_counter() - began
    page.keyboard.press("Escape")
    page.keyboard.press("t")
    turned = page.evaluate("document.documentElement.dataset.theme")
    context.close()
    return {
        "open_s": round(opened, 3),
        "filter_s": round(filtered, 3),
        "row_after_two_keys": picked,
        "matching": matching,
        "colors": f"{scheme}, after the key t {turned}",
        "errors": errors,
        "requests": len(requests),
    }


def main() -> None:
    given = argparse.ArgumentParser()
    given.add_argument("--screenshots", type=Path)
    pictures = given.parse_args().screenshots
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        page = make_page(Path(folder))
        browser = playwright.chromium.launch(
            executable_path=os.environ.get("CHROMIUM"), args=["--no-sandbox"]
        )
        seen = [look(browser, page, ("light", "dark")[n % 2], pictures) for n in range(RUNS)]
        result = {
            "browser": f"Chromium {browser.version}",
            "events": 2 * PLACES,
            "bytes": page.stat().st_size,
            "open_s_median": statistics.median(one["open_s"] for one in seen),
            "open_s_max": max(one["open_s"] for one in seen),
            "runs": seen,
        }
        browser.close()
    RESULT.write_text(json.dumps(result, indent=2) + "\n", "utf-8")
    print(json.dumps({key: value for key, value in result.items() if key != "runs"}))


if __name__ == "__main__":
    main()
