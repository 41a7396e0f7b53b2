"""Errors and warnings with a meaning of their own."""


class CoverSizeError(ValueError):
    """A cover's table would not fit in memory; the message names its size and the remedy."""


class NoPublicDataWarning(UserWarning):
    """No public rows were given, so a data-independent structure is used instead."""


class SlicedPublicDataWarning(UserWarning):
    """`X_public` has as many rows as `X`, which is what a cross-validation that cut it leaves."""


class TooFewRowsWarning(UserWarning):
    """A theorem's guarantee needs many times the rows given before it promises anything."""


class AmbiguousLabelWarning(UserWarning):
    """-1 may mark unlabelled rows or be one of two labels; it is read as a label."""


class DriftWarning(UserWarning):
    """Released counts of private rows are not what the public rows lead to expect."""
