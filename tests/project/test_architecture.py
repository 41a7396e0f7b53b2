"""Architecture: imports run one way, private answers leave through the ledger, files stay small."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest
import sklearn.base

import skpublicdp
from tests import ROOT
from tests.weight import code_lines

PACKAGE = Path(skpublicdp.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))
TESTS = ROOT / "tests"

# component (package or module) -> components of skpublicdp that it may import
ALLOWED_IMPORTS = {
    "exceptions": set(),
    "typing": set(),
    "guarantees": {"accounting", "guarantees", "mechanisms"},
    "mechanisms": {"mechanisms"},
    "accounting": {"accounting", "_internal.html"},
    "_internal": set(),
    "_internal.html": set(),
    "_internal.coupling": {"_internal.redaction"},
    "hypotheses": {
        *("hypotheses", "mechanisms", "_internal.coupling", "exceptions", "guarantees"),
        "_internal.redaction",
    },
    "privacy.budget_file": {"accounting", "exceptions"},
    "privacy.ticket": {"exceptions"},
    "privacy.budget": {
        *("accounting", "privacy.budget_file", "exceptions", "_internal.html", "_internal.text"),
        "privacy.ticket",
    },
    "_internal.parameters": {
        *("accounting", "privacy.budget", "_internal.threads", "_internal.versions")
    },
    "privacy.ledger": {
        *("accounting", "privacy.budget", "exceptions", "mechanisms", "privacy.ticket")
    },
    "privacy.stage_budget": {"accounting", "privacy.ledger"},
    "_internal.html_repr": {"_internal.html"},
    "_internal.redaction": {"_internal.threads"},
    "_internal.threads": set(),
    "_internal.progress": set(),
    "_internal.reproducible": set(),
    "_internal.text": set(),
    "_internal.versions": {"exceptions"},
    "data": {"data", "exceptions", "_internal.redaction", "_internal.text"},
    "base_learner": {
        *("accounting", "data", "exceptions", "privacy.ledger", "privacy.budget"),
        "_internal.threads",
    },
    "sanitizers": {
        *(
            "sanitizers",
            "accounting",
            "_internal.html_repr",
            "data",
            "exceptions",
            "guarantees",
            "hypotheses",
        ),
        *("privacy.ledger", "mechanisms", "_internal.parameters", "_internal.versions"),
    },
    "rules.population_guarantee": {
        "data",
        "exceptions",
        "guarantees",
        "hypotheses",
        "rules.cover_search",
    },
    "rules.cover_classifier": {
        *("accounting", "data", "guarantees", "hypotheses", "privacy.ledger"),
        *("_internal.html_repr", "_internal.parameters", "_internal.versions"),
        *("rules.cover_search", "rules.population_guarantee"),
    },
    "rules.class_weights": {"accounting", "data"},
    "rules.cover_search": {"accounting", "guarantees", "hypotheses", "privacy.ledger"},
    "model_selection": {
        *(
            "model_selection",
            "accounting",
            "base_learner",
            "_internal.coupling",
            "data",
            "exceptions",
        ),
        *("guarantees", "hypotheses", "privacy.ledger", "privacy.budget", "mechanisms"),
        *("_internal.html_repr", "_internal.parameters", "_internal.redaction"),
        "_internal.versions",
        *(
            "preprocessing",
            "rules.population_guarantee",
            "rules.cover_classifier",
            "rules.cover_search",
            "rules.semi_private",
        ),
    },
    "linear": {
        *("linear", "accounting", "data"),
        "boosting",  # public models
        *("privacy.ledger", "privacy.budget", "privacy.stage_budget"),
        *("_internal.html_repr", "_internal.parameters", "_internal.versions"),
        "rules.population_guarantee",
    },
    "metrics": {
        *("metrics", "accounting", "privacy.budget", "data", "privacy.ledger", "model_selection"),
        *("_internal.parameters", "_internal.redaction", "exceptions"),
    },
    "label_privacy": {
        *("label_privacy", "accounting", "base_learner", "data", "privacy.ledger"),
        *("boosting", "linear"),  # models of public columns
        *("_internal.html_repr", "_internal.parameters", "_internal.versions"),
        "rules.population_guarantee",
    },
    "conformal": {
        *("conformal", "accounting", "data", "exceptions", "mechanisms", "metrics"),
        *("privacy.ledger", "model_selection"),
        *("_internal.html_repr", "_internal.parameters", "_internal.versions"),
    },
    "audit": {
        *("audit", "accounting", "privacy.budget", "data", "exceptions", "privacy.ledger"),
        *("mechanisms", "query_release"),
    },
}
SPLIT_PACKAGES = {"_internal", "privacy", "rules"}
"""Packages whose modules are components: budgets import no ledger, and rules no other rule."""

# every component may import these
EVERYWHERE = {"typing", "_internal.reproducible", "_internal.progress"}
DEFERRED_IMPORTS = {
    "audit": {"plotting"},
    "privacy.budget": {"plotting"},
    "metrics": {"plotting"},
}  # components that may be imported inside of functions only
ESTIMATORS = {
    "rules.semi_private",
    "boosting",
    "rules.generic_learner",
    "rules.ppm",
    "rules.private_selection",
    "rules.private_votes",
    "preprocessing",
    "query_release",
}
META_LEARNERS = {"active", "label_boost"}  # they fit a base learner
TOP_LAYER = {"audit", "plotting"}  # may import estimators, and nothing imports them at the top

SAMPLING_MODULES = {
    f"skpublicdp.mechanisms.{module}"
    for module in ("discrete_laplace", "exponential", "randomness", "rounded_gaussian", "subsets")
}
LEDGER_NAMES = {
    node.name
    for node in ast.parse((PACKAGE / "privacy" / "ledger.py").read_text()).body
    if isinstance(node, ast.ClassDef | ast.FunctionDef)
}
"""Names that the module of the ledger defines. Its own imports must not be imported from it."""

RECEIPTS = {"PrivacyReceipt", "Mechanism"}
RECEIPT_MAKERS = {"privacy/ledger.py", "accounting/receipts.py"}

SKLEARN_ALLOWED = "sklearn.utils._param_validation"  # contributed packages use it
SKLEARN_PRIVATE = {
    *("_fit_context", "_safe_indexing", "_init_callback_context", "_validate_data"),
    *("_check_feature_names", "_check_n_features", "_more_tags", "_get_tags", "_validate_params"),
    *(
        name
        for mixin in vars(sklearn.base).values()
        if isinstance(mixin, type) and mixin.__module__ == "sklearn.base"
        for name in dir(mixin)
        if name.startswith("_") and not name.startswith("__") and not name.startswith("_repr_")
    ),
}
"""Private names that estimators inherit from scikit-learn; notebooks define `_repr_html_`."""


@cache
def nodes(source):
    """Return all syntax nodes, the module first. Cached, since several tests read each file."""
    return list(ast.walk(ast.parse(source)))


@cache
def imports(source):
    """Return the imports: (dotted name, (local name, its origin), whether at module level)."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    deferred = {n for f in nodes(source) if isinstance(f, functions) for n in ast.walk(f)}
    names = []
    for node in nodes(source):
        if isinstance(node, ast.Import):
            for alias in node.names:
                local = alias.asname or alias.name.split(".")[0]
                origin = alias.name if alias.asname else local
                names.append((alias.name, (local, origin), node not in deferred))
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative import"
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                names.append((name, (alias.asname or alias.name, name), node not in deferred))
    return names


