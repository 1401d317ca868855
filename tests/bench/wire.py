"""What the provider gets from the real host: how much of each prompt it has in its cache.

The same script with this plugin, with none, and, if a folder is given, with another memory plugin.
Each turn has three requests, and before each turn a memory block is edited.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import islice, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

from sidecar.verify.prefix import first_difference
from sidecar.verify.recorder import Answer, Request

from ..host import product
from ..host.scenario import World
from .figure import Figure

REQUESTS = 80
BLOCKS = ("human", "persona", "project", "traps", "style")
TURN = (
    Answer("I look.", tool="bash", arguments={"command": "echo one", "description": "Look"}),
    Answer("I read.", tool="bash", arguments={"command": "echo two", "description": "Read"}),
    Answer("Done."),
)

Install = Callable[[World], None]


def figures(peer: Path | None = None) -> Iterator[Figure]:
    ours, without = _run(_install_ours), _run(lambda _world: None)
    yield Figure(9, f"breaks of the prefix in {REQUESTS} requests", [_breaks(ours)], 0, "", "=")
    share = _hit_share(ours) / _hit_share(without)
    name = f"share read from the cache ({_hit_share(ours):.2%}), to no memory plugin"
    yield Figure(9, name, [share], 0.999, sign="≥")
    if peer:
        other = _run(lambda world: _install_peer(world, peer))
        name = f"breaks of the prefix beyond the {_breaks(other)} with {peer.name}"
        yield Figure(9, name, [_breaks(ours) - _breaks(other)], 0, "")
        share = _hit_share(ours) / _hit_share(other)
        name = f"share read from the cache, to {peer.name} ({_hit_share(other):.2%})"
        yield Figure(9, name, [share], 0.999, sign="≥")


def _run(install: Install) -> list[Request]:
    """The main requests of one session."""
    with TemporaryDirectory(prefix="ocm-") as folder:
        world = World(Path(folder))
        try:
            _edit(world, 0)
            install(world)
            world.start_host()
            session = world.session()
            sent: list[Request] = []
            turn = 0
            while len(sent) < REQUESTS:
                turn += 1
                _edit(world, turn)
                world.recorder.script(session.id, *islice(TURN, REQUESTS - len(sent)))
                world.host.prompt(session.id, session.directory, f"Prompt {turn}.", "stub")
                sent = world.recorder.of(session.id, "main")
            return sent
        finally:
            world.close()


def _edit(world: World, turn: int) -> None:
    """Write one block, in turn; the first time, all of them."""
    for label in [BLOCKS[turn % len(BLOCKS)]] if turn else BLOCKS:
        world.write_block(label, f"As of turn {turn}. " + "Prefers small commits. " * 40)


def _install_ours(world: World) -> None:
    product.must(world.home, "install")
    world.start_sidecar()


def _install_peer(world: World, peer: Path) -> None:
    settings = world.home.config / "opencode.json"
    configured = json.loads(settings.read_text())
    settings.write_text(json.dumps({**configured, "plugin": [_entry(peer).as_uri()]}))


def _entry(peer: Path) -> Path:
    """The module that its package names."""
    package = json.loads((peer / "package.json").read_text())
    exported = package.get("exports", {})
    exported = exported.get(".", exported) if isinstance(exported, dict) else exported
    if isinstance(exported, dict):
        exported = exported.get("import") or exported.get("default")
    return (peer / (exported or package.get("module") or package["main"])).resolve()


def _breaks(sent: list[Request]) -> int:
    return sum(first_difference(a.body, b.body) is not None for a, b in pairwise(sent))


def _hit_share(sent: list[Request]) -> float:
    """How much of all prompts an exact-prefix cache has from the request before, in characters."""
    texts = ["".join(piece.text for piece in request.pieces) for request in sent]
    return sum(_common(*pair) for pair in pairwise(texts)) / sum(map(len, texts))


def _common(before: str, after: str) -> int:
    length = min(len(before), len(after))
    return next((n for n in range(length) if before[n] != after[n]), length)
