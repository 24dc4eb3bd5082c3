import tseslint from "typescript-eslint";

// What could put text of objects into the page as markup is refused: everything is shown as text.
const markup = [
  { selector: "JSXAttribute[name.name='dangerouslySetInnerHTML']", message: "Show text, not markup." },
  { selector: "MemberExpression[property.name=/^(innerHTML|outerHTML|insertAdjacentHTML)$/]", message: "Show text." },
  { selector: "MemberExpression[object.name=/^(localStorage|sessionStorage)$/]", message: "Keep nothing in the browser." },
];

export default tseslint.config(
  { ignores: ["node_modules/", "*.mjs", "eslint.config.js"] },
  ...tseslint.configs.strictTypeChecked,
  {
    languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } },
    rules: {
      "@typescript-eslint/no-floating-promises": [
        "error",
        { allowForKnownSafeCalls: [{ from: "package", name: "test", package: "node:test" }] },
      ],
      "no-restricted-syntax": ["error", ...markup],
      "@typescript-eslint/no-unused-vars": ["error", { ignoreRestSiblings: true }],
      "no-eval": "error",
      "no-implied-eval": "error",
      eqeqeq: "error",
      "@typescript-eslint/restrict-template-expressions": ["error", { allowNumber: true, allowBoolean: true }],
      "@typescript-eslint/no-confusing-void-expression": "off",
      "@typescript-eslint/no-misused-promises": ["error", { checksVoidReturn: { attributes: false } }],
      "@typescript-eslint/no-deprecated": "off",
    },
  },
);
