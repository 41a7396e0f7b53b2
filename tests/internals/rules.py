"""Internal names of rules that tests use."""

from skpublicdp.rules import cover_search, ppm
from skpublicdp.rules.cover_search import RuleSearch, search_cover
