"""How many draws and seeds can be told apart; loads no torch."""

BLOCK = 100
"""Draws that share a generator; a device batch is made of whole blocks."""

MOST_DRAWS = 2**31 * BLOCK
"""Of an image for one purpose: torch's CPU generator reads 32 bits of a seed, one of which says what draws are for."""

MOST_SEED = 2**32 - 1
"""Beyond, that generator would repeat a smaller seed."""
