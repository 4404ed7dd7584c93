"""No request makes the studio fail: whatever is sent, the answer is a result or a sentence that says what is wrong.

The client raises what a route does not handle, so an unhandled exception fails the test.
"""

from __future__ import annotations

import asyncio
import io
import itertools
import json
import random
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_messages import is_translated

from glassformer.studio import context
from glassformer.studio.app import studio

pytestmark = pytest.mark.slow

FROZEN = Path(__file__).parents[2] / "compat" / "runs" / "format-1"
HERE = "http://127.0.0.1:8000"
JSON = {"Content-Type": "application/json"}
TEXTS = [
    "", " ", "0", "-1", "a", "NaN", "inf", "1e400", "9" * 25, "0,0,0,0,0", "\x00", "../../app.py", "<eos>", "🙂",
    "x" * 6000, "null", "٣", "1_0", "+1", "[",
]  # fmt: skip
VALUES: list[Any] = [
    None, True, -1, 1.5, 2**70, -(2**70), 1e308, float("nan"), "", "a", "\ud800", "\x00", [], {}, [1], {"a": 1},
    {"\ud800": 1}, {"0": 2**70}, {"-1": 0}, ["\ud800"], ["padding"] * 100,
]  # fmt: skip
BODIES: dict[str, dict[str, Any]] = {
    "/api/traces": {"run": "format-1", "text": "I am", "target": None, "free": False, "forced": {}, "question": ""},
    "/api/compare-teacher-forcing": {"run": "format-1", "text": "I am", "target": "Je"},
    "/api/effect": {"run": "format-1", "text": "I am", "target": None, "changes": ["no-mask"]},
    "/api/ablate-heads": {"run": "format-1", "text": "I am", "target": None, "kind": "encoder"},
    "/api/worked-example": {"x": "1", "W_Q": "1", "W_K": "1", "W_V": "1", "memory": "2", "scaled": True, "decimals": 1},
    "/api/traces/{id}/masked": {"padding": 1, "masks": ["padding"]},
    "/api/traces/{id}/gradient": {},
    "/api/sample": {"run": "format-1", "text": "I am", "temperature": 1, "k": 0, "seed": 1, "length": 3},
}
QUERIES: dict[str, dict[str, str]] = {
    "/api/traces/{id}/weights": {"kind": "encoder"},
    "/api/traces/{id}/values": {"name": "logits", "at": "0"},
    "/api/traces/{id}/recipe": {"name": "logits"},
    "/api/traces/{id}/cell": {"name": "logits", "at": "0,0"},
    "/api/traces/{id}/weight": {"name": "encoder.0.self.query", "role": "weight"},
    "/api/traces/{id}/probable": {"name": "logits", "most": "3"},
    "/api/traces/{id}/choices": {"most": "3"},
    "/api/traces/{id}/tree": {"beam": "1"},
    "/api/traces/{id}/positions": {"side": "encoder", "length": "4"},
    "/api/traces/{id}/stream": {"side": "encoder"},
    "/api/traces/{id}/lens": {},
    "/api/traces/{id}/lens/choices": {"name": "decoder.input", "row": "0"},
    "/api/traces/{id}/written": {},
    "/api/traces/{id}/recurrent": {},
    "/api/traces/{id}/nearest": {"side": "encoder", "row": "0"},
    "/api/traces/{id}/contrast": {"step": "0", "token": "3", "other": "4"},
    "/api/traces/{id}/contrast/ablation": {"step": "0", "token": "3", "other": "4"},
    "/api/gradient-through-time": {"run": "format-1", "text": "I am"},
    "/api/image-examples": {"run": "format-1"},
    "/api/runs": {},
    "/api/lessons": {"language": "en"},
    "/api/lessons/{id}": {"language": "en"},
    "/api/numbers": {"run": "format-1"},
    "/api/log": {"run": "format-1", "start": "0"},
    "/api/frame": {"run": "format-1", "step": "1", "text": "a", "target": "b", "question": "c"},
    "/api/frame/weights": {"run": "format-1", "step": "1", "text": "a", "name": "x", "head": "0"},
}
CHANGES = [
    "", "=", "force", "silence", "force=a:b", "force=-1:5", "force=0:-5", "force=0:1", "force=9999999999999999999999:2",
    *(f"{change}={at}" for change, at in itertools.product(
        ("silence", "average", "cut", "no-mask", "no-positions", "row"),
        ("", "*", "[", "encoder.0.self.-1", "encoder.0.self.99999999999999999999", "decoder.9.self.0",
         "encoder.0.self.x", "encoder.0.self.0.0:nan", "encoder.0.self.0.0:inf,1", "encoder.0.self.0.-1:1",
         "encoder.0.self.0.0:"),
    )),
]  # fmt: skip


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    with TestClient(studio([FROZEN]), base_url=HERE) as client:
        yield client


