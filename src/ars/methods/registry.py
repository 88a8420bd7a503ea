"""The methods that recipes, sweeps and reports know by name: one entry each; loads no torch.

A package registers its own method through the entry point group "ars.methods": the entry has the method's name, and its
value names an attribute that holds a Method.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from types import MappingProxyType
from typing import Any

Dashes = str | tuple[float, tuple[float, ...]]


@dataclass(frozen=True)
class Method:
    """A method's properties that are known without loading torch.

    looks is the number of noisy looks at an image, and so the number of noise levels in a record. With input_dependent
    noise, each image has its own level. builder is "module:function": it takes the settings, the inputs and a base
    classifier, and returns the smoothed classifier. options is a frozen dataclass of the method's own options: a recipe
    sets them under "options", and the builder gets them as a fourth argument. colour and dashes style its curves.
    """

    name: str
    title: str
    builder: str
    colour: str
    dashes: Dashes = "-"
    masked: bool = False
    looks: int = 1
    input_dependent: bool = False
    options: type | None = None

    def own_options(self, given: Mapping[str, Any]) -> Any:
        """The options as the method's dataclass; None for a method without options, which refuses any."""
        defaults = {} if self.options is None else {field.name: field.default for field in fields(self.options)}
        for name, value in given.items():
            if name not in defaults:
                advice = f"it has {', '.join(defaults)}" if defaults else "it has none of its own; leave options out"
                raise ValueError(f"method {self.name} has no option {name}; {advice}")
            if isinstance(defaults[name], float) and not isinstance(value, int | float):
                raise ValueError(f"options.{name} must be a number, got {value!r}")
        return None if self.options is None else self.options(**given)

    def build(self, settings: Any, inputs: Any, classifier: Any) -> Any:
        """Import the builder and build the smoothed classifier; the types are in ars.methods.builder."""
        module, _, function = self.builder.partition(":")
        options = self.own_options(settings.options)
        build = getattr(import_module(module), function)
        return build(settings, inputs, classifier, *(() if options is None else (options,)))


# Colours after Okabe and Ito, distinct for colour-blind readers; the dashes are for greyscale prints.
BUILT_IN = (
    Method("cohen", "Cohen et al.", "ars.methods.cohen:build", "#4b5563", (0, (5, 1.6))),
    Method(
        "static_mask", "static mask", "ars.methods.static_mask:build", "#D97706", (0, (7, 1.6, 1.5, 1.6)), masked=True
    ),
    Method("unicr", "UniCR", "ars.methods.unicr:build", "#009E73", (0, (2.5, 1.5))),
    Method("sukenik", "Súkeník et al.", "ars.methods.sukenik:build", "#B5558F", (0, (1, 1.2)), input_dependent=True),
    Method("adaptive", "ARS", "ars.methods.adaptive:build", "#0072B2", masked=True, looks=2),
)


@cache
def methods() -> Mapping[str, Method]:
    """Every method by name: those of this package, then those that installed packages register."""
    registered = {method.name: method for method in BUILT_IN}
    for entry in entry_points(group="ars.methods"):
        if entry.name in registered:
            raise ValueError(f"two packages register a method called {entry.name}; uninstall one of them")
        found = entry.load()
        if not isinstance(found, Method) or found.name != entry.name:
            raise ValueError(f"the entry point {entry.value} must be a Method called {entry.name}, got {found!r}")
        registered[entry.name] = found
    return MappingProxyType(registered)


def method_called(name: str) -> Method:
    """The method of this name; an unknown name is refused with a list of all methods."""
    if name not in methods():
        near = get_close_matches(name, methods(), n=1)
        question = f"; did you mean {near[0]}?" if near else ""
        raise ValueError(f"method must be one of {', '.join(methods())}, got {name}{question}")
    return methods()[name]
