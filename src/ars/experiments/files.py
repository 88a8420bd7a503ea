"""The names of a run folder's files."""

RECIPE, MODEL, TIMING = "recipe.yaml", "model.safetensors", "timing.json"
CHECKPOINT = "checkpoint.safetensors"
BENCHMARK, ENVIRONMENT, LOG = "benchmark.json", "environment.json", "train.jsonl"
STAGES, PIPELINE = "stages.npz", "pipeline.svg"
VOTE, BEGUN_VOTE, MASKS = "vote.json", "vote-begun.json", "masks.npz"
START = "start"  # the folder of the training that a classifier begins with
