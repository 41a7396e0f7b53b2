"""Tests of skpublicdp.conformal."""
