"""Estimators that draw one rule from a cover, with the shared search and accuracy bounds."""
