"""Sphinx configuration; ``make docs`` builds the site without touching the network."""

import re

import skpublicdp

project = "skpublicdp"
author = "The skpublicdp developers"
copyright = "The skpublicdp developers"
version = release = skpublicdp.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
]
myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 3

exclude_patterns = ["_build", "_templates"]
templates_path = ["_templates"]

# docstrings name other objects in single backticks; unknown names stay plain code
default_role = "py:obj"
autosummary_generate = True
autodoc_typehints = "none"  # numpydoc sections give the types
numpydoc_show_class_members = False  # the templates list the methods instead

html_theme = "furo"
html_title = f"skpublicdp {version}"
html_copy_source = False


def _shapes_as_code(app, what, name, obj, options, lines):
    """Set shapes such as ``(*batch, members)`` in code, before * and _ are taken for markup."""
    for index, line in enumerate(lines):
        if re.match(r"\S.*\bshape \(", line):
            lines[index] = re.sub(r"\([^()]*,[^()]*\)", r"``\g<0>``", line)


def setup(app):
    app.connect("autodoc-process-docstring", _shapes_as_code, priority=400)  # before numpydoc
