"""Private multiplicative weights, run on a public cover of the queries."""
