import js from "@eslint/js";
import tseslint from "typescript-eslint";

export default tseslint.config(
  { ignores: ["dist", "out", "node_modules"] },
  js.configs.recommended,
  ...tseslint.configs.strict,
  { files: ["*.mjs"], languageOptions: { globals: { process: "readonly", console: "readonly" } } },
);
