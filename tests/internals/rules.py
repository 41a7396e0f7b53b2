"""Internal names of rules that tests use."""

from skpublicdp.rules import cover_search, ppm
from skpublicdp.rules.cover_search import RuleSearch, search_cover
from skpublicdp.rules.private_selection import PublicRows, UnfailingClassifier, fit_candidates
from skpublicdp.rules.private_votes import copies_of_points, count_votes
