"""Where elements live: block-cyclic axes, process grids and descriptors."""
