"""Sharing trained models: a run folder without paths of this machine, with its records and a model card.

What is shared is a run folder, so that ars has one format: ars.load, ars certify and ars report read it as any other.
"""

import gzip
import shlex
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from ars.atomic import write_whole
from ars.certification.digest import digest_model
from ars.data.settings import PLACES
from ars.recipes.read import imported_model, read_recipe
from ars.recipes.recipe import Recipe
from ars.report.grouping import make_sections
from ars.report.measures import method_name, norm_name
from ars.report.rendering import to_markdown
from ars.report.table import make_table
from ars.runs.paths import BENCHMARK, CERTIFY, MAIN, MODEL, PACKED, RECIPE, find_run, records_folder
from ars.runs.run import Run, load_runs, read_about
from ars.runs.shards import SETTINGS, read_manifest
from ars.smoothing import SmoothedClassifier
from ars.workflows.load import is_used, load_without_data

CARD = "README.md"
PLACE = "FOLDER"
"""What a card calls the place of its run before it is uploaded."""


def save(model: SmoothedClassifier | str | Path, folder: str | Path) -> Path:
    """Write a run, or a model that ars.load returned, to a new folder to share: weights, recipe, records, model card.

    Paths of this machine and names of your own images are left out. ars.load reads the folder.
    """
    run, target = _run_of(model), Path(folder).expanduser()
    if is_used(target):
        raise ValueError(f"{target} is not empty; choose a new folder")
    content = _content(run)
    for name, data in content.items():
        write_whole(target / name, data)
    return target


def push(model: SmoothedClassifier | str | Path, repository: str, *, private: bool = False) -> str:
    """Upload a run, or a model that ars.load returned, to user/name on the Hugging Face Hub; returns its address.

    You are identified as by huggingface_hub: run ``hf auth login`` once.
    """
    from huggingface_hub import HfApi

    run = _run_of(model)
    with tempfile.TemporaryDirectory() as temporary:
        folder = save(run, Path(temporary) / "run")
        write_whole(folder / CARD, (folder / CARD).read_text(encoding="utf-8").replace(PLACE, repository))
        hub = HfApi()
        try:
            address = hub.create_repo(repository, private=private, exist_ok=True)
            hub.upload_folder(repo_id=repository, folder_path=folder, commit_message=f"Upload {run.name}")
        except Exception as error:  # of the network, of the name, of who you are
            first = f"{type(error).__name__}: {error}".strip().partition("\n")[0]
            raise ValueError(f"{run} was not uploaded to {repository} ({first}); try hf auth login") from error
    return str(address)


def _run_of(model: SmoothedClassifier | str | Path) -> Path:
    """The run folder; of a model, the one that it was loaded from, if it has not changed since."""
    if not isinstance(model, SmoothedClassifier):
        return find_run(Path(model).expanduser())
    origin = getattr(model, "run_folder", None)
    if origin is None:
        raise ValueError(
            "only a model of a run folder can be shared, because a folder holds no code: train it with ars train, or "
            "share your code with weights that safetensors.torch.save_model wrote"
        )
    device = next(model.parameters()).device
    classifier = read_recipe(origin / RECIPE).classifier.factory
    if digest_model(model) != digest_model(load_without_data(origin, device, classifier=classifier)[1]):
        raise ValueError(f"the model has changed since it was loaded from {origin}; train the change with ars train")
    return Path(origin)


