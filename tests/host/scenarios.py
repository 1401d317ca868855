"""The scenarios: each one is the steps of `script.py`, and nothing else.

The rule of `scenario.py` is checked after every request. To add a case, write its steps here.
"""

from __future__ import annotations

SCENARIOS = {
    # Plain sessions
    "blocks that change in mid-session": "edit; tools a; edit; prompt a; edit project; tools a; "
    "add traps; prompt a; remove traps; prompt a; prompt b",
    "the same block written again": "edit; prompt a; restore; compact a; prompt a; prompt a",
    "model switched and switched back": "edit; prompt a; edit; model a stub/other; prompt a; "
    "model a stub; prompt a; model a stub/other; prompt a",
    "provider of another wire form and back": "edit; tools a; edit; model a stub-anthropic; "
    "prompt a; tools a; model a stub; prompt a; model a stub-anthropic; prompt a",
    "agent switched and switched back": "edit; prompt a; edit; agent a plan; prompt a; prompt a; "
    "agent a build; prompt a; prompt a",
    # Forks
    "fork, memory changed since": "edit; prompt a; prompt a; edit; fork a b; prompt b; prompt b; "
    "prompt a; prompt c",
    "fork of a fork": "edit; prompt a; edit; fork a b; prompt b; edit; fork b c; prompt c; "
    "prompt a; prompt b; prompt c",
    "fork of a fork that was never prompted": "edit; prompt a; edit; fork a b; fork b c; prompt c",
    "fork at an early message": "edit; tools a; prompt a; prompt a; edit; fork a b 4; prompt b; "
    "prompt b; prompt a",
    "fork at the first message": "edit; prompt a; edit; fork a b 0; prompt b; prompt b; prompt a",
    "fork after compaction": "edit; prompt a; edit; compact a; prompt a; edit; fork a b; prompt b; "
    "prompt b; prompt a",
    "fork between compaction and the next prompt": "edit; prompt a; edit; compact a; fork a b; "
    "prompt b; edit; prompt a; prompt b",
    "fork from before a compaction": "edit; prompt a; prompt a; compact a; prompt a; edit; "
    "fork a b 2; prompt b; prompt b; prompt a",
    "fork, its parent compacted since": "edit; prompt a; prompt a; fork a b; prompt b; edit; "
    "compact a; prompt a; prompt b; fork b c; prompt c",
    "fork after its parent was cleared": "edit; prompt a; edit; clear a; fork a b; prompt b; "
    "prompt b; prompt a",
    "fork after its parent was cleared and prompted": "edit; prompt a; edit; clear a; prompt a; "
    "edit; fork a b; prompt b; prompt a",
    "fork after its parent expired": "edit; prompt a; edit; fork a b; expire a; prompt b; prompt b",
    "fork after its parent was deleted": "edit; prompt a; edit; fork a b; delete a; prompt b; "
    "prompt b",
    "fork after its parent's first message was undone": "edit; prompt a; prompt a; revert a 0; "
    "prompt a; edit; fork a b; prompt b; prompt a",
    "fork after restarts": "edit; prompt a; edit; kill sidecar host; start sidecar host; "
    "fork a b; prompt b; prompt a",
    # Subagents
    "subagent": "edit; edit project; prompt a; edit; delegate a b; prompt a; prompt b; prompt b",
    "subagents are given the project's memory only": "subagents project-only; edit; edit project; "
    "prompt a; edit project; delegate a b; prompt b; prompt a",
    "subagents are given nothing": "subagents skip; edit; prompt a; delegate a b; prompt b; "
    "prompt a",
    "subagent's policy changed since": "subagents skip; edit; prompt a; delegate a b; "
    "subagents inject; prompt b; kill sidecar host; start sidecar host; prompt b; delegate a c; "
    "subagents skip; prompt c",
    "subagent's policy changed before its compaction": "subagents skip; edit; prompt a; "
    "delegate a b; subagents inject; compact b; prompt b; edit; compact b; prompt b",
    "subagent not prompted before a restart": "subagents skip; edit; prompt a; child a b; "
    "kill host; start host; prompt b; prompt a",
    "twelve subagents at once": "edit; prompt a; edit; delegate a b c d e f g h i j k l m; "
    "prompt b; prompt m; prompt a",
    # Compaction
    "compaction by hand": "edit; prompt a; edit; compact a; prompt a; edit; prompt a",
    "compaction by hand, memory unchanged": "edit; prompt a; compact a; prompt a; prompt a",
    "compaction by the host": "edit; prompt a; edit; fill a; prompt a; edit; prompt a",
    "compaction by the host, memory unchanged": "edit; prompt a; fill a; prompt a",
    "compaction by overflow": "edit; prompt a; edit; overflow a; prompt a; edit; prompt a",
    "compaction by overflow, memory unchanged": "edit; prompt a; overflow a; prompt a",
    "two compactions in a row": "edit; prompt a; compact a; compact a; prompt a; edit; compact a; "
    "compact a; prompt a; edit; prompt a",
    "compaction that failed": "edit; prompt a; edit; fail a; prompt a; prompt a; prompt a; "
    "compact a; prompt a",
    "compaction that failed, and its prompt undone": "edit; prompt a; edit; fail a; prompt a; "
    "revert a 4; prompt a; prompt a; prompt a",
    "compaction event late": "edit; prompt a; edit; compact a; prompt a; edit; hear a; prompt a; "
    "prompt a",
    "compaction event doubled": "edit; prompt a; edit; compact a; hear a; hear a; prompt a; edit; "
    "hear a; prompt a; prompt a",
    "compaction event for another session": "edit; prompt a; prompt b; edit; hear a; prompt a; "
    "compact b; prompt b; prompt a",
    "compaction while the sidecar was down": "edit; prompt a; edit; kill sidecar; compact a; "
    "start sidecar; prompt a; edit; prompt a",
    "compaction and prompts while the sidecar was down": "edit; prompt a; kill sidecar; edit; "
    "compact a; prompt a; start sidecar; prompt a; edit; prompt a; compact a; prompt a",
    "compaction event, then compaction while the sidecar was down": "edit; prompt a; hear a; "
    "kill sidecar; edit; compact a; prompt a; start sidecar; prompt a; prompt a",
    "fork of what was compacted while the sidecar was down": "edit; prompt a; kill sidecar; edit; "
    "compact a; prompt a; start sidecar; prompt a; edit; fork a b; prompt b; prompt a",
    "compaction by the host while the sidecar was down": "edit; prompt a; kill sidecar; edit; "
    "fill a; start sidecar; prompt a; prompt a",
    "compaction in the other wire form": "model a stub-anthropic; edit; tools a; edit; compact a; "
    "prompt a; fill a; edit; prompt a",
    # Going back
    "revert and prompt": "edit; prompt a; prompt a; prompt a; edit; revert a 4; prompt a; prompt a",
    "revert, unrevert and prompt": "edit; prompt a; prompt a; edit; revert a 2; unrevert a; "
    "prompt a; prompt a",
    "revert of the first message": "edit; prompt a; prompt a; edit; revert a 0; prompt a; prompt a",
    "revert to before a compaction": "edit; prompt a; prompt a; compact a; prompt a; revert a 2; "
    "prompt a; prompt a",
    "revert step by step": "edit; tools a; prompt a; prompt a; edit; revert a 6; revert a 4; "
    "prompt a; prompt a",
    "fork at an early message, with another model": "edit; prompt a; prompt a; prompt a; "
    "model a stub/other; prompt a; edit; fork a b 4; prompt b; prompt b",
    "message deleted": "edit; prompt a; prompt a; edit; erase a 2; prompt a; prompt a",
    "messages deleted from the first one on": "edit; prompt a; prompt a; edit; erase a 0; "
    "prompt a; erase a 1; prompt a; prompt a",
    "session deleted": "edit; prompt a; prompt b; edit; delete a; prompt b; prompt c",
    "cleared in mid-session": "edit; prompt a; edit; prompt a; clear a; prompt a; clear a; "
    "prompt a",
    # Other directories
    "session continued from another directory": "edit; edit project; prompt a; edit; "
    "edit elsewhere; go a elsewhere; prompt a; prompt a; go a project; prompt a",
    "project moved": "go a elsewhere; edit; edit elsewhere; prompt a; edit; move elsewhere; "
    "prompt a; prompt a; go b elsewhere; prompt b",
    "git worktree": "edit; edit project; prompt a; edit worktree; go b worktree; prompt b; edit; "
    "edit worktree; prompt b; prompt a",
    "directory that is no repository": "edit; go a plain; edit plain; prompt a; edit; edit plain; "
    "prompt a; compact a; prompt a; prompt a",
    "several directories in one process": "edit; edit project; edit elsewhere; go b elsewhere; "
    "prompt a b; edit; prompt a b; prompt a b",
    # Processes that go and come
    "host killed and started": "edit; prompt a; edit; kill host; start host; prompt a; prompt a",
    "host killed while it waits for the model": "edit; prompt a; edit; interrupt a; start host; "
    "edit; prompt a; prompt a",
    "sidecar killed and started": "edit; prompt a; edit; kill sidecar; start sidecar; prompt a; "
    "prompt a",
    "host and sidecar killed and started": "edit; edit project; prompt a; edit; "
    "kill sidecar host; start sidecar host; prompt a; prompt a",
    "sidecar away in mid-session": "edit; prompt a; edit; kill sidecar; prompt a; tools a; "
    "start sidecar; prompt a; prompt a",
    "sidecar started late": "kill sidecar; edit; prompt a; prompt a; start sidecar; prompt a; "
    "prompt a; edit; prompt a",
    "sidecar flaps": "edit; prompt a; edit; kill sidecar; prompt a; start sidecar; prompt a; "
    "kill sidecar; prompt a; start sidecar; prompt a; kill sidecar; start sidecar; prompt a",
    "sidecar hangs in mid-session": "edit; prompt a; edit; pause; prompt a; resume; prompt a",
    "host restarted while the sidecar was away": "edit; prompt a; kill sidecar host; start host; "
    "prompt a; edit; start sidecar; prompt a; prompt a",
    # Several at once
    "two hosts on one session": "edit; prompt a; edit; host 2; prompt a; prompt a; host 1; "
    "prompt a; edit; compact a; prompt a; host 2; prompt a; edit; compact a; host 1; prompt a; "
    "host 2; prompt a",
    "fifty sessions at once": "edit; crowd 50",
}
"""The name of each, and its steps."""

_FOLLOWS = "this host follows the directory of each prompt, and says so in its system prompt"
DIFFERENT = {
    "1.14.41": {
        "session continued from another directory": _FOLLOWS,
        "project moved": _FOLLOWS,
        "fork after its parent's first message was undone": "this host takes away what was undone "
        "while the next prompt is under way, so a fork may begin with what the model never saw",
    }
}
"""What an older host does in its own way, with the reason."""
