"""The one error of this package, and its one warning."""


class DataError(ValueError):
    """Data that is missing, damaged or not what its layout says: what was expected, what was found, what to do."""


class DataWarning(UserWarning):
    """Data that is left out as was asked for: what, and why."""