def _content(run: Path) -> dict[str, str | bytes]:
    """The files to share, by their names."""
    if imported_model(run / RECIPE) is not None or not (run / MODEL).is_file():
        raise ValueError(f"{run} holds no trained weights; give a run folder that ars train has finished")
    recipe = _portable(read_recipe(run / RECIPE))
    content: dict[str, str | bytes] = {
        RECIPE: recipe.to_yaml(),
        BENCHMARK: (run / BENCHMARK).read_bytes(),
        MODEL: (run / MODEL).read_bytes(),
    }
    certified: Run | None = None
    records = records_folder(run, MAIN)
    if read_manifest(records) is not None:
        [certified] = load_runs([run])  # refuses an incomplete certification
        lines = "".join(record.to_json() + "\n" for record in certified.records)
        content[f"{CERTIFY}/{MAIN}/{SETTINGS}"] = (records / SETTINGS).read_bytes()
        content[f"{CERTIFY}/{MAIN}/{PACKED}"] = gzip.compress(lines.encode(), mtime=0)
    content[CARD] = make_card(recipe, read_about(run).title, certified)
    return content


def _portable(recipe: Recipe) -> Recipe:
    """The recipe with the names of folders instead of their places on this machine."""
    named = {place: Path(path).name for place in PLACES if (path := getattr(recipe.data, place))}
    classifier = recipe.classifier
    paths: dict[str, Any] = {}
    for key in ("from_run", "weights"):
        if path := getattr(classifier, key):
            paths[key] = Path(path).name
    return replace(recipe, data=recipe.data.at(dict(named)), classifier=replace(classifier, **paths))


def make_card(recipe: Recipe, title: str, run: Run | None) -> str:
    """The model card: what the model is, what was measured and how, and how it is used."""
    own = recipe.classifier.factory
    load = f'ars.load("{PLACE}"{f", classifier={own!r}" if own else ""})'
    parts = [
        "---\nlibrary_name: ars\npipeline_tag: image-classification\n"
        "tags: [certified-robustness, randomized-smoothing]\n---\n",
        f"# {method_name(recipe.method)} on {title}, σ = {recipe.sigma:g}\n",
        "An image classifier that is smoothed with noise: a vote over noisy copies of an image, with a radius within "
        "which no perturbation changes the winner.\n",
        f"```python\nimport ars\n\nmodel = {load}\ncertificate = ars.certify(model, image)  # in [0, 1]\n```\n",
    ]
    if own:
        parts.append(f"The code of its classifier, `{own}`, is not part of this folder.\n")
    if run is None:
        return "\n".join([*parts, "It has not been certified yet.\n"])
    settings, levels = run.settings, ", ".join(f"{sigma:.4g}" for sigma in run.settings.sigmas) or "by image"
    mode = "float arithmetic (exact mode)" if settings.exact else "real arithmetic"
    parts += [
        "## What was measured\n",
        to_markdown(make_table(make_sections([run]))),
        f"- Noise of the steps, in pixel units: {levels}.",
        f"- Norm: {norm_name(settings.norm)}. Draws per image: {settings.schedule}, after {settings.n_select} that "
        f"choose the class. Failure probability of a certificate: α = {settings.alpha}.",
        f"- Precision: {settings.precision}. Certified in {mode}.",
        f"- {run.judged}; the votes of each are in `{CERTIFY}/{MAIN}/{PACKED}`.",
        f"- Digest of the model: {run.model}.\n",
        f"```\n{certify_command(run)}\n```\n",
    ]
    return "\n".join(parts)


def certify_command(run: Run) -> str:
    """The command that measures this again."""
    made, subset = run.settings, run.settings.subset.partition("::")[2].rstrip("]") or "1"
    options: dict[str, object] = {
        "examples": len(run.records), "every": subset, "norm": made.norm, "n-select": made.n_select,
        "n-estimate": made.schedule.n_max, "alpha": made.alpha, "bound": made.bound, "seed": made.seed,
        "mode": made.schedule.mode, "precision": made.precision,
    }  # fmt: skip
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    words += ["--radii", *map(repr, made.schedule.radii)] if made.schedule.radii else []
    words += ["--tolerance", str(made.schedule.tolerance)] if made.schedule.tolerance else []
    words += ["--exact"] if made.exact else []
    return shlex.join(["ars", "certify", "RUN", *words, "--name", "again"])
