"""Exact random draws (exponential mechanism, noise, subsets) and the random bits behind them."""