def names_used(source):
    """Yield (node, dotted name) of all names and attributes, resolved by the imports.

    Names that are not imported stay as they are. The result of a call or an index is "?".
    """
    origins = dict(local for _, local, _ in imports(source))

    def dotted(node):
        if isinstance(node, ast.Name):
            return origins.get(node.id, node.id)
        return f"{dotted(node.value)}.{node.attr}" if isinstance(node, ast.Attribute) else "?"

    for node in nodes(source):
        if isinstance(node, ast.Name | ast.Attribute | ast.Call):
            yield node, dotted(node.func if isinstance(node, ast.Call) else node)


def imported_components(source, *, deferrable=()):
    """Return the imported components of the package, except deferred imports that may be."""
    components = set()
    for name, _, is_module_level in imports(source):
        package, *parts = name.split(".")
        imported = ".".join(parts[: 1 + (parts[0] in SPLIT_PACKAGES)]) if parts else "__init__"
        if package == "skpublicdp" and (is_module_level or imported not in deferrable):
            components.add(imported)
    return components


def sampling_names(source):
    """Return the names that draw or hold randomness: sampling modules and internals of ledgers."""
    names = {name for name, _, _ in imports(source)} | {name for _, name in names_used(source)}
    internals = re.compile(r"\._(bits|enter|remaining|sample_\w+)$")
    return {
        name
        for name in names
        if any(f"{name}.".startswith(f"{module}.") for module in SAMPLING_MODULES)
        or (
            name.startswith("skpublicdp.privacy.ledger.") and name.split(".")[3] not in LEDGER_NAMES
        )
        or internals.search(name)
    }


