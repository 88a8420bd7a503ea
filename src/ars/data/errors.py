"""The one error of this package."""


class DataError(ValueError):
    """Data that is missing, damaged or not what its layout says: what was expected, what was found, what to do."""
