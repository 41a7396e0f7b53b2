"""Rows: which are private, which are public, and what their columns are."""
