"""Whether test images are still those that answers were counted on; loads no torch.

A test set looks like a row of numbers: how many images it has, and of some of them the brightness, that of their left
and upper halves, and the contrast. Decoders of other versions leave these as they are.
"""

SAME = 1 / 255  # what another version of a decoder may change the mean of an image by, and much more

Look = tuple[float, ...]


def difference(old: Look, new: Look) -> str | None:
    """How the images differ from what they were, in words; None where they do not, or where nobody knows.

    An earlier version kept fewer numbers: those that both have are compared.

    >>> difference((3, 0.5, 0.25), (3, 0.5001, 0.75)), difference((3, 0.5), (4, 0.5))
    ('of 3 some have changed', 'there were 3 test images, now there are 4')
    >>> difference((3, 0.5), (3, 0.5, 0.1)) is difference((), (3, 0.5)) is None
    True
    """
    if not old or not new:
        return None
    were, are = int(old[0]), int(new[0])
    if were != are:
        return f"there were {were} test images, now there are {are}"
    same = all(abs(one - two) <= SAME for one, two in zip(old[1:], new[1:], strict=False))
    return None if same else f"of {are} some have changed"
