"""Draws and the randomness behind them; nothing here knows scikit-learn or data."""
