"""From a recipe to a run folder: build, train, certify."""
