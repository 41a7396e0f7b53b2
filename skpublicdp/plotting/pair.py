"""What a pair of columns adds, as a heat map: cells that are alike are one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpublicdp.boosting.explain import Pair
from skpublicdp.data.schema import MISSING, OTHER
from skpublicdp.plotting.style import PUBLIC, RELEASED

MOST_ACROSS = 5
"""A map of so many columns of fields at most has its numbers in them; others are hatched."""

MOST_NAMES = 3
"""Categories that are alike, and more than these, are counted rather than named."""


@dataclass(frozen=True, eq=False)
class Side:
    """The joined cells of one column.

    Attributes
    ----------
    name : str
        Of the column.
    cells : list of list of int
        Cells that are joined.
    ticks : list of (float, str)
        Where something is written beside them: cuts of numbers are between cells.
    """

    name: str
    cells: list[list[int]]
    ticks: list[tuple[float, str]]


@dataclass(frozen=True, eq=False)
class HeatMap:
    """A pair for one target, its cells joined where they are alike.

    Attributes
    ----------
    x, y : Side
        The columns; the one with fewer joined cells first.
    scores, deviations : ndarray of float64, shape (n_joined of x, n_joined of y)
        Those of the pair.
    """

    x: Side
    y: Side
    scores: NDArray[np.float64]
    deviations: NDArray[np.float64]


def heat_map(pair: Pair, target: int) -> HeatMap:
    """Join the cells of a pair that are alike beside all cells of the other column.

    Those of values that were not seen are left out.
    """
    scores, deviations = pair.scores[target], pair.deviations[target]
    both, seen = np.stack([scores, deviations], axis=-1), pair.shares
    first = _side(pair, 0, both, seen.sum(axis=1) > 0)
    second = _side(pair, 1, both.swapaxes(0, 1), seen.sum(axis=0) > 0)
    grid = np.ix_(*([group[0] for group in side.cells] for side in (first, second)))
    if len(first.cells) > len(second.cells):
        return HeatMap(second, first, scores[grid].T, deviations[grid].T)
    return HeatMap(first, second, scores[grid], deviations[grid])


def _side(pair: Pair, axis: int, both: NDArray[np.float64], seen: NDArray[np.bool_]) -> Side:
    cells, cuts = pair.cells[axis], pair.cuts[axis]
    groups: list[list[int]] = []
    where: dict[bytes, list[int]] = {}
    for cell, line in enumerate(map(np.ndarray.tobytes, both)):
        if cells[cell] in (OTHER, MISSING) and not seen[cell]:
            continue
        # neighbours among numbers, anything among categories
        alike = groups[-1] if groups and len(cuts) else where.get(line)
        if alike and both[alike[-1]].tobytes() == line and cells[cell] != MISSING:
            alike.append(cell)
        else:
            where[line] = [cell]
            groups.append(where[line])
    ticks = []
    for place, group in enumerate(groups):
        if len(cuts) and group[-1] < len(cuts):
            ticks.append((place + 1.0, cells[group[-1]].split(" to ")[-1].removeprefix("<= ")))
        elif not len(cuts) or cells[group[-1]] == MISSING:
            names = [cells[cell] for cell in group]
            more = f"{names[0]} and {len(names) - 1} others"
            ticks.append((place + 0.5, more if len(names) > MOST_NAMES else ", ".join(names)))
    return Side(pair.names[axis], groups, ticks)


def draw_pair(axes: Any, found: HeatMap, limit: float, factor: int, label: str) -> Any:
    """Draw a pair: colours are scores, with some of their standard deviations in words.

    Parameters
    ----------
    axes : matplotlib Axes
        Where to draw.
    found : HeatMap
        What is drawn.
    limit : float
        The score of the strongest colours.
    factor : int
        Standard deviations on either side.
    label : str
        What scores add to.

    Returns
    -------
    matplotlib QuadMesh
        The map.
    """
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.patches import Rectangle

    colors = LinearSegmentedColormap.from_list("", [PUBLIC, "white", RELEASED])
    style: dict[str, Any] = {
        "cmap": colors,
        "vmin": -limit,
        "vmax": limit,
        "edgecolors": "white",
        "linewidth": 1,
    }
    mesh = axes.pcolormesh(found.scores.T, **style)
    written = len(found.x.cells) <= MOST_ACROSS
    for (x, y), score in np.ndenumerate(found.scores):
        half = factor * found.deviations[x, y]
        if written:
            style = {"ha": "center", "va": "center", "fontsize": 7}
            style["color"] = "white" if abs(score) > 0.75 * limit else "black"
            said = f"{score:+.2f}" + f" ± {half:.2f}" * bool(half)
            axes.text(x + 0.5, y + 0.5, said, **style)
        elif abs(score) <= half:
            style = {"fill": False, "hatch": "////", "edgecolor": "0.6", "linewidth": 0}
            axes.add_patch(Rectangle((x, y), 1, 1, **style))
    for ticks, side in ((axes.set_xticks, found.x), (axes.set_yticks, found.y)):
        ticks([place for place, _ in side.ticks], [text for _, text in side.ticks])
    room = 30 / max(len(found.x.cells), 1)
    if any(len(text) > room for _, text in found.x.ticks):
        axes.tick_params(axis="x", labelrotation=20)
        for text in axes.get_xticklabels():
            text.set_ha("right")
    axes.set(xlabel=found.x.name, ylabel=found.y.name)
    axes.figure.colorbar(mesh, ax=axes, label=label)
    return mesh
