"""Writes the agent's tools, as `sidecar/tools.py` defines them, into the shim: `make tools`."""

import json
import re
from pathlib import Path

from sidecar.tools import definitions

SHIM = Path(__file__).with_name("opencode-memory.js")
_TABLE = re.compile(r"(?<=// prettier-ignore\nconst TOOLS = ).*?}(?=;\n)", re.DOTALL)


def with_tools(shim: str) -> str:
    """Return the shim's text with its table of tools as it should be."""
    lines = [f"  {name}: {json.dumps(tool)}," for name, tool in definitions().items()]
    table = "\n".join(["{", *lines, "}"])
    text, count = _TABLE.subn(lambda _: table, shim)
    if count != 1:
        raise SystemExit(f"{SHIM} has no place for the table: // prettier-ignore, const TOOLS = …;")
    return text


if __name__ == "__main__":
    SHIM.write_text(with_tools(SHIM.read_text(encoding="utf-8")), encoding="utf-8")
