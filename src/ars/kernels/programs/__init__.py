"""The Triton programs; importing any of these imports triton."""
