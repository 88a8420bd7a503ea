"""Training: one loop, its settings, its checkpoints."""
