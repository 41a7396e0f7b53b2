"""What the site needs beyond its extensions: short examples, searched words, offline formulas."""

import ast
import importlib
import importlib.util
from pathlib import Path
from shutil import copy2, copytree

from docutils import nodes
from sphinx.addnodes import desc_signature, index
from sphinx.transforms import SphinxTransform

ARGUMENTS = {
    "alpha_tradeoff": ["--seeds", "4"],
    "covid_testing": ["--seeds", "1", "--folds", "2"],
    "few_labels": ["--seeds", "1"],
}
"""Fewer repetitions where an example would hold the gallery up."""

SECTIONS = {
    "Start here": ("quickstart", "from_frame_to_model"),
    "Predict": (
        "income_boosting",
        "embeddings",
        "few_labels",
        "covid_testing",
        "hypothesis_classes",
        "alpha_tradeoff",
    ),
    "Publish statistics and scores": ("adult_queries", "private_roc", "project_budget"),
    "Public rows": ("no_public_rows", "public_rows_drift"),
    "Large tables": ("larger_than_memory",),
    "Attacks": ("attack_and_defence",),
}
"""Sections of the gallery, each with its examples in order."""

SEARCHED = {
    "user_guide/boosting": ("categorical columns", "missing values"),
    "user_guide/embeddings": ("embedding", "embeddings", "images", "sentence embeddings", "text"),
    "user_guide/how_many_public_rows": ("how many public rows", "number of public rows"),
    "user_guide/in_service": ("deployment", "drift", "monitor", "monitoring", "threshold"),
    "user_guide/large_tables": ("SQL", "database"),
    "user_guide/pipelines": ("grid search", "GridSearchCV", "leak", "one-hot encoding"),
    "user_guide/public_rows": ("no public data",),
    "user_guide/publish_survey": ("Excel", "survey", "weights", "xlsx"),
    "user_guide/query_release": (
        *("contingency table", "cross table", "crosstab", "household", "households"),
        *("survey weights", "synthetic data"),
    ),
    "user_guide/reports": ("model card", "data protection officer"),
    "user_guide/scores": ("AUC", "drift", "monitor", "ROC", "threshold"),
    "user_guide/serving": ("JSON", "latency", "deploy"),
    "user_guide/text_and_codes": ("free text", "text"),
    "user_guide/why_believe_it": ("audit", "membership inference", "run audit", "verify"),
}
"""Words that readers type into the search, and the pages that answer them."""

CARD = """   .. grid-item-card:: {title}
      :link: {name}
      :link-type: doc
      :img-top: images/thumb/sphx_glr_{name}_thumb.png
      :class-item: example

      {line}
"""


def title_and_line(path):
    """Return the title of an example and the paragraph below it, as one line."""
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    heading, line, *_ = docstring.split("\n\n")
    return heading.splitlines()[0], " ".join(line.split())


def write_gallery(app):
    """Write the page of the gallery: sections of cards, each with a title, a picture and a line.

    It replaces the page of sphinx-gallery, which has one section for each folder of examples.
    """
    examples = Path(app.srcdir).parent / "examples"
    lines = [(examples / "GALLERY_HEADER.rst").read_text(encoding="utf-8")]
    for section, names in SECTIONS.items():
        lines.append(f"{section}\n{'-' * len(section)}\n\n.. grid:: 1 2 2 2\n   :gutter: 3\n")
        for name in names:
            title, line = title_and_line(examples / f"{name}.py")
            lines.append(CARD.format(name=name, title=title, line=line))
    names = "\n   ".join(name for names in SECTIONS.values() for name in names)
    lines.append(f".. toctree::\n   :hidden:\n\n   {names}\n")
    page, text = Path(app.srcdir, "auto_examples", "index.rst"), "\n".join(lines)
    if page.read_text(encoding="utf-8") != text:
        page.write_text(text, encoding="utf-8")


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


class SearchedWords(SphinxTransform):
    """Enter the words of SEARCHED into the index, whose entries the search shows first."""

    default_priority = 800  # before the index is collected

    def apply(self, **kwargs):
        """Insert the entries below the title of a page."""
        words = SEARCHED.get(self.env.docname, ())
        section = next(self.document.findall(nodes.section), None)
        if words and section is not None:
            target = section["ids"][0]
            entries = [("single", word, target, "main", None) for word in words]
            section.insert(1, index(entries=entries))


def setup(app):
    """Register with Sphinx."""
    app.connect("builder-inited", write_gallery, priority=900)  # after the gallery has run
    app.connect("doctree-read", trim_code)
    app.connect("doctree-read", name_where_defined)
    app.connect("build-finished", copy_mathjax)
    app.add_transform(SearchedWords)
    return {"parallel_read_safe": True}
