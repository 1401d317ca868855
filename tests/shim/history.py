"""Histories as the host hands them to the transform hook."""

from __future__ import annotations

from typing import Any

MODEL = {"providerID": "stub", "modelID": "stub-1"}


def user(text: str = "hi", session: str = "ses_1", created: float = 1000, **info: Any) -> dict:
    """A message as a person sends it."""
    return {
        "info": {
            "id": f"msg_{created}",
            "sessionID": session,
            "role": "user",
            "time": {"created": created},
            "agent": "build",
            "model": dict(MODEL),
            **info,
        },
        "parts": [{"id": "prt_1", "type": "text", "text": text}],
    }


def assistant(parent: str, text: str = "hello", created: float = 1001, **info: Any) -> dict:
    """The model's reply."""
    return {
        "info": {
            "id": f"msg_{created}",
            "sessionID": "ses_1",
            "role": "assistant",
            "parentID": parent,
            "time": {"created": created},
            **info,
        },
        "parts": [{"id": "prt_1", "type": "text", "text": text}],
    }


def inserted(result: dict) -> str | None:
    """The text that a transform has put at the head, if it has."""
    part = result["messages"][0]["parts"][0]
    return part["text"] if part.get("synthetic") else None


def compaction(created: float, **outcome: Any) -> list[dict]:
    """The pair of messages that a compaction leaves; completed unless `outcome` says otherwise."""
    asked = user(created=created)
    asked["parts"] = [{"id": "prt_1", "type": "compaction", "auto": False}]
    facts = {"summary": True, "finish": "stop", **outcome}
    return [asked, assistant(asked["info"]["id"], "summary", created + 1, **facts)]
