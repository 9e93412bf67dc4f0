"""Pictures and tables of what others give as numbers: for matplotlib, and as HTML and SVG for notebooks."""
