"""How often a tool was refused in one turn, so that a model that can't mend its call stops."""

from collections import Counter, OrderedDict

MOST = 3
"""Refusals of one kind in one turn, after which the answer says to stop."""
_TURNS = 1_000


class Refusals:
    """Counts per turn (the user's message that the agent is working on) and kind of refusal."""

    def __init__(self) -> None:
        self._turns: OrderedDict[tuple[str, str], Counter[str]] = OrderedDict()

    def note(self, session_id: str, turn_id: str, kind: str) -> bool:
        """Count one more refusal; True if the model has had enough of this kind."""
        counts = self._turns.setdefault((session_id, turn_id), Counter())
        counts[kind] += 1
        if len(self._turns) > _TURNS:
            self._turns.popitem(last=False)
        return counts[kind] >= MOST
