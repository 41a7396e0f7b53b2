"""Printed trees predict the same as trees and have no unnecessary branch: by brute force."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skpublicdp.hypotheses import PublicSample
from tests.internals.boosting import BinSplits
from tests.internals.hypotheses import DecisionTree, Splits

CUTS = [0.5, 1.5, 2.5]
GRID = np.array(list(itertools.product(np.arange(4.0), repeat=2)))


def leaf_and_path(lines, holds):
    """Return the text of a row's leaf in printed lines, and the branches that lead to it."""
    lines, branches = list(lines), []
    while lines[0].startswith("if "):
        condition = lines[0].removeprefix("if ").removesuffix(":")
        middle = lines.index("else:")
        side = lines[1:middle] if holds(condition) else lines[middle + 1 :]
        branches.append((condition, holds(condition)))
        lines = [line.removeprefix("    ") for line in side]
    (text,) = lines
    return text, tuple(branches)


def check(tree, leaf_texts, rows, holds):
    """Compare lines with leaves; each printed leaf is reached, and no two sides are equal."""
    lines = tree.format_lines(leaf_texts)
    found = [leaf_and_path(lines, lambda condition, row=row: holds(row, condition)) for row in rows]
    assert [text for text, _ in found] == [leaf_texts[leaf] for leaf in tree.apply(rows)]
    assert len({taken for _, taken in found}) == sum(
        "if" not in x and "else" not in x for x in lines
    )
    ends = {}
    for text, taken in found:
        for depth in range(len(taken)):
            ends.setdefault(taken[:depth], set()).add((taken[depth:], text))
    for branches in ends.values():
        sides = [
            frozenset((rest[1:], text) for rest, text in branches if rest and rest[0][1] == side)
            for side in (False, True)
        ]
        assert sides[0] != sides[1]


def split_tree(features, cuts, leaves):
    splits = Splits(np.array(features), np.array(cuts))
    return DecisionTree(splits, np.array(leaves), PublicSample(GRID, np.arange(3), ("a", "b")))


def above(row, condition):
    name, _, threshold = condition.split()
    return row["ab".index(name)] > float(threshold)


@st.composite
def split_trees(draw):
    depth = draw(st.integers(1, 3))
    nodes = 2**depth - 1
    features = draw(st.lists(st.integers(0, 1), min_size=nodes, max_size=nodes))
    cuts = draw(st.lists(st.sampled_from(CUTS), min_size=nodes, max_size=nodes))
    leaves = draw(st.lists(st.integers(0, 2), min_size=nodes + 1, max_size=nodes + 1))
    return split_tree(features, cuts, leaves)


@given(split_trees())
def test_trees_of_numbers(tree):
    leaf_texts = [f"predict {label}" for label in tree.leaves]
    check(tree, leaf_texts, GRID, above)
    assert tree.rule() == "\n".join(tree.format_lines(leaf_texts))


# a number of 4 cells, of which the last is missing, and a category of 4: two, (other), (missing)
ASKED = BinSplits(
    np.array([0, 0, 0, 1, 1, 1, 1]),
    np.array([1, 2, 3, 0, 1, 2, 3]),
    np.array([2, 2, 3, 0, 1, 2, 3]),
    np.array(
        [
            *(["> 1", "<= 1"], ["> 2", "<= 2"], ["is missing", "is known"]),
            *(["is x", "is not x"], ["is y", "is not y"], ["is (other)", "is not (other)"]),
            ["is missing", "is known"],
        ],
        dtype=object,
    ),
)
MEANS = {ASKED.describe(k, ("a", "b")): k for k in range(len(ASKED))}


def inside(row, condition):
    question = MEANS[condition]
    return bool(ASKED.contains(question, np.array([row[ASKED.features[question]]]))[0])


@given(
    st.integers(1, 3).flatmap(
        lambda depth: st.tuples(
            st.lists(st.integers(0, 6), min_size=2**depth - 1, max_size=2**depth - 1),
            st.lists(st.integers(0, 2), min_size=2**depth, max_size=2**depth),
        )
    )
)
def test_trees_of_cells(drawn):
    nodes, leaves = drawn
    public = PublicSample(GRID, np.arange(3), ("a", "b"))
    tree = DecisionTree(ASKED[np.array(nodes)], np.array(leaves), public)
    check(tree, [f"predict {label}" for label in leaves], GRID.astype(int), inside)


@given(split_trees())
def test_columns_that_determine_the_leaf(tree):
    leaf_texts = [str(label) for label in tree.leaves]
    outcome = tree.predict(GRID).reshape(4, 4)
    decides = tuple(axis for axis in (0, 1) if (np.diff(outcome, axis=axis) != 0).any())
    # a column that never decides may be asked about first: (a, then b alike in all but the order)
    assert set(decides) <= set(tree.relevant_columns(leaf_texts))
    assert set(tree.relevant_columns(leaf_texts)) <= set(tree.splits.features.tolist())


@pytest.mark.parametrize(
    ("features", "cuts", "leaves", "expected"),
    [
        ([0, 0, 0], [0.5, 1.5, 0.5], [0, 1, 1, 2], "if a > 0.5:|    predict 2|else:|    predict 0"),
        ([0, 1, 1], [0.5, 1.5, 1.5], [0, 1, 0, 1], "if b > 1.5:|    predict 1|else:|    predict 0"),
        ([0, 0, 0], [0.5, 0.5, 0.5], [1, 0, 0, 1], "predict 1"),
    ],
)
def test_unreachable_and_equal_branches_are_left_out(features, cuts, leaves, expected):
    assert split_tree(features, cuts, leaves).rule().split("\n") == expected.split("|")
