// Which Python has pygraph-lint with its server, and what to tell the user where none has.

import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import * as path from "node:path";

/** The oldest pygraph-lint that has the server. */
export const OLDEST: readonly [number, number] = [0, 2];
const SECONDS = 20;
// Prints what an interpreter has; works in every Python 3.
const QUESTION = `
import importlib.util, json, sys
found = {"python": list(sys.version_info[:2]), "version": None, "server": False}
if importlib.util.find_spec("pygraph_lint") is not None:
    try:
        import pygraph_lint
        found["version"] = pygraph_lint.__version__
    except Exception as error:
        found["version"] = "0"
    found["server"] = importlib.util.find_spec("pygls") is not None
print(json.dumps(found))
`;

/** What an interpreter has. */
export interface Has {
  python: [number, number];
  version: string | null;
  server: boolean;
}

/** Where interpreters may be, best first. */
export function candidates(
  setting: string,
  chosen: string | undefined,
  folder: string | undefined,
  windows: boolean,
  exists: (file: string) => boolean = existsSync,
): string[] {
  if (setting) {
    return [setting.replace("${workspaceFolder}", folder ?? "")];
  }
  const found = chosen ? [chosen] : [];
  for (const name of folder ? [".venv", "venv"] : []) {
    const parts = windows ? ["Scripts", "python.exe"] : ["bin", "python"];
    const file = path.join(folder ?? "", name, ...parts);
    if (exists(file)) {
      found.push(file);
    }
  }
  found.push(...(windows ? ["python", "py"] : ["python3", "python"]));
  return [...new Set(found)];
}

/** What an interpreter has; undefined where it cannot be run. */
export function ask(python: string): Promise<Has | undefined> {
  return new Promise((resolve) => {
    const options = { timeout: SECONDS * 1000, windowsHide: true };
    execFile(python, ["-c", QUESTION], options, (error, stdout) => {
      try {
        resolve(error ? undefined : (JSON.parse(stdout) as Has));
      } catch {
        resolve(undefined);
      }
    });
  });
}

/** Why an interpreter cannot be used, and the command that helps; undefined where it can. */
export function problem(
  python: string,
  has: Has | undefined,
): { text: string; command?: string } | undefined {
  if (!has) {
    return { text: `${python} cannot be run.` };
  }
  const install = `"${python}" -m pip install --upgrade "pygraph-lint[server]"`;
  if (has.python[0] < 3 || (has.python[0] === 3 && has.python[1] < 10)) {
    return { text: `${python} is Python ${has.python.join(".")}; pygraph-lint needs 3.10 or later.` };
  }
  if (has.version === null) {
    return { text: `pygraph-lint is not installed in ${python}.`, command: install };
  }
  const [major = 0, minor = 0] = has.version.split(".").map(Number);
  if (major < OLDEST[0] || (major === OLDEST[0] && minor < OLDEST[1])) {
    const wanted = OLDEST.join(".");
    const text = `pygraph-lint ${has.version} in ${python} is too old; the editor needs ${wanted}.`;
    return { text, command: install };
  }
  if (!has.server) {
    return { text: `pygraph-lint in ${python} lacks what its server needs.`, command: install };
  }
  return undefined;
}

/** The first interpreter that can be used, else what is wrong with the most likely one. */
export async function choose(
  pythons: string[],
  asked: (python: string) => Promise<Has | undefined> = ask,
): Promise<{ python: string; version: string } | { text: string; command?: string }> {
  let first: { text: string; command?: string } | undefined;
  for (const python of pythons) {
    const has = await asked(python);
    const wrong = problem(python, has);
    if (!wrong) {
      return { python, version: has?.version ?? "" };
    }
    if (!first || (has && first.command === undefined)) {
      first = wrong;
    }
  }
  return first ?? { text: "No Python was found." };
}