def created_receipts(source):
    """Return the calls that create receipts or their mechanisms."""
    calls = set()
    for node, name in names_used(source):
        if isinstance(node, ast.Call):
            keywords = {keyword.arg for keyword in node.keywords}
            if RECEIPTS & {*name.split(".")} or (
                name.endswith("replace") and keywords & {"mechanisms", "n_private", "assumptions"}
            ):
                calls.add(name)
    return calls


def private_sklearn(source):
    """Return private names of scikit-learn that are imported, used or defined."""

    def is_private(name):
        package, *parts = name.split(".")
        private = {part for part in (package, *parts) if re.match("_[^_]", part)}
        if package == "sklearn":
            return bool(private) and not f"{name}.".startswith(f"{SKLEARN_ALLOWED}.")
        # its developer's guide declares this method public in spite of its name
        private -= {"_init_callback_context"}
        return bool(private & SKLEARN_PRIVATE) or any("callback" in part for part in private)

    names = {name for name, _, _ in imports(source)} | {name for _, name in names_used(source)}
    for node in nodes(source):
        text = node.value if isinstance(node, ast.Constant) else getattr(node, "name", None)
        if isinstance(text, str) and text.isidentifier():
            names.add(text)  # the name of a definition, or a string, as in getattr
    return {name for name in names if is_private(name)}


def component(path):
    """Return the component of a file: its top-level package, or its module in a split package."""
    first, *rest = path.relative_to(PACKAGE).with_suffix("").parts
    return f"{first}.{rest[0]}" if first in SPLIT_PACKAGES and rest != ["__init__"] else first


def offending_files(faults):
    """Return {path relative to the package: faults} of all files that have any."""
    found = {path.relative_to(PACKAGE).as_posix(): faults(path) for path in FILES}
    return {name: names for name, names in found.items() if names}


COMPONENTS = {component(path) for path in FILES} - {"__init__"}


def forbidden_imports(path):
    """Return the components that a file imports and may not."""
    here = component(path)
    imported = imported_components(path.read_text(), deferrable=DEFERRED_IMPORTS.get(here, ()))
    if here == "__init__":
        return imported & TOP_LAYER
    imported = imported - EVERYWHERE - {"__version__"}  # the only name from the top level
    unknown = imported - COMPONENTS
    if here in ALLOWED_IMPORTS:
        return unknown | (imported - ALLOWED_IMPORTS[here])
    if here in ESTIMATORS:  # a package may import itself
        return unknown | (imported & ((ESTIMATORS - {here}) | META_LEARNERS | TOP_LAYER))
    if here in META_LEARNERS:
        return unknown | (imported & ((META_LEARNERS - {here}) | TOP_LAYER))
    assert here in TOP_LAYER | SPLIT_PACKAGES, here
    return unknown | (imported & {"mechanisms", "privacy.ledger"})  # displays draw nothing


def unaccounted_answers(path):
    """Return the names with which a file draws, or makes receipts, beside the ledger."""
    source, names = path.read_text(), set()
    if component(path) not in {"audit", "privacy.ledger", "mechanisms"}:  # an audit patches them
        names |= sampling_names(source)
    if path.relative_to(PACKAGE).as_posix() not in RECEIPT_MAKERS:
        names |= created_receipts(source)
    return names


def unwanted_dependencies(path):
    """Return the modules and names outside of the package that a file may not use."""
    source = path.read_text()
    outside = {name.split(".")[0] for name, _, _ in imports(source)}
    at_import = {name.split(".")[0] for name, _, top in imports(source) if top}
    unwanted = outside & {"importlib"}  # these tests see no dynamic imports
    unwanted |= at_import & {"matplotlib"}  # it is optional
    if component(path) == "mechanisms":
        unwanted |= outside & {"sklearn", "scipy", "joblib"}
    return unwanted | private_sklearn(source)


