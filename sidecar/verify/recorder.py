"""The stub provider: records every request as it came in and answers from a script.

It speaks two wire forms, OpenAI's chat completions and Anthropic's messages, both streamed, since
that is all the host asks of a provider. What a test asserts on is what arrived here, byte for byte.
"""

from __future__ import annotations

import json
import re
import threading
import zlib
from collections import defaultdict, deque
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from . import prefix

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MARKER = "<!-- opencode-agent-memory:snapshot:1 -->"
ANTHROPIC_PATH = "/v1/messages"
KINDS = ("main", "compaction", "title")
SUMMARY_PROMPT = "What did we do so far?"
"""What the host puts ahead of a summary, where a compacted history begins."""


@dataclass(frozen=True)
class Answer:
    """What the model says, and how the provider counts the prompt.

    `read` and `written` are those of its `tokens` that its cache had already, and has from now on.
    """

    text: str = "Understood."
    tool: str = ""
    arguments: dict[str, Any] = field(default_factory=dict)
    calls: int = 1
    """How many times the tool is called, all at once."""
    tokens: int = 1_000
    read: int = 0
    written: int = 0
    held: bool = False
    """Held back until the recorder is told to release it."""


@dataclass(frozen=True)
class Refusal:
    """An error instead of an answer."""

    status: int = 400
    code: str = "context_length_exceeded"
    message: str = "This model's maximum context length is exceeded."


@dataclass(frozen=True)
class Request:
    """One request of the host, as raw as it arrived."""

    path: str
    headers: dict[str, str]
    body: bytes
    observed: Any = None
    """What `Recorder.observe` saw when a main request arrived."""

    @cached_property
    def json(self) -> dict[str, Any]:
        """The body, parsed."""
        body: dict[str, Any] = json.loads(self.body)
        return body

    @property
    def session(self) -> str:
        """The host's session that it belongs to; empty if the host does not say."""
        return self.headers.get("x-session-id") or self.headers.get("x-session-affinity", "")

    @cached_property
    def pieces(self) -> list[prefix.Piece]:
        """The prompt in the provider's order."""
        return prefix.pieces(self.body)

    @cached_property
    def kind(self) -> str:
        """The host's three uses of a model. Only a main request is part of the conversation."""
        system = "".join(piece.text for piece in self.pieces if piece.place.startswith("system"))
        if "You are a title generator" in system:
            return "title"
        if re.search("You are an? (anchored )?context summarization", system):
            return "compaction"
        return "main"

    @property
    def head(self) -> bytes | None:
        """The injected text: the first text after the system prompt, if it is ours."""
        text = next(self._texts())
        return text.encode() if text.startswith(MARKER) else None

    @property
    def summary(self) -> str:
        """The summary that the history begins with; empty where the host has compacted nothing."""
        texts = [text for text in self._texts() if not text.startswith(MARKER)]
        return texts[1] if texts[0] == SUMMARY_PROMPT and len(texts) > 1 else ""

    def _texts(self) -> Iterator[str]:
        for piece in self.pieces:
            if piece.place.startswith("message"):
                yield json.loads(piece.text).get("text", "")


