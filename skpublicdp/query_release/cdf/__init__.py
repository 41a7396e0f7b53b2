"""Private release of the distribution function of one numeric column."""