PUBLIC_NAMES = set((TESTS / "public_api.txt").read_text(encoding="utf-8").split())
PUBLIC_MODULES = {name.rpartition(".")[0] for name in PUBLIC_NAMES} | {
    "skpublicdp.exceptions",  # all of its names are public
    "skpublicdp.typing",
}
MODULES = {
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
    for path in FILES
}
MAY_KNOW_INTERNALS = ("internals/", "data/", "test_golden.py")
"""Paths in tests/: what hands internal names on, and files that still import them."""


def internal_names(source):
    """Return the names of the package that a test imports, uses or patches and that are internal.

    A name within an internal module counts as well, such as `skpublicdp.rules.ppm.n_ppm`.
    """

    def is_internal(name):
        parts = name.split(".")
        prefixes = {".".join(parts[:length]) for length in range(1, len(parts) + 1)}
        return bool((prefixes & MODULES) - PUBLIC_MODULES - PUBLIC_NAMES)

    imported = {name for name, _, _ in imports(source) if name.split(".")[0] == "skpublicdp"}
    names = imported | {name for _, name in names_used(source) if name.startswith("skpublicdp.")}
    for node, name in names_used(source):
        if isinstance(node, ast.Call) and re.search(r"(^|\.)(setattr|patch)$", name) and node.args:
            patched = node.args[0]
            if isinstance(patched, ast.Constant) and str(patched.value).startswith("skpublicdp."):
                names.add(patched.value)
    handed_on = PUBLIC_NAMES | PUBLIC_MODULES
    open_modules = ("skpublicdp.exceptions.", "skpublicdp.typing.")
    return {name for name in names if is_internal(name)} | {
        name for name in imported - handed_on if not name.startswith(open_modules)
    }


def test_tests_import_internal_names_from_one_folder():
    """A definition that moves then changes one line of tests/internals."""
    found = {
        name: internal_names(path.read_text(encoding="utf-8"))
        for path in sorted(TESTS.rglob("*.py"))
        if not (name := path.relative_to(TESTS).as_posix()).startswith(MAY_KNOW_INTERNALS)
    }
    assert {name: names for name, names in found.items() if names} == {}


def test_imports_run_one_way():
    assert offending_files(forbidden_imports) == {}


def test_private_answers_leave_through_the_ledger():
    assert offending_files(unaccounted_answers) == {}


def test_dependencies_stay_public():
    assert offending_files(unwanted_dependencies) == {}


def test_types_of_arrays_are_named_once():
    """Each array type has one name in all annotations."""
    named = {
        (path.relative_to(PACKAGE).as_posix(), node.targets[0].id)
        for path in FILES
        for node in nodes(path.read_text())[0].body
        if isinstance(node, ast.Assign)
        and ast.unparse(node.value).startswith("NDArray[")
        and isinstance(node.targets[0], ast.Name)
    }
    names = [name for _, name in named]
    assert len(names) == len(set(names))


SHARED_MODULE_NAMES = {"base", "classifier", "ppm", "release"}
"""The folder says what they are of."""


def test_a_name_means_one_thing():
    """Modules and classes have names of their own, and constants of one name have one value."""
    modules, classes, constants = [], [], {}
    for path in FILES:
        if path.stem != "__init__":
            modules.append(path.stem)
        for node in nodes(path.read_text())[0].body:
            if isinstance(node, ast.ClassDef):
                classes.append(node.name)
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                constants.setdefault(node.targets[0].id, set()).add(ast.unparse(node.value))
    assert {name for name in modules if modules.count(name) > 1} == SHARED_MODULE_NAMES
    assert not {name for name in classes if classes.count(name) > 1}
    public = {name for name in constants if not name.startswith("_")}
    assert not {name for name in public if len(constants[name]) > 1}


def test_three_modules_know_frames():
    """Frames are read by one module and built by another, series are read by a third.

    All of them use one version of narwhals.
    """
    narwhals = {
        (path.relative_to(PACKAGE).as_posix(), name.rpartition(".")[0])
        for path in FILES
        for name, _, _ in imports(path.read_text())
        if name.startswith("narwhals") and "dtypes" not in name
    }
    files = {"data/tables.py", "data/container.py"}
    assert narwhals == {(file, "narwhals.stable") for file in files}


