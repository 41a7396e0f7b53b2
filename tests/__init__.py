"""Tests of the package, its pages and its benchmarks."""

from pathlib import Path

ROOT = Path(__file__).parents[1]
"""Folder of the repository."""
