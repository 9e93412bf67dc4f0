"""Pictures and tables of numbers: by matplotlib, and as HTML and SVG for notebooks."""
