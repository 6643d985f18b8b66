"""The complete DAG files in the guides of the docs."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import Any

from tests.support.repository import ROOT


@dataclass(frozen=True, slots=True)
class PageDag:
    """A DAG file of a page, with one job that a function in the file defines.

    Attributes:
        name: name of the file, and id of the DAG.
        code: content of the file.
    """

    name: str
    code: str

    @property
    def job(self) -> ast.FunctionDef:
        """The function of the job."""
        (found,) = [
            node
            for node in ast.walk(ast.parse(self.code))
            if isinstance(node, ast.FunctionDef) and any(isinstance(it, ast.Call) for it in node.decorator_list)
        ]
        return found

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters of the decorator: constants, and names of constants of the file."""
        constants: dict[str, Any] = {}
        for node in ast.parse(self.code).body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                constants[node.targets[0].id] = ast.literal_eval(node.value)
        (call,) = [it for it in self.job.decorator_list if isinstance(it, ast.Call)]
        return {
            str(it.arg): constants[it.value.id] if isinstance(it.value, ast.Name) else ast.literal_eval(it.value)
            for it in call.keywords
        }

    def script(self, replaced: dict[str, str]) -> str:
        """Return a script with the same function, in which texts are replaced."""
        job = self.job
        job.decorator_list = []
        function = ast.unparse(job)
        for old, new in replaced.items():
            assert old in function, f"{self.name} does not contain {old}"
            function = function.replace(old, new)
        return f"from airflow_adaptive.job import AdaptiveJob\n\n\n{function}\n\n\nAdaptiveJob({job.name}).run()\n"


def page_dags() -> dict[str, PageDag]:
    """Return the DAG files with a job in the guides, by the names in their first lines."""
    text = "\n".join(page.read_text() for page in sorted((ROOT / "docs" / "guides").glob("*.md")))
    found = re.findall(r"^```python\n# dags/(\w+)\.py\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return {name: PageDag(name, code) for name, code in found if "@task.adaptive_spark" in code}
