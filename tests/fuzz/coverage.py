"""Coverage-guided fuzzing of one target for so many seconds: TARGET SECONDS.

Begins with the corpus; a new input that fails is written to the folder `fuzz/` and belongs, once
mended, into the corpus, which `make test` replays.
"""

from __future__ import annotations

import sys
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["snapshots", "sidecar"]):
    from tests.fuzz.targets import CORPUS, TARGETS

FOUND = Path(__file__).parents[2] / "fuzz"


def main(target: str, seconds: str) -> None:
    """Fuzz until the time is over or something is found."""
    found = FOUND / target
    found.mkdir(parents=True, exist_ok=True)
    options = [f"-max_total_time={seconds}", "-max_len=4096", "-timeout=10", "-keep_seed=1"]
    folders = [str(found), str(CORPUS / target)]
    atheris.Setup([sys.argv[0], *options, f"-artifact_prefix={found}/", *folders], TARGETS[target])
    atheris.Fuzz()


if __name__ == "__main__":
    main(*sys.argv[1:])
