"""ars radius: the calculator."""

import argparse
import json
from decimal import Decimal, InvalidOperation
from fractions import Fraction

from ars.cli.errors import tell
from ars.cli.options import Subparsers, add_command
from ars.report.measures import show_radius, unit_name
from ars.theory import NORMS, UnsupportedThreat, ars_radius_l2, ars_radius_linf
from ars.theory.rounding import truncate

TEACH = """\
The certified radius of a prediction, from noise levels and class probabilities, rounded down.

  ars radius --sigma 0.5 --dim 3072 --p-plus 0.99                      Cohen et al., Linf (Eq. 4)
  ars radius --sigma 0.5 --dim 3072 --p-plus 0.99 --norm l2            Cohen et al., L2 (Cor. 2.2)
  ars radius --sigma 0.71 0.71 --masked --dim 3072 --p-plus 0.99       two-step ARS, Linf (Prop. 2.4)
  ars radius --sigma 0.5 --dim 3072 --p-plus 0.6 --p-minus 0.1         with a bound on the runner-up
"""


LONGEST = 1000  # digits; no float is closer to 0


def add_to(commands: Subparsers) -> None:
    """Add the command."""
    parser = add_command(commands, "radius", run, summary="the radius calculator", teach=TEACH)
    parser.add_argument("--sigma", type=float, nargs="+", required=True, help="noise level of each step")
    parser.add_argument("--dim", type=int, required=True, help="channels x height x width")
    parser.add_argument("--p-plus", type=probability, required=True, help="lower bound on the top class's probability")
    parser.add_argument("--p-minus", type=probability, help="upper bound on every other class (default: 1 - p-plus)")
    parser.add_argument("--norm", choices=NORMS, default="linf", help="the norm of the ball (default: linf)")
    parser.add_argument("--masked", action="store_true", help="a step is masked, so only linf is covered")
    parser.add_argument("--json", action="store_true", help="print JSON")


def probability(text: str) -> Fraction:
    """A probability exactly as typed, so that the theory rounds it to the safe side.

    >>> probability("0.99"), probability("1e-3")
    (Fraction(99, 100), Fraction(1, 1000))
    """
    try:
        number = Decimal(text)
    except InvalidOperation as error:
        raise ValueError from error  # in argparse's words, as below
    if not (number.is_finite() and 0 <= number <= 1 and number.adjusted() > -LONGEST):
        raise ValueError
    return Fraction(number)


def run(options: argparse.Namespace) -> int:
    """Print the radius."""
    p_minus = 1 - options.p_plus if options.p_minus is None else options.p_minus
    if options.norm == "linf":
        radius = ars_radius_linf(options.sigma, options.dim, options.p_plus, p_minus)
    elif options.masked:
        raise UnsupportedThreat("a masked step covers 'linf' (Prop. 2.4) only; leave --masked out or use --norm linf")
    else:
        radius = ars_radius_l2(options.sigma, options.p_plus, p_minus)
    if options.json:
        tell(json.dumps({"radius": radius, "norm": options.norm, "dim": options.dim, "sigmas": options.sigma}))
    elif radius == 0:
        tell("radius 0: the classes cannot be distinguished, abstain")
    else:
        pixels = f" = {show_radius(radius, 'linf', decimals=4)}{unit_name('linf')}" if options.norm == "linf" else ""
        tell(f"radius {truncate(radius, 6)}{pixels} in {options.norm}")
    return 0
