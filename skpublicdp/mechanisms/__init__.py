"""Exact sampling (exponential mechanism, noise, subsets) and sources of random bits."""
