"""The one error of the report."""


class ReportError(ValueError):
    """Files of a run folder that no honest report can be made of; says which and what to do."""