@pytest.fixture(scope="module")
def trace(client: TestClient) -> str:
    found: str = client.post("/api/traces", json={"run": "format-1", "text": "I am a student"}).json()["id"]
    return found


def is_answered(answer: Any) -> bool:
    """A result, or an error in the one form that the page shows."""
    return answer.status_code < 400 or (answer.status_code < 500 and bool(answer.json()["what"]))


def test_every_route_is_tried(client: TestClient) -> None:
    paths = {re.sub(r"\{\w+\}", "{id}", path) for path in client.get("/openapi.json").json()["paths"]}
    assert paths == {*BODIES, *QUERIES, "/api/images", "/api/page"}


@pytest.mark.parametrize("path", BODIES)
def test_any_value_in_any_field_of_a_body(client: TestClient, trace: str, path: str) -> None:
    right = BODIES[path]
    bodies = [right | {field: value} for field in right for value in VALUES]
    bodies += [{name: right[name] for name in right if name != field} for field in right]
    for body in [*bodies, *VALUES]:
        answer = client.post(path.format(id=trace), content=json.dumps(body), headers=JSON)
        assert is_answered(answer), body


@pytest.mark.parametrize("path", QUERIES)
def test_any_text_in_any_field_of_a_query(client: TestClient, trace: str, path: str) -> None:
    right = QUERIES[path]
    assert is_answered(client.get(path.format(id=trace), params=right))
    for field, text in itertools.product(right, TEXTS):
        answer = client.get(path.format(id=trace), params=right | {field: text})
        assert is_answered(answer), (field, text)
    for field in right:
        assert is_answered(client.get(path.format(id=trace), params={n: right[n] for n in right if n != field}))
    assert client.get(path.format(id="..%2f"), params=right).status_code < 500


def test_every_error_is_translated(client: TestClient, trace: str) -> None:
    answers = [
        client.get(path.format(id=trace), params=right | {field: text})
        for path, right in QUERIES.items()
        for field, text in itertools.product(right, TEXTS)
    ]
    for path, right in BODIES.items():
        bodies = [right | {field: value} for field in right for value in VALUES]
        answers += [client.post(path.format(id=trace), content=json.dumps(body), headers=JSON) for body in bodies]
    errors = [answer.json()["messages"] for answer in answers if answer.status_code >= 400]
    untranslated = [error[part] for error in errors for part in ("what", "hint") if not is_translated(error[part])]
    assert {message["text"] for message in untranslated} <= {""}


@pytest.mark.parametrize("change", CHANGES)
def test_any_change(client: TestClient, change: str) -> None:
    for target in (None, ""):
        asked = {"run": "format-1", "text": "I am", "target": target, "changes": [change]}
        assert is_answered(client.post("/api/effect", json=asked))


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"\xff\xfe", b'{"run":NaN}', b"[" * 100_000, b'{"run":"format-1","text":"\\ud800"}', b"1" * 5000],
    ids=["empty", "half", "no UTF-8", "NaN", "deep", "surrogate", "long number"],
)
@pytest.mark.parametrize("path", BODIES)
def test_any_bytes_as_a_body(client: TestClient, trace: str, path: str, body: bytes) -> None:
    assert is_answered(client.post(path.format(id=trace), content=body, headers=JSON))


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(max_size=40), target=st.none() | st.text(max_size=20))
def test_any_sentence(client: TestClient, text: str, target: str | None) -> None:
    asked = json.dumps({"run": "format-1", "text": text, "target": target})
    assert is_answered(client.post("/api/traces", content=asked, headers=JSON))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("content-length", "abc"),
        ("content-length", "9" * 30),
        ("transfer-encoding", "chunked"),
        ("host", ""),
        ("host", "["),
        ("origin", "["),
        ("origin", "http://[::1"),
        ("cookie", "visitor="),
        ("cookie", ";;=="),
        ("content-type", "multipart/form-data"),
        ("range", "bytes=5-2"),
    ],
)
def test_any_header(client: TestClient, name: str, value: str) -> None:
    for path in ("/", "/static/js/main.js", "/api/runs"):
        assert client.get(path, headers={name: value}).status_code < 500
    for path in ("/api/traces", "/api/images?run=format-1"):
        assert is_answered(client.post(path, content=b'{"run":"format-1","text":"a"}', headers={name: value}))


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"])
@pytest.mark.parametrize(
    "path", ["/api", "/api/runs", "/static", "/static/%2e%2e/app.py", "/static/..%2fapp.py", "/static/%00", "/nowhere"]
)
def test_any_address(client: TestClient, method: str, path: str) -> None:
    answer = client.request(method, path)
    assert answer.status_code < 500 and b"def studio" not in answer.content


