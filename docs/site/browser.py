"""Look at pages of a built site in a browser: layout, requests, errors of scripts, and axe's rules.

`CHROMIUM` names a browser; without it playwright's own is used. Exit code 1 where something is
wrong; each is printed.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, sync_playwright

PAGES = (
    "index",
    "tutorial",
    "how-to/baseline",
    "how-to/record",
    "reference/command-line",
    "reference/rules/index",
    "reference/rules/PG301",
    "reference/api",
    "reference/report",
    "explanation/indirection",
    "explanation/benchmarks",
    "troubleshooting",
    "internals/glossary",
)
WIDTHS = {"phone": 375, "desk": 1280}
RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]}
SERIOUS = ("serious", "critical")
_TOO_WIDE = "document.documentElement.scrollWidth > document.documentElement.clientWidth"


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing for each file."""


def main(site: Path) -> int:
    """Print what is wrong; the exit code."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}/"
    wrong = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=os.environ.get("CHROMIUM"), args=["--no-sandbox"]
        )
        for scheme in ("light", "dark"):
            for name, width in WIDTHS.items():
                page = browser.new_page(
                    viewport={"width": width, "height": 900},
                    color_scheme=scheme,  # type: ignore[arg-type]
                )
                wrong += [f"{scheme} {name} {said}" for said in look(page, address)]
                page.close()
        browser.close()
    server.shutdown()
    print("\n".join(wrong) or f"{len(PAGES)} pages, light and dark, {len(WIDTHS)} widths: all well")
    return 1 if wrong else 0


def look(page: Page, address: str) -> Iterator[str]:
    """What is wrong on each page."""
    said: list[str] = []
    page.on("pageerror", lambda error: said.append(f"a script fails: {error}"))
    page.on(
        "request",
        lambda request: None if request.url.startswith(address) else said.append(request.url),
    )
    for name in PAGES:
        page.goto(f"{address}{name}.html")
        page.wait_for_timeout(250)
        if page.evaluate(_TOO_WIDE):
            said.append("wider than the window")
        found = Axe().run(page, options=RULES).response["violations"]
        said += [
            f"axe: {one['impact']}: {one['id']}: {one['nodes'][0]['html'][:100]}"
            for one in found
            if one["impact"] in SERIOUS
        ]
        yield from (f"{name}: {each}" for each in said)
        said.clear()


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
