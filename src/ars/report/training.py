"""Whether two recipes train alike."""

from ars.certification.run_folder import NOT_OF_WEIGHTS

NOT_OF_TRAINING = {"seed", "certify", "classifier.from_run", "classifier.sha256", *NOT_OF_WEIGHTS}
"""Keys in which the seeds of a row may differ: a classifier that was trained before has a seed of its own."""


def same_training(one: object, other: object, name: str = "") -> bool:
    """Whether two recipes train alike but for the seed; a key that only one has came with a later version."""
    if name in NOT_OF_TRAINING:
        return True
    if not (isinstance(one, dict) and isinstance(other, dict)):
        return one == other
    shared = one.keys() & other.keys()
    return all(same_training(one[key], other[key], f"{name}.{key}".lstrip(".")) for key in shared)
