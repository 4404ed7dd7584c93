import js from "@eslint/js";
import globals from "globals";

const PAGES = ["glassformer/**/*.js", "docs/site/*.js"];

export default [
  { ignores: [".venv/", "build/", "dist/", "runs/", "site/"] },
  js.configs.recommended,
  {
    rules: {
      curly: ["error", "multi-line"],
      eqeqeq: "error",
      "max-lines-per-function": ["error", { max: 60, skipBlankLines: true, skipComments: true }],
      "no-shadow": "error",
      "no-var": "error",
      "prefer-const": "error",
    },
  },
  { files: PAGES, languageOptions: { globals: globals.browser } },
  { files: ["tests/web/**/*.js", "tests/serving/*.mjs", "*.config.js"], languageOptions: { globals: globals.node } },
];
