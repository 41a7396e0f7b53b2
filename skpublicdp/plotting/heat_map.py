"""Heat map of a pair term, with equal adjacent bins joined."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpublicdp.boosting.explain import Pair
from skpublicdp.data.schema import MISSING, OTHER
from skpublicdp.plotting.style import PUBLIC, RELEASED

MAX_ANNOTATED_COLUMNS = 5
"""Maximum number of columns of a heat map whose cells show numbers; others are hatched."""

MAX_JOINED_NAMES = 3
"""Maximum number of joined categories that are named; more are counted."""


@dataclass(frozen=True, eq=False)
class Side:
    """One axis of a heat map: the joined bins of a column.

    Attributes
    ----------
    name : str
        Name of the column.
    cells : list of list of int
        Groups of joined bins.
    ticks : list of (float, str)
        Positions and texts of the ticks. Cuts of numbers lie between bins.
    """

    name: str
    cells: list[list[int]]
    ticks: list[tuple[float, str]]


@dataclass(frozen=True, eq=False)
class HeatMap:
    """A pair term for one target, with equal adjacent bins joined.

    Attributes
    ----------
    x, y : Side
        The columns, the one with fewer joined bins first.
    scores, deviations : ndarray of float64, shape (n_joined of x, n_joined of y)
        Scores of the pair and their standard deviations.
    """

    x: Side
    y: Side
    scores: NDArray[np.float64]
    deviations: NDArray[np.float64]


def heat_map(pair: Pair, target: int) -> HeatMap:
    """Return the heat map of a pair, joining bins whose rows (or columns) of scores are equal.

    Bins for other and missing values are left out if no public row has them.
    """
    scores, deviations = pair.scores[target], pair.deviations[target]
    both, public_shares = np.stack([scores, deviations], axis=-1), pair.shares
    first = _side(pair, 0, both, public_shares.sum(axis=1) > 0)
    second = _side(pair, 1, both.swapaxes(0, 1), public_shares.sum(axis=0) > 0)
    grid = np.ix_(*([group[0] for group in side.cells] for side in (first, second)))
    if len(first.cells) > len(second.cells):
        return HeatMap(second, first, scores[grid].T, deviations[grid].T)
    return HeatMap(first, second, scores[grid], deviations[grid])


def _side(
    pair: Pair, axis: int, both: NDArray[np.float64], has_public_rows: NDArray[np.bool_]
) -> Side:
    cells, cuts = pair.cells[axis], pair.cuts[axis]
    groups: list[list[int]] = []
    where: dict[bytes, list[int]] = {}
    for cell, line in enumerate(map(np.ndarray.tobytes, both)):
        if cells[cell] in (OTHER, MISSING) and not has_public_rows[cell]:
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
            ticks.append((place + 0.5, more if len(names) > MAX_JOINED_NAMES else ", ".join(names)))
    return Side(pair.names[axis], groups, ticks)


def draw_pair(axes: Any, joined: HeatMap, limit: float, factor: int, label: str) -> Any:
    """Draw a pair: colours are scores, and texts are scores with standard deviations.

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
    mesh = axes.pcolormesh(joined.scores.T, **style)
    written = len(joined.x.cells) <= MAX_ANNOTATED_COLUMNS
    for (x, y), score in np.ndenumerate(joined.scores):
        half = factor * joined.deviations[x, y]
        if written:
            style = {"ha": "center", "va": "center", "fontsize": 7}
            style["color"] = "white" if abs(score) > 0.75 * limit else "black"
            said = f"{score:+.2f}" + f" ± {half:.2f}" * bool(half)
            axes.text(x + 0.5, y + 0.5, said, **style)
        elif abs(score) <= half:
            style = {"fill": False, "hatch": "////", "edgecolor": "0.6", "linewidth": 0}
            axes.add_patch(Rectangle((x, y), 1, 1, **style))
    for ticks, side in ((axes.set_xticks, joined.x), (axes.set_yticks, joined.y)):
        ticks([place for place, _ in side.ticks], [text for _, text in side.ticks])
    room = 30 / max(len(joined.x.cells), 1)
    if any(len(text) > room for _, text in joined.x.ticks):
        axes.tick_params(axis="x", labelrotation=20)
        for text in axes.get_xticklabels():
            text.set_ha("right")
    axes.set(xlabel=joined.x.name, ylabel=joined.y.name)
    axes.figure.colorbar(mesh, ax=axes, label=label)
    return mesh
