"""Does the guarantee hold for the draws? At X and at X + e, by the likelihood ratio, any statistic, and the radius."""

import math
from typing import cast

import numpy as np
from scipy.special import ndtri
from scipy.stats import binom, chi2, kstest, norm

from ars.audit.answer import LEVEL, Answer, sure, upper_bound
from ars.audit.draws import FAR, SAME_LOSS, STATISTICS, Floats, Measured, Place, Subject
from ars.certification.step_check import ROUNDING
from ars.theory.tradeoff import Gaussian as GaussianTradeOff
from ars.theory.tradeoff import TradeOff

POINTS = (0.5, 0.9, 0.99, 0.999, 1.0)  # quantiles at X that are thresholds of the statistics
NO_RADIUS = "the certified radius is 0 even for .99 of the votes"


def check_likelihood_ratio(subject: Subject) -> Answer:
    """The log-likelihood ratio of all releases, for X + e against X, is N(-mu^2/2, mu^2), mu no larger than promised.

    mu may vary with the releases: independent noise then completes the ratio to a constant mu. A sum of normal steps,
    each with a variance that the earlier ones fix, together with what is missing to the total, is normal.
    """
    scores: list[Floats] = []
    excess, known = 0.0, True
    for place in subject.places:
        radius = place.far
        promise, shown = place.ideal(radius), float(place.here.worst.max()) * radius
        if isinstance(promise, GaussianTradeOff) and radius > 0:
            excess = max(excess, shown / promise.mu - 1)
        most = place.largest_loss(max(radius, 1e-9))
        known = known and most is not None
        if most is not None:
            scores.append(_completed(place, place.here, most))
    if excess > ROUNDING:
        said = f"the stated weights and deviations show {excess:.2%} more of X than is guaranteed"
        return Answer(False, f"{said}; derive guarantee() from the largest possible weight / std")
    if not (known and subject.normal):
        return Answer(None, "not every step is a Gaussian, so the law of the ratio is not known; see operating points")
    pooled = np.concatenate(scores)
    p = sure((1 + len(scores)) * min(_p_score(score) for score in (pooled, *scores)))
    counts, edges = np.histogram(pooled, bins=61, range=(-4.6, 4.6))
    said = f"mean {pooled.mean():+.4f} and variance {np.square(pooled).mean():.4f} in place of 0 and 1"
    figure = {"counts": counts.tolist(), "edges": edges.tolist(), "draws": len(pooled)}
    return Answer(p > LEVEL, f"{said}, over {len(pooled):,} draws", p, figure)


def check_operating_points(subject: Subject) -> Answer:
    """No statistic tells X + e from X better than the guarantee allows: beta >= f(alpha) at every threshold.

    Thresholds are quantiles of half of the draws at X; the other half gives alpha, and draws at X + e give beta. Points
    of different images may be averaged because f is convex.
    """
    places = [place for place in subject.places if place.far > 0]
    if not places:
        return Answer(None, NO_RADIUS)
    if places[0].guarantee(places[0].far) is None:
        return Answer(None, "the mechanism states a radius but no trade-off function; see radius")
    points, curves, worst = [], {}, (math.inf, "")
    share, levels = LEVEL / (2 * 2 * len(STATISTICS) * len(POINTS)), np.linspace(0.001, 0.999, 60)
    for name, radius in (("there", places[0].far), ("nearby", places[0].near)):
        if radius == 0:
            continue
        promised = cast(TradeOff, places[0].guarantee(radius))
        curves[name] = [promised(level) for level in levels.tolist()]
        for column, statistic in enumerate(STATISTICS):
            for point in POINTS:
                above = below = n_above = n_below = 0
                for place in places:
                    here, there = place.here.values[:, column], getattr(place, name).values[:, column]
                    half = len(here) // 2
                    threshold = np.quantile(here[:half], point)
                    above, n_above = above + int((here[half:] > threshold).sum()), n_above + len(here) - half
                    below, n_below = below + int((there <= threshold).sum()), n_below + len(there)
                high = promised(upper_bound(above, n_above, share))
                gap = upper_bound(below, n_below, share) - high
                said = f"{statistic}: alpha {above / n_above:.4f} and beta {below / n_below:.4f}"
                worst = min(worst, (gap, f"{said}, where at least {promised(above / n_above):.4f} is guaranteed"))
                points.append([name, statistic, above / n_above, below / n_below])
    figure = {"points": points, "levels": levels.tolist(), "curves": curves}
    if worst[0] < 0:
        return Answer(False, f"a test beats the guarantee: {worst[1]}", None, figure)
    return Answer(True, f"no test beats it by more than chance; closest, {worst[1]}", None, figure)


def check_radius(subject: Subject) -> Answer:
    """At the radius certified for p, the test that has p at X, and knows X and e, still has 1/2 at X + e.

    It is the best test if the noise is normal; then it reaches 1/2 just there, and the radius is not too small either.
    """
    places = [place for place in subject.places if place.far > 0]
    if not places:
        return Answer(None, NO_RADIUS)
    normal = subject.normal
    known = normal and all(place.largest_loss(place.far) is not None for place in places)
    shares, drawn = {}, sum(len(place.there.loss) for place in places)
    for column, statistic in enumerate(STATISTICS[:1] if known else STATISTICS):
        shares[statistic] = 0
        for place in places:
            if known:
                scores = _completed(place, place.there, cast(float, place.largest_loss(place.far)))
                threshold = float(ndtri(FAR))
            else:
                scores, here = place.there.values[:, column], np.sort(place.here.values[:, column])
                # an order statistic that is above the quantile FAR, except with a tenth of LEVEL in all
                risk = LEVEL / (10 * len(places) * len(STATISTICS))
                threshold = here[min(int(binom.isf(risk, len(here), FAR)), len(here) - 1)]
            shares[statistic] += int((scores <= threshold).sum())
    best = min(shares, key=lambda statistic: shares[statistic])
    share = shares[best] / drawn
    p = sure(1.2 * len(shares) * float(binom.cdf(shares[best], drawn, 0.5)))
    said = f"the test has {share:.4f} of the votes at the radius certified for {FAR:g}, and must have .5 or more"
    if known:
        reach = ndtri(FAR) / max(ndtri(FAR) - float(ndtri(min(max(share, 1e-9), 1 - 1e-9))), 1e-9)
        return Answer(p > LEVEL, f"{said}; it reaches .5 at {reach:.3f} times the radius", p)
    return Answer(p > LEVEL, f"{said} (by {best}, the best of {len(shares)} tests)", p)


def _completed(place: Place, draws: Measured, most: float) -> Floats:
    """The ratio with independent noise of the variance that it lacks, divided by the largest deviation."""
    if np.ptp(draws.loss) <= SAME_LOSS * most:
        return draws.values[:, 0] / most
    part = int(draws is place.there)
    noise = np.random.default_rng([place.subject.settings.seed, place.number, part]).standard_normal(len(draws.loss))
    lacking = np.sqrt(np.maximum(most**2 - draws.loss**2, 0))
    completed: Floats = (draws.values[:, 0] + lacking * noise) / most
    return completed


def _p_score(score: Floats) -> float:
    """p-value of standard normal numbers: their mean, their variance, and Kolmogorov-Smirnov."""
    n, total = len(score), float(np.square(score).sum())
    p_mean = 2 * norm.sf(abs(float(score.mean())) * math.sqrt(n))
    p_variance = 2 * min(chi2.cdf(total, n), chi2.sf(total, n))
    return sure(3 * min(p_mean, p_variance, kstest(score, "norm").pvalue))
