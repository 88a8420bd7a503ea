"""For two processes of their own, with torchrun's variables: what each of them saw goes to FOLDER/rank-R.json."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor, nn

from ars.data.digits import DigitsOnPhotographs
from ars.methods.adaptive import adaptive
from ars.models import Normalize
from ars.recipes.recipe import Classifier, Data, Mask, Recipe
from ars.tensors import save_tensors
from ars.training.loop import Interrupted, Trainer
from ars.training.ranks import Ranks
from ars.training.settings import Consistency, SmoothAdv, TrainSettings
from ars.workflows.train import train_run

CPU = torch.device("cpu")
SETTINGS = TrainSettings(epochs=1, batch_size=128, precision="float32")
FEW = replace(SETTINGS, max_steps=4)
MANY = {
    "both": replace(FEW, draws=2, accumulate=2, consistency=Consistency(weight=2.0)),
    "attacked": replace(FEW, draws=2, accumulate=2, smoothadv=SmoothAdv(epsilon=0.02, steps=1)),
}
RECIPE = Recipe(
    data=Data(passes=1), classifier=Classifier(width=4), mask=Mask(width=2), train=replace(SETTINGS, batch_size=400)
)


class Spare(nn.Sequential):
    """Someone's network with a parameter that gets no gradient."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__(*layers)
        self.spare = nn.Parameter(torch.ones(3))


def make_trainer(
    folder: Path, ranks: Ranks, settings: TrainSettings = SETTINGS, network: type[nn.Sequential] = nn.Sequential
) -> Trainer:
    """Of a model with a mask, but without what depends on how a batch is cut: batch normalisation and dropout."""
    folder.mkdir(exist_ok=True)
    benchmark = DigitsOnPhotographs(passes=1)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        body = [nn.Conv2d(3, 8, 3, stride=2), nn.ReLU(), nn.Conv2d(8, 16, 3, stride=2), nn.ReLU()]
        classifier = network(Normalize(*benchmark.moments()), *body, nn.Flatten(), nn.Linear(16 * 5 * 5, 10))
        mask = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 1, 3, padding=1), nn.Sigmoid())
        model = adaptive(classifier, mask, sigma=0.25, share=0.5)
    return Trainer(
        model, benchmark, settings, seed=0, precision="float32", folder=folder, identity="two", ranks=ranks
    )  # fmt: skip


def poison(trainer: Trainer, *, batch: int) -> None:
    batches = trainer._batches
    trainer._batches = lambda: (  # type: ignore[method-assign]
        (images * float("nan") if number == batch else images, labels)
        for number, (images, labels) in enumerate(batches())
    )


class Unfit(nn.Module):
    """A mask whose last update came out wrong."""

    def __init__(self, mask: nn.Module) -> None:
        super().__init__()
        self.mask = mask

    def forward(self, x: Tensor) -> Tensor:
        mask: Tensor = self.mask(x)
        return mask if self.training else mask * float("nan")


def main(folder: Path) -> None:
    from ars.training.ranks import AcceleratedRanks

    ranks, seen = AcceleratedRanks(CPU), {}
    try:
        ranks.check(replace(SETTINGS, sync_batchnorm=True))
    except ValueError as error:
        seen["sync_batchnorm"] = str(error)

    stopped = make_trainer(folder / "two", ranks)
    try:
        stopped.run(stop=lambda: ranks.rank == 1 and stopped.step >= 2)  # a signal that reached the second only
    except Interrupted:
        seen["stopped"] = stopped.step
    make_trainer(folder / "two", ranks).run()

    poisoned = make_trainer(folder / "poisoned", ranks)
    if ranks.rank == 1:
        poison(poisoned, batch=3)
    try:
        poisoned.run()
    except ArithmeticError as error:
        seen["poisoned"] = str(error)

    unfit = make_trainer(folder / "unfit", ranks)
    unfit.model.mechanism.steps[1].mask = Unfit(unfit.model.mechanism.steps[1].mask)  # type: ignore[arg-type,union-attr]
    try:
        unfit.run()
    except ArithmeticError as error:
        seen["unfit"] = str(error)

    finished = make_trainer(folder / "finished", ranks)
    finished.run()
    save_tensors(folder / f"weights-{ranks.rank}.safetensors", finished.model.state_dict(), {})
    for name, settings in MANY.items():
        trainer = make_trainer(folder / f"run-{name}", ranks, settings)
        trainer.run()
        if ranks.first:
            save_tensors(folder / f"{name}.safetensors", trainer.model.state_dict(), {})
    spare = make_trainer(folder / "spare", ranks, FEW, Spare)
    spare.run()
    if ranks.first:
        save_tensors(folder / "spare.safetensors", spare.model.state_dict(), {})
    assert train_run(RECIPE, folder / "run", device=CPU, ranks=ranks)
    (folder / f"rank-{ranks.rank}.json").write_text(json.dumps(seen))
    ranks.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
