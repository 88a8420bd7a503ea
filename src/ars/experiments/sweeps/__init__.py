"""From a sweep file to many run folders: what is left of each cell, how long it may take, what is worth keeping."""
