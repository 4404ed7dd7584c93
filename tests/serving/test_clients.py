"""The clients that people use, unchanged: libretranslatepy, deep-translator, openai, and three packages of npm."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from server_process import ServerProcess

ROOT = Path(__file__).parents[2]
ONE, TWO = "I am a student.", "The cat sleeps."


def test_libretranslatepy(server: ServerProcess, french: dict[str, str]) -> None:
    from libretranslatepy import LibreTranslateAPI

    client = LibreTranslateAPI(server.url, api_key="not needed")
    assert client.translate(ONE, "en", "fr") == french[ONE]
    assert client.detect("je suis étudiant")[0]["language"] == "fr"
    assert [language["code"] for language in client.languages()] == ["en", "fr"]


def test_deep_translator(server: ServerProcess, french: dict[str, str]) -> None:
    from deep_translator import LibreTranslator

    client = LibreTranslator(source="en", target="fr", api_key="not needed", custom_url=f"{server.url}/")
    assert client.translate(ONE) == french[ONE]
    assert client.translate_batch([ONE, TWO]) == [french[ONE], french[TWO]]


def test_openai(server: ServerProcess, other_runs: list[Path]) -> None:
    import openai

    from glassformer.decoding import Sampling
    from glassformer.inference.loading import load

    client = openai.OpenAI(base_url=f"{server.url}/v1", api_key="not needed", max_retries=0)
    assert "story" in [model.id for model in client.models.list()]
    assert client.models.retrieve("story").owned_by == "glassformer"
    expected = load(other_runs[0])("The cat", length=9, sampling=Sampling(0.8, 5, 1.0, 7)).removeprefix("The cat")
    asked = {"model": "story", "prompt": "The cat", "max_tokens": 9, "temperature": 0.8, "seed": 7}
    answer = client.completions.create(**asked, extra_body={"top_k": 5})  # type: ignore[call-overload]
    assert answer.choices[0].text == expected and answer.choices[0].finish_reason == "length"
    assert answer.usage.completion_tokens == 9 and answer.usage.prompt_tokens > 0
    pieces = client.completions.create(**asked, extra_body={"top_k": 5}, stream=True)  # type: ignore[call-overload]
    chunks = [piece.choices[0] for piece in pieces]
    assert "".join(chunk.text for chunk in chunks) == expected and chunks[-1].finish_reason == "length"
    several = client.completions.create(model="story", prompt=["a", "b"], max_tokens=3, n=2, echo=True, temperature=0)
    assert [choice.text[0] for choice in several.choices] == ["a", "a", "b", "b"]
    assert several.choices[0].text == several.choices[1].text  # greedy decoding
    with pytest.raises(openai.NotFoundError, match="There is no model"):
        client.completions.create(model="nothing", prompt="x")
    with pytest.raises(openai.BadRequestError, match="cannot do this"):
        client.completions.create(model="en-fr", prompt="x")


@pytest.mark.skipif(shutil.which("node") is None, reason="Node is not installed")
@pytest.mark.skipif(not (ROOT / "node_modules" / "libretranslate-ts").is_dir(), reason="npm ci has not been run")
def test_clients_of_npm(server: ServerProcess, french: dict[str, str]) -> None:
    command = ["node", str(Path(__file__).with_name("npm_clients.mjs")), server.url, ONE]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "translate": french[ONE],
        "libretranslate": french[ONE],
        "libretranslate auto": french[ONE],
        "libretranslate-ts": {"status": 200, "translatedText": french[ONE], "alternatives": 2},
        "libretranslate-ts languages": ["en", "fr"],
        "libretranslate-ts detect": "en",
        "libretranslate-ts error": "xx is not supported",
    }
