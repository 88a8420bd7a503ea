"""The embedded benchmark, digits on photographs: it needs no download, and adaptivity helps.

An 8x8 digit is pasted along the border of a 24x24 crop of a photograph, so a ninth of the image matters, as in the
paper's hardest setting. Both come with scikit-learn. Training, validation and test use disjoint digits, and crops from
disjoint strips of the two photographs.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from ars.data.benchmark import ALL_ROWS, Benchmark, Labelled, Part, Split, generator
from ars.data.pasted import border_slots, paste

SIDE, DIGIT = 24, 8
# The columns of the 427 x 640 photographs for crops, and the range of the 1,797 digits in a fixed random order.
STRIPS = {"train": (0, 400), "validation": (400, 520), "test": (520, 640)}
DIGITS = {"train": (0, 1297), "validation": (1297, 1497), "test": (1497, 1797)}


class DigitsOnPhotographs(Benchmark):
    """24x24 RGB images in [0, 1] with one of ten digits somewhere along the border."""

    title = "digits on photographs"

    def __init__(self, *, seed: int = 0, passes: int = 8, device: torch.device | None = None) -> None:
        """passes is how often an epoch shows each training digit, each time at another place of another crop."""
        from sklearn.datasets import load_digits, load_sample_images

        self.seed, self.passes = seed, passes
        self.class_names: Sequence[str] = [str(digit) for digit in range(10)]
        self.shape = (3, SIDE, SIDE)
        digits = load_digits()
        order = np.argsort(np.random.SeedSequence(1797).generate_state(len(digits.target)))
        photographs = np.stack(load_sample_images().images).transpose(0, 3, 1, 2)
        self.device = device or torch.device("cpu")
        self._digits = torch.tensor(digits.images[order] / 16, dtype=torch.float32, device=self.device)
        self._labels = torch.tensor(digits.target[order], device=self.device)
        self._photographs = torch.tensor(photographs, device=self.device)

    def to(self, device: torch.device) -> "DigitsOnPhotographs":
        """The same benchmark with its tensors on the device."""
        return DigitsOnPhotographs(seed=self.seed, passes=self.passes, device=device)

    def references(self) -> Float[Tensor, "n c h w"]:
        """Every training digit once, each at a different place of a different crop."""
        once = torch.arange(self.train_size() // self.passes)
        places = torch.randint(2**62, (len(once), 4), generator=generator(self.seed, 1797))
        return self._compose("train", once, places)[0]

    def train_size(self) -> int:
        """Training digits times passes."""
        first, end = DIGITS["train"]
        return (end - first) * self.passes

    def size(self, split: Split) -> int:
        """One image per digit of the split."""
        first, end = DIGITS[split]
        return end - first

    def train_batches(
        self, epoch: int, *, seed: int, batch_size: int, start: int = 0, rows: slice = ALL_ROWS
    ) -> Iterator[Labelled]:
        """Every training digit ``passes`` times in random order, at random places; a last short batch is dropped."""
        digits = self.train_size() // self.passes
        order = torch.randperm(self.train_size(), generator=generator(seed, epoch)) % digits
        for number in range(start, self.train_size() // batch_size):
            chosen = order[number * batch_size : (number + 1) * batch_size]
            places = torch.randint(2**62, (len(chosen), 4), generator=generator(seed, epoch, number))
            yield self._compose("train", chosen[rows], places[rows])

    def examples(self, split: Split, indices: Sequence[int]) -> Labelled:
        """Each image shows the digit of the same index; crop and place are hashed from (seed, split, index)."""
        return self._compose(split, torch.tensor(indices), self._places(split, indices))

    def boxes(self, split: Split, indices: Sequence[int]) -> Int[Tensor, "b 4"]:
        """Where the digits are pasted."""
        slots = border_slots(SIDE - DIGIT)
        corners = slots[self._places(split, indices)[:, 3] % len(slots)]
        return torch.cat([corners, torch.full_like(corners, DIGIT)], dim=1)

    def _places(self, split: Split, indices: Sequence[int]) -> Int[Tensor, "b 4"]:
        """The large random numbers that select photograph, row, column and slot of fixed inputs."""
        self.check_indices(split, indices)
        part = list(DIGITS).index(split)
        places = [np.random.SeedSequence([self.seed, part, index]).generate_state(4, np.uint32) for index in indices]
        return torch.tensor(np.stack(places).astype(np.int64))

    def moments(self) -> tuple[list[float], list[float]]:
        """Mean and standard deviation of each channel over one epoch of training inputs, with all passes."""
        [(images, _)] = self.train_batches(0, seed=self.seed, batch_size=self.train_size())
        return images.mean(dim=(0, 2, 3)).tolist(), images.std(dim=(0, 2, 3)).tolist()

    def _compose(self, part: Part, chosen: Int[Tensor, " b"], places: Int[Tensor, "b 4"]) -> Labelled:
        """Paste the chosen digits on the crops and at the slots selected by the four random numbers of places."""
        left, right = STRIPS[part]
        height = self._photographs.shape[2]
        photograph, row, column, slot = places.to(self.device).unbind(1)
        rows = (row % (height - SIDE + 1))[:, None] + torch.arange(SIDE, device=self.device)
        columns = left + (column % (right - left - SIDE + 1))[:, None] + torch.arange(SIDE, device=self.device)
        images = self._photographs[(photograph % 2)[:, None, None], :, rows[:, :, None], columns[:, None, :]]
        images = images.permute(0, 3, 1, 2).float() / 255
        slots = border_slots(SIDE - DIGIT).to(self.device)
        chosen = chosen.to(self.device) + DIGITS[part][0]
        grey = self._digits[chosen].unsqueeze(1).expand(-1, 3, -1, -1)
        return paste(grey, images, slots[slot % len(slots)]), self._labels[chosen]
