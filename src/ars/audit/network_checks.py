"""Are the votes of draws independent, and is the network the same for all of them?"""

import math
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import chi2, norm
from torch import Tensor

from ars.audit.answer import LEVEL, Answer, sure
from ars.audit.draws import FIRST_OTHER, Floats, Place, Subject
from ars.certification.certifier import Certifier
from ars.certification.logits import alike, moves
from ars.certification.model_check import TIED, check_counting
from ars.certification.settings import BLOCK
from ars.certification.step_check import DRAWS, LEVELS, generators, if_it_can
from ars.certification.votes import block_seed, draw_logits
from ars.smoothing.mechanism import Images

EVEN = (0.2, 0.8)  # shares of votes whose chi-squared statistic follows its law closely
SIZES = (1, 2, 16, 32, BLOCK)
MOST = 1000  # in a batch of draws that each have a generator; check_counting asks at the size used in counting
IMAGES_COUNTED = 200


def check_short(subject: Subject) -> Answer:
    """What ars certify asks of a model before it counts a vote."""
    certifier = Certifier(subject.given, subject.settings.certify)
    certifier.prepare(subject.images)
    return Answer(True, "nothing is refused")


def check_votes(subject: Subject) -> Answer:
    """Votes scatter as independent ones do: over blocks of 100 draws, over the places in a block, and side by side.

    A vote is whether a number lies above its median: the gap of two leading logits of the network, or the ratio.
    """
    shown: dict[str, list[NDArray[np.bool_]]] = {}
    for place in subject.places:
        for name, numbers in (("network", _gaps(subject, place)), ("noise", place.here.values[:, 0])):
            votes = (numbers > np.median(numbers)).reshape(-1, BLOCK)
            if EVEN[0] < votes.mean() < EVEN[1]:
                shown.setdefault(name, []).append(votes)
            elif name == "noise":  # a continuous number that is the same in many draws
                return Answer(False, "many draws have the same noise", 0.0)
    p_values = [p for tables in shown.values() for p in independence(tables)]
    p = sure(min(p_values) * len(p_values))
    sums = [votes.sum(axis=1) for tables in shown.values() for votes in tables]
    counts, ratio = np.concatenate(sums), float(np.mean([one.var(ddof=1) for one in sums])) / (BLOCK / 4)
    figure = {"votes": np.bincount(counts, minlength=BLOCK + 1).tolist(), "blocks": len(counts)}
    about = f"variance over {len(counts)} blocks of {BLOCK} votes {ratio:.2f} times that of independent votes"
    return Answer(p > LEVEL, f"{about} ({' and '.join(shown)})", p, figure)


def check_batches(subject: Subject) -> Answer:
    """A draw is answered alike alone and in batches of any size, whatever the others in the batch are."""
    model, counted = subject.model, min(MOST, subject.counter.batch(subject.images))
    others = [*(1 - subject.images), *(torch.full_like(subject.images[0], level) for level in LEVELS), *subject.images]
    seen = False
    for number in range(len(subject.images)):
        image = subject.images[number : number + 1]
        alone = _answers(subject, image, [], 1)
        seen = seen or moves(alone, images=1)
        for size in (*SIZES[1:], counted):
            subject.tick(0)
            found = [_answers(subject, image, [image], size)]
            if size != counted:  # there check_counting asks
                rows = (if_it_can(_answers, subject, image, company, size) for company in (others, others[::-1]))
                found += [row for row in rows if row is not None]
            if not all(alike(row, found[0], images=1, rounded_to=torch.float32) for row in found):
                return Answer(False, f"among {size} draws: {TIED}")
            # batches of another size may be rounded as in bf16
            if not alike(found[0], alone, images=1, rounded_to=torch.bfloat16):
                return Answer(False, f"among {size} draws otherwise than alone: {TIED}")
        check_counting(subject.counter, image)
    if not seen:
        return Answer(None, f"{type(model.classifier).__name__} gives every draw of these images the same logits")
    return Answer(True, f"alone, and among {', '.join(map(str, SIZES[1:]))} and {counted} draws")


