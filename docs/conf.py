"""The documentation site: `make docs` builds it into `build/docs`."""

from __future__ import annotations

from docutils import nodes
from sphinx.application import Sphinx

from airflow_adaptive import __version__

project = "airflow-adaptive"
author = "the developers of airflow-adaptive"
version = release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton", "sphinxcontrib.mermaid"]

myst_heading_anchors = 4
myst_fence_as_directive = ["mermaid"]

default_role = "code"  # docstrings write code between single backticks, as Markdown does
autodoc_typehints = "none"  # the docstrings describe the parameters
autodoc_member_order = "bysource"
napoleon_google_docstring = True
napoleon_custom_sections = [("Source", "notes_style")]

html_theme = "furo"
html_title = f"airflow-adaptive {release}"
html_static_path = ["_static"]
html_theme_options = {
    "source_repository": "https://github.com/airflow-adaptive/airflow-adaptive/",
    "source_branch": "main",
    "source_directory": "docs/",
}
html_copy_source = False
mermaid_use_local = "mermaid/mermaid.esm.min.mjs"  # `make docs` puts it there; a page requests nothing from other sites
copybutton_prompt_text = "$ "

linkcheck_ignore = [r"https://github\.com/airflow-adaptive/.*"]


def add_dark_pictures(_: Sphinx, document: nodes.document) -> None:
    """Put the picture of the dark theme beside each `*-light.png`. The theme of the site shows one of them, and GitHub the light one."""
    for light in list(document.findall(nodes.image)):
        name = light["uri"].replace("-light.png", "-dark.png")
        if name != light["uri"]:
            dark = light.copy()
            dark.update_basic_atts({"classes": ["only-dark"]})
            dark["uri"] = name
            light["classes"].append("only-light")
            light.parent.insert(light.parent.index(light) + 1, dark)


def setup(app: Sphinx) -> None:
    """Run before Sphinx collects the pictures of a page, which has the priority 500."""
    app.connect("doctree-read", add_dark_pictures, priority=400)