class Recorder:
    """The provider that the host is configured with."""

    def __init__(self, observe: Callable[[], Any] = lambda: None) -> None:
        """`observe` looks at the world while the host waits for the answer to a main request."""
        self.requests: list[Request] = []
        self._observe = observe
        self._scripts: dict[tuple[str, str], deque[Answer | Refusal]] = defaultdict(deque)
        self._held: list[threading.Event] = []
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.05,), daemon=True
        )
        self._thread.start()

    @property
    def url(self) -> str:
        """What the host has to be configured with as the provider's address."""
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def script(self, session: str, *answers: Answer | Refusal, kind: str = "main") -> None:
        """Queue what a session's next requests of this kind get; with none queued, the usual."""
        self._scripts[session, kind].extend(answers)

    def unscript(self, session: str) -> None:
        """Drop what is queued for a session."""
        for kind in KINDS:
            self._scripts[session, kind].clear()

    def unused(self, session: str) -> list[Answer | Refusal]:
        """The queued answers that no request has come for."""
        return [answer for kind in KINDS for answer in self._scripts[session, kind]]

    def of(self, session: str, *kinds: str) -> list[Request]:
        """A session's requests of these kinds, in order; with none named: of every kind."""
        with self._lock:
            return [r for r in self.requests if r.session == session and r.kind in (kinds or KINDS)]

    def release(self) -> None:
        """Give out the answers that are held back."""
        with self._lock:
            for event in self._held:
                event.set()
            self._held.clear()

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _answer(self, request: Request) -> Answer | Refusal:
        """Record the request and say what to answer."""
        if request.kind == "main":
            request = replace(request, observed=self._observe())
        with self._lock:
            self.requests.append(request)
            script = self._scripts[request.session, request.kind]
            answer = script.popleft() if script else self._usual(request.kind)
            held = threading.Event()
            if isinstance(answer, Answer) and answer.held:
                self._held.append(held)
            else:
                held.set()
        held.wait()
        return answer

    def _usual(self, kind: str) -> Answer:
        if kind == "title":
            return Answer("A title")
        if kind == "main":
            return Answer()
        # Numbered, so that what a request begins with tells which compaction was before it.
        number = [request.kind for request in self.requests].count("compaction")
        return Answer(f"Summary {number}: the user and the assistant talked.")

    def _handler(recorder) -> type[BaseHTTPRequestHandler]:
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                answer = recorder._answer(Request(self.path, headers, body))
                # A host that was killed meanwhile is not there to read it.
                with suppress(ConnectionError):
                    self._send(answer)

            def _send(self, answer: Answer | Refusal) -> None:
                if isinstance(answer, Refusal):
                    status, form, body = answer.status, "application/json", _refusal(answer)
                else:
                    stream = _anthropic if self.path == ANTHROPIC_PATH else _openai
                    status, form, body = 200, "text/event-stream", b"".join(stream(answer))
                self.send_response(status)
                self.send_header("content-type", form)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Silent: what arrived is in `requests`."""

        return Handler


def _call_ids(answer: Answer) -> list[str]:
    """The same call gets the same id: nothing here varies from run to run."""
    if not answer.tool:
        return []
    call = zlib.crc32(json.dumps(answer.arguments).encode())
    return [f"call_{call:08x}{number or ''}" for number in range(answer.calls)]


def _refusal(refusal: Refusal) -> bytes:
    error = {"message": refusal.message, "type": "invalid_request_error", "code": refusal.code}
    return json.dumps({"error": error}).encode()


def _openai(answer: Answer) -> Iterator[bytes]:
    def chunk(choices: list[Any], **more: Any) -> bytes:
        common = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 0}
        return (
            b"data: "
            + json.dumps({**common, "model": "stub", "choices": choices, **more}).encode()
            + b"\n\n"
        )

    delta: dict[str, Any] = {"role": "assistant", "content": answer.text}
    if answer.tool:
        function = {"name": answer.tool, "arguments": json.dumps(answer.arguments)}
        delta["tool_calls"] = [
            {"index": index, "id": call_id, "type": "function", "function": function}
            for index, call_id in enumerate(_call_ids(answer))
        ]
    yield chunk([{"index": 0, "delta": delta, "finish_reason": None}])
    reason = "tool_calls" if answer.tool else "stop"
    yield chunk([{"index": 0, "delta": {}, "finish_reason": reason}])
    usage = {
        "prompt_tokens": answer.tokens,
        "completion_tokens": 10,
        "total_tokens": answer.tokens + 10,
        "prompt_tokens_details": {"cached_tokens": answer.read},
    }
    yield chunk([], usage=usage)
    yield b"data: [DONE]\n\n"


def _anthropic(answer: Answer) -> Iterator[bytes]:
    def event(kind: str, **more: Any) -> bytes:
        return f"event: {kind}\ndata: {json.dumps({'type': kind, **more})}\n\n".encode()

    def block(index: int, start: dict[str, Any], delta: dict[str, Any]) -> Iterator[bytes]:
        yield event("content_block_start", index=index, content_block=start)
        yield event("content_block_delta", index=index, delta=delta)
        yield event("content_block_stop", index=index)

    usage = {
        "input_tokens": answer.tokens - answer.read - answer.written,
        "cache_read_input_tokens": answer.read,
        "cache_creation_input_tokens": answer.written,
        "output_tokens": 1,
    }
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "stub",
        "content": [],
    }
    yield event("message_start", message={**message, "stop_reason": None, "usage": usage})
    yield from block(0, {"type": "text", "text": ""}, {"type": "text_delta", "text": answer.text})
    for index, call_id in enumerate(_call_ids(answer), 1):
        start = {"type": "tool_use", "id": call_id, "name": answer.tool, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(answer.arguments)}
        yield from block(index, start, delta)
    reason = "tool_use" if answer.tool else "end_turn"
    yield event("message_delta", delta={"stop_reason": reason}, usage={"output_tokens": 10})
    yield event("message_stop")
