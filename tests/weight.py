"""Counts what makes the package heavy, per folder, and compares it with a committed table.

`python -m tests.weight` prints the figures and lowers those of the table that have fallen. A figure
rises only by a line in ALLOWED that says what it buys.
"""

import ast
import csv
from collections import Counter, defaultdict
from pathlib import Path

from tests import ROOT

PACKAGE = ROOT / "skpublicdp"
TABLE = ROOT / "tests" / "weight.csv"
FIGURES = ("code", "internal docstrings", "numbers", "dense functions")
"""Lines of code, lines of docstrings of what is not public, module constants that are numbers, and
functions with more than MAX_NODES_PER_LINE."""
MAX_NODES_PER_LINE = 7
MIN_LINES_OF_DENSE = 6

ALLOWED = {
    (".", "internal docstrings"): [
        (7, "fits to private blocks without output, files and shared generators"),
        (7, "clones that are fitted to blocks of private rows are silent"),
        (1, "names of columns after a nameless step of a pipeline"),
        (1, "numbers in queries that stand for bins"),
        (1, "any classifier: seeds of its clones"),
    ],
    ("_internal", "internal docstrings"): [
        (5, "fits whose progress depends on private rows report none"),
        (12, "progress of fits, for a logger and scikit-learn's callbacks"),
    ],
    ("label_boost", "code"): [
        (6, "progress of fits, for a logger and scikit-learn's callbacks"),
        (26, "one idea per line in 12 functions"),
        (7, "arguments by name"),
    ],
    ("active", "code"): [
        (6, "progress of fits, for a logger and scikit-learn's callbacks"),
        (8, "arguments by name"),
    ],
    ("model_selection", "code"): [
        (3, "no bound of a search under a shift"),
        (6, "progress of fits, for a logger and scikit-learn's callbacks"),
        (4, "arguments by name"),
        (9, "a fixed threshold around a released model is no finding"),
        (9, "a calibration does not protect its estimator"),
    ],
    ("model_selection", "internal docstrings"): [
        (1, "when a frozen model is released"),
        (2, "a calibration does not protect its estimator"),
    ],
    ("_internal", "code"): [
        (23, "fits whose progress depends on private rows report none"),
        (60, "progress of fits, for a logger and scikit-learn's callbacks"),
        (4, "one idea per line"),
    ],
    ("guarantees", "code"): [
        (12, "one idea per line"),
        (40, "one tail for sampling and noise, small errors of greedy searches, one fixed rule"),
    ],
    ("mechanisms", "code"): [
        (6, "one idea per line"),
    ],
    ("rules", "code"): [
        (28, "candidates that fail for private rows"),
        (3, "silent fits to blocks, and a budget of labels"),
        (2, "progress of fits, for a logger and scikit-learn's callbacks"),
        (6, "one idea per line"),
        (77, "bounds for a declared best error and for public rows from another population"),
        (392, "any classifier, by a draw among public fits or by votes of blocks"),
    ],
    (".", "code"): [
        (6, "private columns: labels and other columns are public"),
        (35, "fits to private blocks without output, files and shared generators"),
        (17, "clones that are fitted to blocks of private rows are silent"),
        (5, "names of the new estimators and their warning"),
        (2, "names of columns after a nameless step of a pipeline"),
        (10, "zones and labels of columns are those of public rows"),
        (6, "any classifier: seeds of its clones"),
    ],
    ("rules", "internal docstrings"): [
        (3, "candidates that fail for private rows"),
        (12, "parameters of these bounds"),
        (40, "any classifier"),
    ],
    ("data", "code"): [
        (13, "private columns: labels and other columns are public"),
        (2, "progress of fits, for a logger and scikit-learn's callbacks"),
        (40, "zones and labels of columns are those of public rows"),
        (72, "the reader of outcomes, which was part of boosting"),
        (33, "records of a service, and predictions of few rows several times as fast"),
        (34, "bounds of outcomes and containers of public rows, which were part of boosting"),
        (9, "frames that share memory"),
        (14, "predictions of any classifier"),
    ],
    ("data", "internal docstrings"): [
        (22, "the reader of outcomes, which was part of boosting"),
        (19, "records, and distinct values of a column"),
        (1, "frames that share memory"),
        (3, "predictions of any classifier"),
    ],
    ("data", "numbers"): [
        (4, "the reader of outcomes, which was part of boosting"),
        (1, "few rows of text are read one by one"),
    ],
    ("privacy", "code"): [
        (23, "budgets of columns"),
        (10, "a budget of labels says so, and refuses fits that protect features only"),
        (21, "budgets that protect labels alone"),
        (7, "progress of fits, for a logger and scikit-learn's callbacks"),
        (31, "the budget of steps, which was part of boosting"),
        (4, "whether two handles of a budget add up"),
    ],
    ("privacy", "internal docstrings"): [
        (2, "budgets of columns"),
        (2, "budgets that protect labels alone"),
        (18, "the budget of steps, which was part of boosting"),
        (1, "whether two handles of a budget add up"),
    ],
    ("query_release", "code"): [
        (47, "public columns of private rows, and intervals of rare calibrated cells"),
        (6, "impossible cells in combined cells and in tables to publish"),
        (6, "progress of fits, for a logger and scikit-learn's callbacks"),
        (30, "cells of dates and of numbers keep one type in every method"),
        (91, "one idea per line in 70 functions, and long calls by keyword"),
        (650, "measured sums: means, totals and ratios by group, and queries that are numbers"),
        (35, "variances from released second moments"),
        (467, "regressions and correlations from released second moments"),
        (9, "a bound for synthetic rows of every cover by cuts, and a counted label share"),
        (360, "lists and ranges in queries, with intervals of combined cells"),
        (210, "tables of combined cells, and the distribution of ordered categories"),
        (205, "differences and ratios of answers"),
        (175, "whole counts, grades and suppression"),
        (90, "histograms by group, and a paragraph about the method"),
        (409, "structural zeros and hierarchies of tables"),
        (40, "one idea per line in 54 functions"),
        (3, "queries of single values are read in half of the time"),
    ],
    ("sanitizers", "code"): [
        (8, "one idea per line in 6 functions"),
    ],
    ("accounting", "code"): [
        (18, "private columns: labels and other columns are public"),
        (20, "receipts of releases with public columns"),
        (30, "the unit of privacy if only labels are private"),
        (49, "one idea per line"),
        (1, "the title of the proof of prediction sets"),
        (1, "the title of the proof of second moments"),
        (1, "the title of the proof about any classifier"),
    ],
    ("audit", "code"): [
        (3, "private columns: labels and other columns are public"),
        (2, "progress that a user may ask for is observed"),
        (27, "one idea per line"),
        (6, "fits that protect labels alone"),
    ],
    ("label_privacy", "code"): [
        (477, "private columns: labels and other columns are public"),
        (10, "estimators that are refused, and the entry of a private one"),
        (178, "any classifier, if only the labels are private"),
    ],
    ("label_privacy", "internal docstrings"): [
        (35, "private columns: labels and other columns are public"),
        (16, "any classifier, if only the labels are private"),
    ],
    ("label_privacy", "numbers"): [
        (1, "most public rows of a private estimator"),
    ],
    ("accounting", "internal docstrings"): [
        (6, "private columns: labels and other columns are public"),
        (1, "receipts of releases with public columns"),
        (1, "the unit of privacy if only labels are private"),
    ],
    ("hypotheses", "code"): [
        (92, "one idea per line"),
    ],
    ("metrics", "code"): [
        (42, "one idea per line"),
        (449, "thresholds for rare outcomes, rates by group and calibration"),
        (106, "differences of two releases, and public rows that are private"),
    ],
    ("metrics", "internal docstrings"): [
        (5, "why Fieller's interval has its three variances"),
        (102, "thresholds for rare outcomes, rates by group, calibration and differences"),
    ],
    ("metrics", "numbers"): [
        (5, "score bins at quantiles of public scores"),
    ],
    ("query_release", "numbers"): [
        (9, "grid, draws and thresholds of second moments"),
        (1, "units, share of the budget and scales of measured sums"),
        (6, "limits of grades, of whole counts and of contrasts"),
        (5, "limits of draws and sweeps with structural zeros"),
    ],
    ("plotting", "code"): [
        (35, "one idea per line"),
        (51, "released scores, by group, and the curator's texts on cards"),
        (95, "the display of coefficients"),
    ],
    ("plotting", "internal docstrings"): [
        (4, "released scores on cards"),
        (1, "the display of coefficients"),
    ],
    ("plotting", "numbers"): [
        (1, "the display of coefficients"),
    ],
    ("linear", "code"): [
        (1, "fits with too large noise"),
        (1, "progress of fits, for a logger and scikit-learn's callbacks"),
        (1330, "linear models of embeddings and of many numbers"),
        (22, "the description of a linear model on its card"),
        (10, "axes that do not depend on the linear algebra library"),
        (14, "a fit with a part of a budget, and the posterior variance of its margins"),
        (2, "design columns of a few rows at once"),
        (39, "private rows are encoded in less time and half the memory"),
        (11, "the label share of public rows is compared by evidence, not by a number"),
        (542, "logistic regression of more than two labels"),
        (14, "linear regression without an intercept"),
        (320, "confidence intervals of coefficients and their table"),
        (110, "public models as prior means of linear models"),
        (33, "tables of coefficients of several labels, and a fit with a part of a budget"),
        (80, "linear models are exported as JSON"),
    ],
    ("linear", "internal docstrings"): [
        (300, "linear models of embeddings and of many numbers"),
        (86, "logistic regression of more than two labels"),
        (50, "confidence intervals of coefficients and their table"),
        (8, "public models as prior means of linear models"),
        (11, "a fit with a part of a budget"),
        (6, "linear models are exported as JSON"),
    ],
    ("linear", "numbers"): [
        (32, "linear models of embeddings and of many numbers"),
        (10, "logistic regression of more than two labels"),
        (10, "confidence intervals of coefficients and their table"),
        (1, "public models as prior means of linear models"),
        (1, "version of the JSON of linear models"),
    ],
    ("conformal", "code"): [
        (325, "prediction sets and intervals with a proved coverage"),
    ],
    ("conformal", "internal docstrings"): [
        (70, "prediction sets and intervals with a proved coverage"),
    ],
    ("conformal", "numbers"): [
        (4, "limits of thresholds and of the search for a shortfall"),
    ],
    ("boosting", "code"): [
        (8, "what the receipt says of a renewed model that protects labels only"),
        (1, "progress of fits"),
        (247, "one idea per line in 69 functions"),
        (150, "covariances of few public rows are shrunk"),
        (10, "what the receipt of a renewal says about the earlier fit"),
        (20, "trees of wide tables split few columns"),
        (60, "the mean of few outcomes is released more accurately and shrunk"),
        (10, "few rows per column do not switch to Newton boosting"),
        (60, "a linear model is fitted before boosting of many numbers, and is part of its JSON"),
        (58, "a forest in the default public model, and weights by held-out labels"),
        (6, "few rows per column are not boosted, and a tiny epsilon falls back to trees"),
    ],
    ("boosting", "internal docstrings"): [
        (1, "receipt lines of a model that was fitted before"),
        (33, "a loss answers all questions that depend on it"),
        (26, "the Poisson loss for counts"),
        (4, "what the steps of noisy histograms may spend"),
        (5, "what the receipt says of a private model that is renewed"),
        (56, "covariances of few public rows are shrunk"),
        (10, "the mean of few outcomes is released more accurately and shrunk"),
        (5, "a forest in the default public model, and weights by held-out labels"),
    ],
    ("boosting", "numbers"): [
        (3, "the Poisson loss for counts"),
        (3, "sizes of a fit of a wide table"),
        (6, "priors and budget of the mean of few outcomes, rows per column"),
        (1, "rows per column of boosting beside a linear model"),
    ],
    ("rules", "numbers"): [
        (6, "any classifier: numbers of blocks, points and copies, labellings"),
    ],
}

FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)


def docstring(node):
    """Return the syntax node of the docstring that a body begins with, or None."""
    first = node.body[0] if node.body else None
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
        return first if isinstance(first.value.value, str) else None
    return None


def lines_of(node):
    return set(range(node.lineno, node.end_lineno + 1))


def texts(tree):
    """Return all statements that are only a string: docstrings of definitions and of constants."""
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    ]


def code_lines(source, tree):
    """Return the numbers of the lines that are not blank, a comment or a docstring."""
    strings = set().union(*map(lines_of, texts(tree)))
    lines = enumerate(source.splitlines(), start=1)
    return {
        number
        for number, line in lines
        if line.strip() and not line.strip().startswith("#") and number not in strings
    }


def internal_docstrings(tree, public):
    """Yield the docstrings of modules, functions and classes that users do not call."""
    yield tree, docstring(tree)
    for node in tree.body:
        if isinstance(node, FUNCTION) and node.name not in public:
            yield node, docstring(node)
        if isinstance(node, ast.ClassDef):
            is_public = node.name in public
            if not is_public:
                yield node, docstring(node)
            for method in node.body:
                if isinstance(method, FUNCTION) and (method.name.startswith("_") or not is_public):
                    yield method, docstring(method)


def is_number(node):
    """Whether a module's statement binds a constant to a number or to several numbers."""
    if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
        return False
    if isinstance(node.value, ast.List | ast.Set | ast.Dict):
        return False
    parts = [part for part in ast.walk(node.value) if isinstance(part, ast.expr)]
    numbers = (ast.Constant, ast.UnaryOp, ast.BinOp, ast.Tuple)
    plain = all(isinstance(part, numbers) for part in parts)
    values = [part.value for part in parts if isinstance(part, ast.Constant)]
    return plain and bool(values) and all(type(value) in (int, float) for value in values)


