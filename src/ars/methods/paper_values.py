"""What the paper fixes of its rivals and recipes need not say; loads no torch."""

RATE = 0.01
"""Of Sukenik et al.'s noise: log sigma(x) changes by at most this times the L2 distance."""
SIGMAS = (0.12, 0.25, 0.5, 0.75, 1.0, 1.5)
# The paper's beta for each k and sigma, or its most frequent value for cells that the paper does not have.
BETAS = {
    32: (2.25, 2.25, 2.25, 2.25, 2.25, 2.25),
    48: (2.0, 2.0, 2.25, 2.0, 2.25, 2.0),
    64: (2.25, 2.0, 2.25, 2.0, 2.0, 2.0),
    96: (2.0, 2.0, 2.25, 2.25, 2.25, 2.25),
}
USUAL_BETA = 2.25


def paper_beta(k: int, sigma: float) -> float:
    """The shape that the paper uses on k x k images at this noise level.

    >>> paper_beta(64, 0.5), paper_beta(96, 0.25), paper_beta(24, 0.7)
    (2.25, 2.0, 2.25)
    """
    return BETAS[k][SIGMAS.index(sigma)] if k in BETAS and sigma in SIGMAS else USUAL_BETA
