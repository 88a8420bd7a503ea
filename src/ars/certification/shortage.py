"""Whether an error says that memory is short; loads no torch."""


def is_short_of_memory(error: Exception) -> bool:
    """Whether torch found no memory, on a GPU or, which it has no name for, elsewhere."""
    return type(error).__name__ == "OutOfMemoryError" or "can't allocate memory" in str(error)
