"""For the site's reference: examples of docstrings, which start with >>>, are shown as examples, not as quotations."""

import re
from typing import Any

from griffe import Extension, Object


class Examples(Extension):
    """Puts the heading that Google's style expects above the examples of a docstring."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Change the docstring of an object that was read."""
        if obj.docstring:
            obj.docstring.value = re.sub(
                r"^>>> .*(?:\n.+)*",
                lambda example: "Examples:\n    " + example[0].replace("\n", "\n    "),
                obj.docstring.value,
                flags=re.MULTILINE,
            )
