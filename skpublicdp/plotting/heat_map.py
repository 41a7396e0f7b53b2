"""Heat map of a pair term, in which equal adjacent bins are joined."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skpublicdp.boosting.explain import Pair
from skpublicdp.data.schema import MISSING, OTHER
from skpublicdp.plotting.display import PUBLIC, RELEASED, plain_text

MAX_ANNOTATED_COLUMNS = 5
"""Maximum number of columns for which the cells of a heat map have text annotations."""

MAX_JOINED_NAMES = 3
"""Maximum number of joined categories that are all listed by name.

If there are more categories, only the first is listed by name."""

MAX_TICK_CHARACTERS = 30
"""Number of tick label characters that fit side by side below a heat map."""


@dataclass(frozen=True, eq=False)
class Side:
    """One axis of a heat map, with the joined bins of a column."""

    name: str  # name of the column
    cells: list[list[int]]  # groups of joined bins
    # Positions and labels of the ticks. Cuts of numeric columns lie between bins.
    ticks: list[tuple[float, str]]


@dataclass(frozen=True, eq=False)
class HeatMap:
    """A pair term for one target, in which equal adjacent bins are joined."""

    # The two columns. The column with fewer joined bins comes first.
    x: Side
    y: Side
    # (n_joined of x, n_joined of y): scores of the pair, and the standard deviations of these
    # scores
    scores: NDArray[np.float64]
    deviations: NDArray[np.float64]


def heat_map(pair: Pair, target: int) -> HeatMap:
    """Return the heat map of a pair, joining bins with equal scores and standard deviations.

    Bins for other values and for missing values are omitted if they contain no public row.
    """
    scores = pair.scores[target]
    deviations = pair.deviations[target]
    values = np.stack([scores, deviations], axis=-1)  # (n_bins, n_bins of the second column, 2)
    has_first = pair.shares.sum(axis=1) > 0
    has_second = pair.shares.sum(axis=0) > 0
    first = _join_bins(pair, 0, values, has_public_rows=has_first)
    second = _join_bins(pair, 1, values.swapaxes(0, 1), has_public_rows=has_second)
    # each group of joined bins has the values of its first bin
    first_bins = [group[0] for group in first.cells]
    second_bins = [group[0] for group in second.cells]
    grid = np.ix_(first_bins, second_bins)
    scores = scores[grid]
    deviations = deviations[grid]
    if len(first_bins) > len(second_bins):
        return HeatMap(second, first, scores=scores.T, deviations=deviations.T)
    return HeatMap(first, second, scores=scores, deviations=deviations)


def _join_bins(
    pair: Pair, axis: int, values: NDArray[np.float64], has_public_rows: NDArray[np.bool_]
) -> Side:
    """Return one axis of a heat map, with equal bins joined.

    Parameters
    ----------
    pair : Pair
        Pair term of a model.
    axis : {0, 1}
        Column of the pair.
    values : ndarray of float64, shape (n_bins, n_bins of the other column, 2)
        Scores and standard deviations. Bins with equal values are joined.
    has_public_rows : ndarray of bool, shape (n_bins,)
        Whether the bin contains a public row.
    """
    names = pair.cells[axis]
    cuts = pair.cuts[axis]
    is_numeric = len(cuts) > 0
    groups: list[list[int]] = []
    group_of_values: dict[bytes, list[int]] = {}
    for bin_position, name in enumerate(names):
        if name in (OTHER, MISSING) and not has_public_rows[bin_position]:
            continue
        bin_values = values[bin_position].tobytes()  # bytes are hashable
        # numeric bins are joined with the preceding bin, categories with any equal category
        group = groups[-1] if groups and is_numeric else group_of_values.get(bin_values)
        if group and values[group[-1]].tobytes() == bin_values and name != MISSING:
            group.append(bin_position)
        else:
            group_of_values[bin_values] = [bin_position]
            groups.append(group_of_values[bin_values])
    ticks = []
    for position, group in enumerate(groups):
        last_bin = group[-1]
        if is_numeric and last_bin < len(cuts):  # a group of numbers that has an upper end
            upper_end = names[last_bin].split(" to ")[-1].removeprefix("<= ")
            ticks.append((position + 1.0, upper_end))
        elif not is_numeric or names[last_bin] == MISSING:
            joined_name = _joined_name([names[k] for k in group])
            ticks.append((position + 0.5, joined_name))
    return Side(pair.names[axis], groups, ticks)


def _joined_name(names: list[str]) -> str:
    """Return the tick label of joined categories: all names, or one name and a count."""
    if len(names) > MAX_JOINED_NAMES:
        return f"{names[0]} and {len(names) - 1} others"
    return ", ".join(names)


def draw_pair(
    axes: Any, joined: HeatMap, max_score: float, band_deviations: int, label: str
) -> Any:
    """Draw a pair term as coloured cells with their scores and the half-widths of their bands.

    With more than `MAX_ANNOTATED_COLUMNS` columns, cells are not annotated. Instead, cells whose
    band includes 0 are hatched.

    Parameters
    ----------
    axes : matplotlib Axes
        Axes to plot on.
    joined : HeatMap
        Pair term with joined bins.
    max_score : float
        Absolute score that is drawn in the strongest colour.
    band_deviations : int
        Half-width of a band, in standard deviations.
    label : str
        Label of the colour bar, which names the quantity to which scores are added.
    """
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.patches import Rectangle

    colors = LinearSegmentedColormap.from_list("", [PUBLIC, "white", RELEASED])
    style: dict[str, Any] = {
        "cmap": colors,
        "vmin": -max_score,
        "vmax": max_score,
        "edgecolors": "white",
        "linewidth": 1,
    }
    mesh = axes.pcolormesh(joined.scores.T, **style)
    has_texts = len(joined.x.cells) <= MAX_ANNOTATED_COLUMNS
    for (x, y), score in np.ndenumerate(joined.scores):
        half_width = band_deviations * joined.deviations[x, y]
        if has_texts:
            style = {"ha": "center", "va": "center", "fontsize": 7}
            is_dark = abs(score) > 0.75 * max_score
            style["color"] = "white" if is_dark else "black"
            text = f"{score:+.2f}"
            if half_width:
                text += f" ± {half_width:.2f}"
            axes.text(x + 0.5, y + 0.5, text, **style)
        elif abs(score) <= half_width:
            style = {"fill": False, "hatch": "////", "edgecolor": "0.6", "linewidth": 0}
            axes.add_patch(Rectangle((x, y), 1, 1, **style))
    for set_ticks, side in ((axes.set_xticks, joined.x), (axes.set_yticks, joined.y)):
        texts = [plain_text(text) for _, text in side.ticks]
        set_ticks([position for position, _ in side.ticks], texts)
    max_characters = MAX_TICK_CHARACTERS / max(len(joined.x.cells), 1)  # per column
    if any(len(text) > max_characters for _, text in joined.x.ticks):
        axes.tick_params(axis="x", labelrotation=20)
        for tick_label in axes.get_xticklabels():
            tick_label.set_ha("right")
    axes.set(xlabel=plain_text(joined.x.name), ylabel=plain_text(joined.y.name))
    axes.figure.colorbar(mesh, ax=axes, label=plain_text(label))
    return mesh