def test_a_field_that_cannot_be_read_is_named(client: TestClient) -> None:
    asked = {"run": "format-1", "text": "I am", "forced": {"a": 1}}
    told = client.post("/api/traces", json=asked).json()
    assert told["what"] == "Invalid request: an integer is expected."
    assert told["where"] == "forced.a"


def test_an_unknown_address_is_told_in_the_form_of_every_error(client: TestClient) -> None:
    answer = client.get("/api/nowhere")
    assert answer.status_code == 404 and answer.json()["what"]


def test_lines_of_a_log_that_json_cannot_carry(tmp_path: Path) -> None:
    lines = ['{"event": "note", "text": "\\ud800"}', '{"event": "progress", "loss": [NaN]}', "[" * 100_000, "\x00", "1"]
    (tmp_path / "log.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    with TestClient(studio([tmp_path]), base_url=HERE) as client:
        answer = client.get("/api/log", params={"run": tmp_path.name})
    assert answer.status_code == 200 and answer.json()["events"][0]["text"] == "?"


# ------------------------------------------------------------------------------------------ who waits for a model


class OffTheLoop:
    """A lock that must not be waited for on an event loop, where every other visitor would wait as well."""

    def __init__(self) -> None:
        self.inner, self.taken = threading.Lock(), 0

    def __enter__(self) -> None:
        with pytest.raises(RuntimeError):
            asyncio.get_running_loop()
        self.inner.acquire()
        self.taken += 1

    def __exit__(self, *error: object) -> None:
        self.inner.release()


def test_no_model_runs_on_the_event_loop(small_image_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    locks: list[OffTheLoop] = []

    def lock() -> OffTheLoop:
        locks.append(OffTheLoop())
        return locks[-1]

    monkeypatch.setattr(context, "Lock", lock)
    with TestClient(studio([FROZEN, small_image_run]), base_url=HERE) as client:
        found = client.post("/api/images", params={"run": small_image_run.name}, content=_picture())
        assert found.status_code == 200 and [one.taken for one in locks] == [1]
        trace = client.post("/api/traces", json=BODIES["/api/traces"]).json()["id"]
        for path, body in BODIES.items():
            assert is_answered(client.post(path.format(id=trace), json=body))
        for path, query in QUERIES.items():
            assert is_answered(client.get(path.format(id=trace), params=query))
    assert locks[0].taken > len(BODIES)


def _picture() -> bytes:
    image = pytest.importorskip("PIL.Image")
    file = io.BytesIO()
    image.new("L", (16, 8)).save(file, "png")
    return file.getvalue()


@pytest.fixture(scope="module")
def small_image_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ViT trained for a few steps on random pictures."""
    image = pytest.importorskip("PIL.Image")
    from glassformer.training.train import train

    folder, chance = tmp_path_factory.mktemp("pictures"), random.Random(1)
    for label, number in itertools.product("ab", range(8)):
        file = folder / "data" / label / f"{number}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        image.frombytes("L", (16, 8), chance.randbytes(128)).save(file)
    sizes = {"family": "vit", "layers": 1, "d_model": 10, "heads": 2, "d_ff": 14, "patch": 4, "dropout": 0.0}
    steps = {"steps": 2, "validate_every": 2, "checkpoint_every": 2, "batch_tokens": 100}
    settings = {"task": "image_classification", "model": sizes, "train": steps}
    train(str(folder / "data"), out=folder / "run", settings=settings)
    return Path(folder / "run")


@pytest.mark.parametrize("body", [b"", b"x", b"\x89PNG\r\n\x1a\n", b"GIF89a" + bytes(20), b"BM" + bytes(100)])
def test_any_bytes_as_a_picture(small_image_run: Path, body: bytes) -> None:
    with TestClient(studio([small_image_run]), base_url=HERE) as client:
        answer = client.post("/api/images", params={"run": small_image_run.name}, content=body)
        assert answer.status_code == 400 and answer.json()["what"]