def own_expressions(function):
    """Yield the expressions of a function, without constants and without functions within it."""
    stack = list(function.body)
    while stack:
        node = stack.pop()
        if isinstance(node, ast.expr) and not isinstance(node, ast.Constant):
            yield node
        if not isinstance(node, (*FUNCTION, ast.Lambda)):
            stack += ast.iter_child_nodes(node)


def is_dense(function, code):
    """Whether a function has more expression nodes per line of code than a reader can follow."""
    doc = docstring(function)
    body = function.body[1:] if doc else function.body
    if not body:
        return False
    n_lines = len(code & set(range(body[0].lineno, function.end_lineno + 1)))
    n_nodes = sum(1 for _ in own_expressions(function))
    return n_lines >= MIN_LINES_OF_DENSE and n_nodes > MAX_NODES_PER_LINE * n_lines


def weigh(source, public):
    """Return the figures of one file."""
    tree = ast.parse(source)
    code = code_lines(source, tree)
    docs = [doc for _, doc in internal_docstrings(tree, public) if doc]
    functions = [node for node in ast.walk(tree) if isinstance(node, FUNCTION)]
    return Counter(
        {
            "code": len(code),
            "internal docstrings": sum(len(lines_of(doc)) for doc in docs),
            "numbers": sum(map(is_number, tree.body)),
            "dense functions": sum(is_dense(function, code) for function in functions),
        }
    )


