"""Who moved the prefix: by what the difference says, and by trying without one plugin at a time."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sidecar.verify.prefix import Difference
    from sidecar.verify.verdict import Verdict

MOST_TRIED = 12
"""Plugins that are tried one by one; each costs a run of the short script."""

_HOSTS_DATE = re.compile(r"Today's date: \w{3} \w{3} \d")
_OURS = "opencode-agent-memory:snapshot:"


def name_by_sight(difference: Difference) -> str | None:
    """Return who it was if the place alone says it, else None."""
    seen = difference.before + difference.after
    if difference.place.startswith("system") and _HOSTS_DATE.search(seen):
        return "OpenCode itself: the date in its system prompt has changed, as it does at midnight"
    if difference.place == "message 0, part 0" and _OURS in seen:
        return "this memory plugin: please report it"
    return None


def find_culprit(
    broken: Verdict,
    plugins: Sequence[str],
    breaks_without: Callable[[frozenset[str]], Sequence[Verdict]],
) -> str:
    """Return who most likely moved the prefix, in words.

    `breaks_without` plays the script without these plugins and returns the unexpected breaks.
    """
    assert broken.difference is not None
    if by_sight := name_by_sight(broken.difference):
        return by_sight
    area = _area(broken.difference)

    def is_gone_without(names: frozenset[str]) -> bool:
        breaks = breaks_without(names)
        return all(each.difference is None or _area(each.difference) != area for each in breaks)

    if not plugins or not is_gone_without(frozenset(plugins)):
        return "OpenCode or this plugin: it happens with no other plugin as well; please report it"
    for name in plugins[:MOST_TRIED]:
        if len(plugins) == 1 or is_gone_without(frozenset([name])):
            return f"the plugin {name}: without it the prefix does not move there"
    return f"several plugins of {', '.join(plugins)}: without all of them it does not move there"


def _area(difference: Difference) -> str:
    return difference.place.split(",")[0].split(" ")[0]
