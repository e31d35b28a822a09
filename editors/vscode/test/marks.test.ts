import assert from "node:assert/strict";
import test from "node:test";

import { byStatus, label, type Mark, MarkStore } from "../src/marks";

function mark(line: number, status: string, text = ""): Mark {
  return { range: { start: { line, character: 0 }, end: { line, character: 5 } }, status, text };
}

test("a mark says its status and what happened", () => {
  assert.equal(label(mark(1, "confirmed", "happened 3 times")), "● trace: confirmed, happened 3 times");
  assert.equal(label(mark(1, "refuted", "refuted")), "○ trace: refuted");
});

test("a line has one mark of each status, and unknown ones are not shown", () => {
  const found = byStatus([mark(1, "missed"), mark(1, "missed"), mark(2, "missed"), mark(3, "unknown")]);
  assert.deepEqual(found.get("missed")?.map((one) => one.range.start.line), [1, 2]);
  assert.equal(found.get("confirmed")?.length, 0);
  assert.equal(found.has("unknown"), false);
});

test("marks of a text that has changed are not shown", () => {
  const store = new MarkStore();
  store.put({ uri: "file:///a.py", version: 3, marks: [mark(1, "missed")] });
  assert.equal(store.of("file:///a.py", 3).length, 1);
  assert.equal(store.of("file:///a.py", 4).length, 0);
  store.put({ uri: "file:///a.py", version: null, marks: [mark(1, "missed")] });
  assert.equal(store.of("file:///a.py", 4).length, 1);
  store.forget("file:///a.py");
  assert.equal(store.of("file:///a.py", 3).length, 0);
});
