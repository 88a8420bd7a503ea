"""Recipes: everything that decides a result, read from YAML."""
