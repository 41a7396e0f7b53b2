"""Sphinx configuration; ``make docs`` builds the site without touching the network."""

import re
import sys
from pathlib import Path

import skpublicdp

sys.path.insert(0, str(Path(__file__).parent / "_ext"))
from reference import class_pages

project = "skpublicdp"
author = "The skpublicdp developers"
copyright = "The skpublicdp developers"
version = release = skpublicdp.__version__

extensions = [
    "building",
    "myst_parser",
    "numpydoc",
    "reference",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
myst_enable_extensions = ["attrs_block", "attrs_inline", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
mathjax_path = "mathjax/tex-chtml.js"  # the extension "building" puts it there
mathjax3_config = {"options": {"enableMenu": False}}

exclude_patterns = ["_build", "_templates", "sg_execution_times.rst", "auto_examples/*.ipynb"]
templates_path = ["_templates"]

# docstrings name other objects in single backticks; unknown names stay plain code
default_role = "py:obj"
autosummary_generate = True
autosummary_context = {"pages": class_pages(Path(__file__).parent)}
python_maximum_signature_line_length = 90  # longer signatures have a line for each parameter
toc_object_entries_show_parents = "hide"
autodoc_typehints = "none"  # numpydoc sections give the types
numpydoc_show_class_members = False  # the templates list the methods instead

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_only_copy_prompt_lines = True
copybutton_copy_empty_lines = False

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"\.py$",
    "reset_argv": "building.quick_arguments",
    "backreferences_dir": "auto_examples/backreferences",
    "doc_module": ("skpublicdp",),
    "reference_url": {"skpublicdp": None},
    "image_srcset": ["2x"],
    "thumbnail_size": (640, 400),
    "download_all_examples": False,
    "show_signature": False,
    "show_memory": False,
    "write_computation_times": False,
    "min_reported_time": 3600,
    "capture_repr": (),
    "abort_on_example_error": True,
}

LOGO = "_static/logo.svg"
html_theme = "pydata_sphinx_theme"
html_title = f"skpublicdp {version}"
html_copy_source = False
html_show_sourcelink = False
html_static_path = ["_static/site"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_favicon = "_static/site/logo.svg"
html_context = {"default_mode": "auto"}
html_sidebars = {"index": [], "changelog": [], "comparison": []}
html_theme_options = {
    "logo": {
        "text": "skpublicdp",
        "image_light": "_static/logo.svg",
        "image_dark": "_static/logo.svg",
    },
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "header_links_before_dropdown": 7,
    "footer_start": ["copyright"],
    "footer_center": [],
    "footer_end": [],
    "pygments_light_style": "default",
    "pygments_dark_style": "github-dark",
}


def _shapes_as_code(app, what, name, obj, options, lines):
    """Set shapes such as ``(*batch, members)`` in code, before * and _ are taken for markup."""
    for index, line in enumerate(lines):
        if re.match(r"\S.*\bshape \(", line):
            lines[index] = re.sub(r"\([^()]*,[^()]*\)", r"``\g<0>``", line)


def setup(app):
    app.connect("autodoc-process-docstring", _shapes_as_code, priority=400)  # before numpydoc
