"""Private multiplicative weights on a public cover of the queries."""
