"""The private distribution function of one numeric column."""
