"""Layouts of arrays: axes, process grids, descriptors and tiles."""
