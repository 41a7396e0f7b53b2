"""Tests of linear models."""
