"""The figures of Walker and Otto, as printed: tables by their names, as text, from the file beside this one."""

import re
from pathlib import Path

_, *FIGURES = re.split(r"^# .*$", Path(__file__).with_suffix(".txt").read_text(), flags=re.MULTILINE)
FIG_6, FIGS_8_9 = (dict(re.findall(r"^(\w)\n((?:[ \d].*\n)+)", figure, re.MULTILINE)) for figure in FIGURES)
