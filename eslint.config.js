import js from "@eslint/js";
import globals from "globals";

const PAGES = ["glassformer/**/*.js"];

export default [
  { ignores: [".venv/", "build/", "dist/", "runs/"] },
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
  { files: ["tests/web/**/*.js", "*.config.js"], languageOptions: { globals: globals.node } },
];
