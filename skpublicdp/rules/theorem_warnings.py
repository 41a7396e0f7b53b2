"""Warnings of a `PPMHalfspaceClassifier` about its error bound, Theorem 4.6.

Bassily, Moran and Nandi (2020).
"""

from __future__ import annotations

from skpublicdp.exceptions import TooFewRowsWarning, UnprovedWarning, warn
from skpublicdp.guarantees import Promise, n_ppm
from skpublicdp.guarantees.ppm import MAX_CONE_FEATURES
from skpublicdp.rules.population_guarantee import warn_if_vacuous

MAX_THEOREM_DIMENSIONS = 6
"""Maximum dimension of public rows for which the family of the theorem can be enumerated."""

MIN_EPSILON = 1e-9
"""Smallest ε for which a number of rows is computed; smaller ones give unprintable numbers."""


def warn_if_weak(
    guarantee: Promise,
    why_unproved: str,
    *,
    pool: str,
    alpha: float | None,
    beta: float,
    epsilon: float,
    n_features: int,
    n_private: int,
    n_public: int,
    n_supports: int,
    n_dimensions: int,
) -> None:
    """Warn if there is no bound, a vacuous one, or one that random supports make large.

    The texts depend on public numbers only.

    Parameters
    ----------
    guarantee : Promise
        The guarantee of the fit.
    why_unproved : str
        The reason why the theorem does not apply, or "" if it does.
    pool, alpha, beta, epsilon
        Parameters of the estimator.
    n_features, n_private, n_public : int
        Numbers of features, private rows and public rows.
    n_supports : int
        Number of public rows that generate halfspaces.
    n_dimensions : int
        Dimension of the affine hull of the public rows.
    """
    n = n_private + n_public
    if n_supports < n_public and n_dimensions > MAX_CONE_FEATURES:
        warn(
            f'pool="paper" makes halfspaces of {n_supports} of {n_public} public rows in '
            f"{n_dimensions} dimensions, which may cost an error of {n_public / n:.2g}. "
            'pool="auto" uses all of them: it has no guarantee_ and errs far less in practice.',
            TooFewRowsWarning,
        )
    else:
        warn_if_vacuous(guarantee, n_private, n_public, max(epsilon, MIN_EPSILON))
    if not why_unproved:
        return
    if pool == "paper" or alpha is not None:
        _warn_unproved(why_unproved, pool, alpha)
        return
    min_rows = n_ppm(0.5, beta, max(epsilon, MIN_EPSILON), n_features, supports=None)
    if 4 * n < min_rows:
        warn(
            f"Theorem 4.6 has no error bound for {n} rows of {n_features} features at "
            f"ε = {epsilon:g}: an excess error of 1/2 takes {min_rows} rows.",
            TooFewRowsWarning,
        )


def _warn_unproved(why_unproved: str, pool: str, alpha: float | None) -> None:
    """Warn that the settings ask for the error bound of Theorem 4.6, which does not apply."""
    is_paper = pool == "paper"
    setting = 'pool="paper"' if is_paper else f"alpha={alpha:g}"
    alternative = "" if is_paper else ", or leave alpha at None and set max_halfspaces"
    warn(
        f"{setting} has no error bound by Theorem 4.6 here, so guarantee_ is None: {why_unproved}. "
        f'Use pool="paper" with no other settings, on public rows of at most '
        f"{MAX_THEOREM_DIMENSIONS} dimensions{alternative}.",
        UnprovedWarning,
    )