def with_bases(public, sources):
    """Return public names together with the classes whose methods they inherit."""
    bases = defaultdict(set)
    for source in sources:
        for node in ast.parse(source).body:
            if isinstance(node, ast.ClassDef):
                bases[node.name] |= {base.id for base in node.bases if isinstance(base, ast.Name)}
    known, added = set(), set(public)
    while added:
        known |= added
        added = set().union(*(bases[name] for name in added)) - known
    return known


def figures():
    """Return the figures of each folder of the package; the top level is one folder."""
    sources = {
        path.relative_to(PACKAGE): path.read_text(encoding="utf-8")
        for path in sorted(PACKAGE.rglob("*.py"))
    }
    names = (ROOT / "tests" / "public_api.txt").read_text(encoding="utf-8").split()
    public = with_bases({name.rpartition(".")[2] for name in names}, sources.values())
    by_folder = defaultdict(Counter)
    for path, source in sources.items():
        folder = Path(*path.parts[:1])
        by_folder["." if folder.suffix else str(folder)].update(weigh(source, public))
    return by_folder


def read_table():
    with TABLE.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return {row["folder"]: Counter({name: int(row[name]) for name in FIGURES}) for row in rows}


def excess(now, table, allowed=None):
    """Return the figures that are larger than the table and its allowances permit."""
    allowed = ALLOWED if allowed is None else allowed
    return {
        (folder, name): f"{counts[name]} > {limit}"
        for folder, counts in now.items()
        for name in FIGURES
        if counts[name] > (limit := _limit(folder, name, table, allowed))
    }


def _limit(folder, name, table, allowed):
    increases = allowed.get((folder, name), [])
    return table.get(folder, Counter())[name] + sum(number for number, _ in increases)


def main():
    now = figures()
    table = read_table() if TABLE.exists() else now
    with TABLE.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["folder", *FIGURES])
        for folder in sorted(now):
            before = table.get(folder, Counter())
            writer.writerow([folder, *(min(before[name], now[folder][name]) for name in FIGURES)])
    total = sum(now.values(), Counter())
    for folder, counts in [*sorted(now.items()), ("together", total)]:
        print(f"{folder:18}", *(f"{name} {counts[name]:6}" for name in FIGURES))
    for place, message in excess(now, read_table()).items():
        print("too many:", *place, message)


if __name__ == "__main__":
    main()
