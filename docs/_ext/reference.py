"""The pages of classes: the bases and inherited members that they show, and other names."""

import importlib
import inspect
import pkgutil
import re
from functools import cache
from pathlib import Path

from sphinx.addnodes import desc_signature

import skpublicdp

ROW = re.compile(r"^   ([\w.]+)$", re.MULTILINE)
"""A name in a list of the reference."""

UNKNOWN_LABEL = re.compile(r":ref:`([^`<]*?)(?:\s*<[^`>]*>)?`")
"""A link to a label, which docstrings of scikit-learn have and this site does not."""


@cache
def documented_classes(source_folder):
    """Return the classes that the reference lists: the name of each, and the class."""
    classes = {}
    for page in sorted(Path(source_folder, "api").glob("*.md")):
        _, *lists = re.split(r"currentmodule:: ", page.read_text(encoding="utf-8"))
        for text in lists:
            module_name = text.split()[0]
            module = importlib.import_module(module_name)
            for name in ROW.findall(text):
                listed = module
                for part in name.split("."):
                    listed = getattr(listed, part)
                if inspect.isclass(listed):
                    classes[f"{module_name}.{name}"] = listed
    return classes


def is_shown(base, documented):
    """Indicate whether readers can use a base: it has a page here, or is public elsewhere."""
    if base.__module__.startswith("skpublicdp"):
        return base in documented
    return base is not object and not re.search(r"\b_", f"{base.__module__}.{base.__name__}")


def shown_bases(cls, documented):
    """Return the bases of a class, with the bases of internal bases in their place."""
    bases = []
    for base in cls.__bases__:
        bases += [base] if is_shown(base, documented) else shown_bases(base, documented)
    unique = list(dict.fromkeys(bases))
    return [
        base
        for base in unique
        if not any(other is not base and issubclass(other, base) for other in unique)
    ]


def hidden_members(cls, documented):
    """Return the members that the page of a class leaves out.

    They are requests of metadata, members of built-in types, and what the page of a base describes.
    """
    names = {name for name in dir(cls) if re.fullmatch(r"set_\w+_request", name)}
    for base in cls.__mro__[1:]:
        if base in documented or base.__module__ == "builtins":
            names |= set(dir(base)) - set(vars(cls))
    return {name for name in names if not name.startswith("_")}


def class_pages(source_folder):
    """Return what the template of classes has to know: for each name, members to leave out."""
    classes = documented_classes(source_folder)
    documented = set(classes.values())
    return {
        name: {
            "hidden": ", ".join(sorted(hidden_members(cls, documented))),
            "has_bases": bool(shown_bases(cls, documented)),
        }
        for name, cls in classes.items()
    }


def replace_internal_bases(app, name, obj, options, bases):
    """Show the public bases of a class."""
    documented = set(documented_classes(app.srcdir).values())
    bases[:] = shown_bases(obj, documented)


def labels_as_text(app, what, name, obj, options, lines):
    """Replace links to labels of scikit-learn's site by their text."""
    if any(":ref:" in line for line in lines):
        lines[:] = UNKNOWN_LABEL.sub(r"\1", "\n".join(lines)).split("\n")


@cache
def public_names():
    """Return the public names of each object, by its identity."""
    modules = [skpublicdp]
    for found in pkgutil.walk_packages(skpublicdp.__path__, "skpublicdp."):
        if found.ispkg:
            modules.append(importlib.import_module(found.name))
    names = {}
    for module in modules:
        for name in getattr(module, "__all__", ()):
            names.setdefault(id(getattr(module, name)), []).append(f"{module.__name__}.{name}")
    return names


def note_aliases(app, doctree):
    """Let links and the inventory find a class under each of its public names."""
    domain = app.env.domains.python_domain
    documented = documented_classes(app.srcdir)
    for signature in doctree.findall(desc_signature):
        cls = documented.get(f"{signature.get('module')}.{signature.get('fullname')}")
        for alias in public_names().get(id(cls), ()):
            if alias not in documented and alias not in domain.objects:
                domain.note_object(alias, "class", signature["ids"][0], aliased=True)


def setup(app):
    """Register with Sphinx."""
    app.connect("autodoc-process-bases", replace_internal_bases)
    app.connect("autodoc-process-docstring", labels_as_text, priority=400)  # before numpydoc
    app.connect("doctree-read", note_aliases)
    return {"parallel_read_safe": True}