def check_eval_mode(subject: Subject) -> Answer:
    """In eval mode no part trains, none returns to training, and the same draws get the same answers twice."""
    model, image = subject.model, subject.images[:1].expand(BLOCK, -1, -1, -1)
    state = torch.get_rng_state()
    before = _training(model)
    first, second = (draw_logits(model, image, generators(image, [0])).clone() for _ in range(2))
    after = _training(model)
    names = ", ".join((before or after)[:3])
    if before:
        return Answer(False, f"{names} stays in training mode after eval(); let train() pass the mode on")
    if after:
        return Answer(False, f"{names} goes back to training mode in the forward pass; leave the mode alone")
    if not torch.equal(state, torch.get_rng_state()):
        return Answer(False, "the forward pass draws from torch's global generator, as dropout does")
    if not alike(second, first, images=1, rounded_to=torch.float32):
        return Answer(False, "the same draws get other logits a second time, as with dropout")
    return Answer(True, f"{sum(1 for _ in model.modules())} modules in eval mode, {BLOCK} draws repeated")


def check_drift(subject: Subject) -> Answer:
    """After draws of many images the same draws get the same answers as at the start."""
    counter, images, seed = subject.counter, subject.images, subject.settings.seed
    each = max(1, subject.settings.draws // (IMAGES_COUNTED * BLOCK)) * BLOCK
    noise = torch.Generator().manual_seed(seed)
    for number in range(IMAGES_COUNTED):
        image = images[number % len(images)][None]
        mixed = (image + torch.rand(image.shape, generator=noise).to(image)) / 2
        mechanism = subject.mechanism_of(subject.model.mechanism, mixed)
        counter([mechanism], mixed, [FIRST_OTHER + number], n=each, stage="select", seed=seed)
        subject.tick(each)
    subject.drift.check()
    return Answer(True, f"{IMAGES_COUNTED} images of {each} draws after the other checks")


def independence(tables: Sequence[NDArray[np.bool_]]) -> list[float]:
    """p-values of the votes [blocks, 100] of images: dispersion over blocks, over places, agreement of neighbours.

    Each image's votes are half of one kind, and statistics are added over the images.
    """
    p_values = []
    for turned in (False, True):
        statistic = degrees = 0.0
        for table in (votes.T if turned else votes for votes in tables):
            counts, size, p = table.sum(axis=1), table.shape[1], table.mean()
            statistic += float(np.square(counts - size * p).sum() / (size * p * (1 - p)))
            degrees += len(counts) - 1
        p_values.append(2 * min(chi2.sf(statistic, degrees), chi2.cdf(statistic, degrees)))
    centred = [(votes - votes.mean()) / votes.std() for votes in tables]
    pairs = np.concatenate([(votes[:, 1:] * votes[:, :-1]).ravel() for votes in centred])
    p_values.append(2 * norm.sf(abs(pairs.sum()) / math.sqrt(pairs.size)))
    return [sure(p) for p in p_values]


def _gaps(subject: Subject, place: Place) -> Floats:
    """The gap of the two leading logits of the network in each draw, counted as votes are."""
    counter, image = subject.counter, subject.images[place.number : place.number + 1]
    end, size = subject.share(subject.settings.draws // 2) // BLOCK, counter.batch(image) // BLOCK
    parts = []
    for start in range(0, end, size):
        blocks = range(start, min(start + size, end))
        seeds = [block_seed(subject.settings.seed, place.number, "select", block) for block in blocks]
        subject.tick(len(blocks) * BLOCK)
        batch = image.expand(len(blocks) * BLOCK, -1, -1, -1)
        parts.append(counter.answer(batch, generators(image, seeds)).double().cpu())
    logits = torch.cat(parts)
    leading = logits.mean(dim=0).topk(2).indices
    gaps: Floats = (logits[:, leading[0]] - logits[:, leading[1]]).numpy()
    return gaps


def _answers(subject: Subject, image: Images, company: Sequence[Images], size: int) -> Tensor:
    """The logits of DRAWS draws of an image, in batches of this size with other images; their noise is the same."""
    rows = max(1, min(DRAWS, size // 2))
    answers = []
    for start in range(0, DRAWS, rows):
        batch, seeds = [image] * rows, list(range(start, start + rows))
        for number in range(size - rows):
            batch.append(company[number % len(company)].view_as(image))
            seeds.append(DRAWS + number)
        order = np.random.default_rng(start).permutation(size).tolist()
        logits = draw_logits(subject.model, torch.cat(batch)[order], generators(image, [seeds[at] for at in order]))
        answers.append(logits[np.argsort(order)[:rows].tolist()].clone())
    return torch.cat(answers)


def _training(model: torch.nn.Module) -> list[str]:
    """The names of the parts in training mode."""
    return [name or type(part).__name__ for name, part in model.named_modules() if part.training]
