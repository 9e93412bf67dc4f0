"""Compiled modules: moving bytes between arrays, and memory that the ranks of a node share."""
