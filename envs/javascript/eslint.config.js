import js from "@eslint/js";
import globals from "globals";

export default [
  js.configs.recommended,
  {
    languageOptions: { ecmaVersion: 2023, sourceType: "module", globals: globals.browser },
    rules: {
      "eqeqeq": "error", "no-shadow": "error", "prefer-const": "error", "no-var": "error",
      "no-implied-eval": "error", "no-eval": "error", "max-lines": ["error", 400],
      "max-lines-per-function": ["error", 60], "max-len": ["error", { code: 100, ignoreComments: true }],
      "object-shorthand": "error", "no-restricted-properties": ["error",
        { property: "innerHTML", message: "names come from strangers: use text" },
        { property: "outerHTML", message: "names come from strangers: use text" }],
    },
  },
];
