"""A small sweep file, for tests of ars sweep and ars pack."""

BASE = """
data: {passes: 1}
classifier: {width: 4}
mask: {width: 2}
train: {epochs: 1, batch_size: 256, precision: float32}
certify: {examples: 12, n_select: 20, n_estimate: 50, precision: float32}
"""
TINY = """
recipe: base.yaml
groups:
  - {methods: [cohen], sigma: [0.5], vote: 10, keep_weights: true}
  - {methods: [static_mask], sigma: [0.5], seeds: [3], vote: 0}
"""
LONG = "recipe: base.yaml\ngroups: [{methods: [cohen], sigma: [1], override: {train.epochs: 5000}}]"
CELLS = ["cohen-s0.5-seed0", "static_mask-s0.5-seed3"]


def write_sweep(folder):
    """Write the sweep file and its recipe."""
    (folder / "base.yaml").write_text(BASE)
    (folder / "tiny.yaml").write_text(TINY)
    return folder / "tiny.yaml"