def n_code_lines(source):
    return len(code_lines(source, nodes(source)[0]))


def test_files_hold_one_topic():
    assert {path.name for path in FILES if n_code_lines(path.read_text()) > 600} == set()


class TestTheChecks:
    """Each check of this file finds what it is for, and nothing else."""

    @pytest.mark.parametrize(
        ("source", "expected"),
        [
            ("from skpublicdp.boosting.budget_split import TreeTrial", {"boosting"}),
            ("from skpublicdp import boosting, plotting as other", {"boosting", "plotting"}),
            ("import skpublicdp.rules.ppm", {"rules.ppm"}),
            ("import skpublicdp", {"__init__"}),
            ("def f():\n    from skpublicdp.rules.ppm import x", {"rules.ppm"}),
            ("if True:\n    import skpublicdp.plotting as p", {"plotting"}),
            ("class A:\n    import skpublicdp.plotting", {"plotting"}),
            ("def f():\n    import skpublicdp.plotting", set()),
            ("import numpy\nfrom sklearn import base", set()),
        ],
    )
    def test_components(self, source, expected):
        assert imported_components(source, deferrable={"plotting"}) == expected

    @pytest.mark.parametrize(
        ("source", "is_internal"),
        [
            ("from skpublicdp.rules.ppm import x", True),
            ("from skpublicdp.rules import ppm", True),
            ("from skpublicdp.accounting import _x", True),
            ("from skpublicdp.accounting import events", True),
            ("import skpublicdp.rules.ppm", True),
            ("import skpublicdp\nskpublicdp.rules.ppm.n_ppm = 3", True),
            ("def f(patch):\n    patch.setattr('skpublicdp.rules.ppm.n_ppm', 3)", True),
            ("mock.patch('skpublicdp.rules.ppm.n_ppm')", True),
            ("from skpublicdp import SemiPrivateClassifier, accounting", False),
            ("import skpublicdp\nskpublicdp.SemiPrivateClassifier().fit", False),
            ("from skpublicdp.exceptions import CoverSizeError", False),
            ("from skpublicdp.hypotheses import Cover\nCover._private", False),
            ("from tests.internals.rules import ppm\nppm.n_ppm", False),
        ],
    )
    def test_internal_names(self, source, is_internal):
        assert bool(internal_names(source)) == is_internal

    @pytest.mark.parametrize(
        ("source", "draws"),
        [
            ("from skpublicdp.mechanisms.discrete_laplace import discrete_laplace", True),
            ("from skpublicdp.mechanisms import exponential as s, families", True),
            ("import skpublicdp.mechanisms.subsets", True),
            ("import skpublicdp.mechanisms as m\nm.randomness.random_bits()", True),
            ("def f():\n    from skpublicdp.mechanisms.rounded_gaussian import x", True),
            ("from skpublicdp.privacy.ledger import draw", True),
            ("from skpublicdp.privacy import ledger as a\na.random_subset(1, 2)", True),
            ("ledger._bits.bits(3)", True),
            ("self.ledger._sample_noise(event, 1, table)", True),
            ("from skpublicdp.mechanisms.families import Leaf", False),
            ("from skpublicdp.accounting import noise", False),
            (
                "from skpublicdp.privacy.ledger import Ledger, public_seed\n"
                "Ledger.from_estimator(self).draw()",
                False,
            ),
        ],
    )
    def test_drawing(self, source, draws):
        assert bool(sampling_names(source)) == draws

    @pytest.mark.parametrize(
        ("source", "made"),
        [
            ("from skpublicdp.accounting import Mechanism\nMechanism('a', 1, 0, 'b')", True),
            ("from skpublicdp.accounting import PrivacyReceipt as P\nx = [P(1)]", True),
            ("from skpublicdp import accounting as a\na.PrivacyReceipt(1)", True),
            ("from skpublicdp.accounting import PrivacyReceipt\nPrivacyReceipt.from_dict(x)", True),
            ("from dataclasses import replace\nreplace(self.privacy_, mechanisms=())", True),
            ("from dataclasses import replace\nreplace(shape, scores=1)", False),
            ("from skpublicdp.accounting import PrivacyReceipt as P\ndef f(x: P): x.rows()", False),
            ("ledger.receipt()", False),
        ],
    )
    def test_receipts(self, source, made):
        assert bool(created_receipts(source)) == made
