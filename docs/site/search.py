"""Ask the built site's search the committed questions: an answer is among the first three hits.

Runs the scripts that rank in the browser (`assets/search_worker.js`, then the theme's
`assets/javascripts/workers/search.*.min.js`) on the built index. Exit code 1 where no
answer is among the first three.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from py_mini_racer import MiniRacer

QUESTIONS = Path(__file__).with_name("search_questions.json")
FIRST = 3
# What a worker has in a browser: messages in, messages out.
_WORKER = """
var self = globalThis, said = null, listeners = [];
var addEventListener = (kind, listener) => listeners.push(listener);
var importScripts = () => {}, location = { search: "" };
var URLSearchParams = class { get() { return null; } };
var postMessage = (message) => { said = message; };
var console = { log() {}, warn() {}, error() {} };
"""
_ASK = """
(function (data) {
  const event = { data: JSON.parse(data) };
  for (const listener of listeners) listener(event);
})
"""


class Search:
    """The search of a built site."""

    def __init__(self, site: Path) -> None:
        (script,) = (site / "assets" / "javascripts" / "workers").glob("search.*.min.js")
        self._engine = MiniRacer()
        words = (site / "site" / "assets" / "search_worker.js").read_text(encoding="utf-8")
        self._engine.eval(_WORKER + words + script.read_text(encoding="utf-8"))
        index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
        index["options"] = {"suggest": False}
        self._send({"type": 0, "data": index})

    def pages(self, query: str) -> list[str]:
        """The pages found, best first."""
        found = self._send({"type": 2, "data": query})
        return [group[0]["location"].partition("#")[0] for group in found["data"]["items"]]

    def _send(self, message: object) -> dict[str, dict[str, list[list[dict[str, str]]]]]:
        text = json.dumps(json.dumps(message))
        self._engine.eval(f"{_ASK}({text})")
        answer = json.loads(str(self._engine.eval("JSON.stringify(said)")))
        assert isinstance(answer, dict)
        return answer


def main(site: Path) -> int:
    """Print each question with the rank of its answer; the exit code."""
    search = Search(site)
    late = 0
    for question in json.loads(QUESTIONS.read_text(encoding="utf-8"))["questions"]:
        found = search.pages(question["query"])
        rank = next((n for n, page in enumerate(found, 1) if page in question["pages"]), None)
        if rank is None or rank > FIRST:
            late += 1
            print(f"{rank or '-'}  {question['query']!r} finds {', '.join(found[:FIRST])}")
        else:
            print(f"{rank}  {question['query']!r}")
    print(f"{late} questions without an answer among the first {FIRST}")
    return 1 if late else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
