"""What the page on training runs shows can be run."""

import re
from pathlib import Path

from ars.recipes.read import read_recipe

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "training-runs.md").read_text(encoding="utf-8")


def test_the_batch_that_went_wrong_can_be_looked_at(tmp_path, monkeypatch):
    recipe = read_recipe(ROOT / "recipes" / "digits.yaml")
    (tmp_path / "runs" / "ars").mkdir(parents=True)
    (tmp_path / "runs" / "ars" / "recipe.yaml").write_text(recipe.to_yaml())
    monkeypatch.chdir(tmp_path)
    [code] = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    names = {}
    exec(compile(code, "training-runs.md", "exec"), names)
    assert len(names["images"]) == len(names["labels"]) == recipe.train.batch_size
