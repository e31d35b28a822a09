// One file for the editor; with --test the tests, for node.
import { readdirSync } from "node:fs";
import { build } from "esbuild";

const common = { bundle: true, platform: "node", format: "cjs", target: "node20", logLevel: "warning" };

if (process.argv.includes("--test")) {
  const tests = readdirSync("test").filter((name) => name.endsWith(".test.ts"));
  await build({ ...common, entryPoints: tests.map((name) => `test/${name}`), outdir: "out" });
} else {
  await build({
    ...common,
    entryPoints: ["src/extension.ts"],
    outfile: "dist/extension.js",
    external: ["vscode"],
    minify: true,
  });
}
