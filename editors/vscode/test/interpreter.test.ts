import assert from "node:assert/strict";
import { chmodSync, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import * as path from "node:path";
import test from "node:test";

import { ask, candidates, choose, type Has, problem } from "../src/interpreter";

const GOOD: Has = { python: [3, 11], version: "0.2.0", server: true };

test("the setting wins, then what was chosen, then the folder's environment", () => {
  const all = () => true;
  assert.deepEqual(candidates("/a/python", "/b/python", "/f", false, all), ["/a/python"]);
  assert.deepEqual(candidates("${workspaceFolder}/env/python", undefined, "/f", false, all), [
    "/f/env/python",
  ]);
  assert.deepEqual(candidates("", "/b/python", "/f", false, (file) => file.includes(".venv")), [
    "/b/python",
    path.join("/f", ".venv", "bin", "python"),
    "python3",
    "python",
  ]);
  const windows = candidates("", undefined, "/f", true, all);
  assert.equal(windows[0], path.join("/f", ".venv", "Scripts", "python.exe"));
  assert.deepEqual(candidates("", undefined, undefined, false, all), ["python3", "python"]);
});

test("each thing that is wrong has a sentence, and a command where one helps", () => {
  assert.equal(problem("p", GOOD), undefined);
  assert.equal(problem("p", { ...GOOD, version: "1.0.0" }), undefined);
  assert.match(problem("p", undefined)?.text ?? "", /cannot be run/);
  assert.match(problem("p", { ...GOOD, python: [3, 8] })?.text ?? "", /3\.8.*needs 3\.10/);
  const cases: [Partial<Has>, RegExp][] = [
    [{ version: null }, /not installed/],
    [{ version: "0.1.9" }, /0\.1\.9 .*too old; the editor needs 0\.2/],
    [{ server: false }, /lacks what its server needs/],
  ];
  for (const [change, said] of cases) {
    const wrong = problem("/x y/python", { ...GOOD, ...change });
    assert.match(wrong?.text ?? "", said);
    assert.equal(wrong?.command, '"/x y/python" -m pip install --upgrade "pygraph-lint[server]"');
  }
});

test("the first that can be used is taken; else the most useful complaint is made", async () => {
  const has: Record<string, Has | undefined> = { b: { ...GOOD, version: null }, c: GOOD };
  const asked = (python: string) => Promise.resolve(has[python]);
  assert.deepEqual(await choose(["a", "b", "c"], asked), { python: "c", version: "0.2.0" });
  const wrong = await choose(["a", "b"], asked);
  assert.ok("text" in wrong && /not installed in b/.test(wrong.text));
  assert.deepEqual(await choose([], asked), { text: "No Python was found." });
});

test("a program that is no Python, or none at all, is no trouble", async () => {
  const folder = mkdtempSync(path.join(tmpdir(), "pygraph-"));
  const strange = path.join(folder, "python");
  writeFileSync(strange, "#!/bin/sh\necho hello\n");
  chmodSync(strange, 0o755);
  assert.equal(await ask(strange), undefined);
  assert.equal(await ask(path.join(folder, "none")), undefined);
});

test("a real Python says what it has", async (t) => {
  const has = await ask(process.env["PYGRAPH_PYTHON"] ?? "python3");
  if (!has) {
    t.skip("there is no python3");
    return;
  }
  assert.equal(has.python[0], 3);
  if (process.env["PYGRAPH_PYTHON"]) {
    assert.equal(problem("p", has), undefined);
  }
});
