"""How the templates of pages are read: texts are escaped, what is not defined is an error."""

from jinja2 import Environment, StrictUndefined


def page_environment() -> Environment:
    """An environment for one page, which adds what its template calls."""
    return Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
