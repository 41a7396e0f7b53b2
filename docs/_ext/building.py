"""What the site needs beyond its extensions: short examples, and mathematics without a network."""

import importlib
import importlib.util
from pathlib import Path
from shutil import copy2, copytree

from docutils import nodes
from sphinx.addnodes import desc_signature

ARGUMENTS = {
    "alpha_tradeoff": ["--seeds", "4"],
    "covid_testing": ["--seeds", "1", "--folds", "2"],
    "few_labels": ["--seeds", "1"],
}
"""Fewer repetitions where an example would hold the gallery up."""

ORDER = (
    "quickstart",
    "from_frame_to_model",
    "income_boosting",
    "adult_queries",
    "no_public_rows",
    "project_budget",
    "few_labels",
)
"""What a newcomer sees first; the others follow by name."""


class ExampleOrder:
    """Key of an example in the gallery."""

    def __init__(self, src_dir):
        self.src_dir = src_dir

    def __call__(self, filename):
        """Return what examples are sorted by."""
        name = Path(filename).stem
        return (ORDER.index(name) if name in ORDER else len(ORDER), name)


def quick_arguments(gallery_conf, script_vars):
    """Return the command line of an example in the gallery."""
    return ARGUMENTS.get(Path(script_vars["src_file"]).stem, [])


def copy_mathjax(app, exception):
    """Copy the one script and the fonts that formulas need."""
    if exception is not None or app.builder.format != "html":
        return
    package = importlib.util.find_spec("sphinx-mathjax-offline").submodule_search_locations[0]
    source, target = Path(package, "static", "mathjax"), Path(app.outdir, "_static", "mathjax")
    fonts = Path("output", "chtml", "fonts", "woff-v2")
    copytree(source / fonts, target / fonts, dirs_exist_ok=True)
    copy2(source / "tex-chtml.js", target)


def name_where_defined(app, doctree):
    """Let names also be found under the module that defines them: pages of source link there."""
    for signature in doctree.findall(desc_signature):
        module, name = signature.get("module"), signature.get("fullname")
        if module and name:
            outer = getattr(importlib.import_module(module), name.split(".")[0], None)
            real = f"{getattr(outer, '__module__', module)}.{name}"
            if real not in signature["ids"]:
                signature["ids"].append(real)


def trim_code(app, doctree):
    """Drop the empty line that ends the last output of a doctest."""
    for block in doctree.findall(nodes.literal_block):
        text = block.astext().rstrip()
        if block.rawsource == block.astext() != text:
            block.rawsource = text
            block.children = []
            block += nodes.Text(text)


def setup(app):
    """Register with Sphinx."""
    app.connect("doctree-read", trim_code)
    app.connect("doctree-read", name_where_defined)
    app.connect("build-finished", copy_mathjax)
    return {"parallel_read_safe": True}
