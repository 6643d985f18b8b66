import reactHooks from "eslint-plugin-react-hooks";
import tseslint from "typescript-eslint";

export default tseslint.config(
  { ignores: ["src/generated", "src/api/schemas.ts"] },
  ...tseslint.configs.strict,
  reactHooks.configs.flat["recommended-latest"],
  {
    rules: {
      complexity: ["error", 12],
      eqeqeq: "error",
      "max-lines": ["error", 300],
      "no-console": "error",
      "no-restricted-globals": ["error", "alert", "confirm", "prompt"], // Airflow's frame shows none of them
      "no-restricted-syntax": [
        "error",
        { selector: "JSXAttribute[name.name='dangerouslySetInnerHTML']", message: "Names are text." },
        { selector: "AssignmentExpression[left.property.name='innerHTML']", message: "Names are text." },
      ],
    },
  },
);
