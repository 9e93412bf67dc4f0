"""What MkDocs does to a page: a line that is a link to a program in `examples` becomes the program, folded up."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = re.compile(r"^\[`(?P<name>examples/\w+\.py)`\]\(\.\./(?P=name)\)$", re.MULTILINE)


def on_page_markdown(markdown: str, **_: object) -> str:
    """The page with its programs; MkDocs calls this."""

    def folded(found: re.Match[str]) -> str:
        lines = ["```py", *(ROOT / found["name"]).read_text(encoding="utf-8").splitlines(), "```"]
        return f'??? example "{found["name"]}"\n\n' + "\n".join(f"    {line}".rstrip() for line in lines)

    return PROGRAM.sub(folded, markdown)
