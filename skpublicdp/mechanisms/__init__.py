"""Exact random draws (exponential mechanism, noise, subsets) and sources of random bits."""
