"""Estimators that draw one rule from a cover, and the search and guarantees they share."""
