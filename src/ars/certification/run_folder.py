"""What is in a run folder; all that write or read one take it from here."""

NOT_OF_WEIGHTS = ("data.workers", "train.checkpoint_minutes", "train.pictures_every")
"""Keys of its recipe's training and data that change no weight."""
