"""Builders that many tests share. No two sizes are equal, and most are prime, so that no swapped axis passes."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import torch
from torch import Tensor, nn

from glassformer import machine
from glassformer.models.transformer import Transformer
from glassformer.operating_system import lock
from glassformer.settings import TransformerSettings
from tests.families import EOS, PAD, SIZES, VOCAB, perturb, transformer

CHROMIUM_ARGUMENTS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip

# Models of this size are faster on one thread, and sums then have one order.
torch.set_num_threads(1)

# How long an example takes says more about what else the machine does than about the code.
hypothesis.settings.register_profile("any machine", deadline=None)
hypothesis.settings.load_profile("any machine")


@pytest.fixture(scope="session", autouse=True)
def _cache_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Write nothing to the home folder, and find bf16 unsafe on every CPU; child processes inherit both.

    Whether bf16 is safe and fast differs between CPUs, and `train.precision=auto` follows it. The answer is cached.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        with patch.context() as trial:
            trial.setattr(machine, "TRIAL", "raise SystemExit(1)")
            assert machine.bf16_speed() is None
        yield


@pytest.fixture(autouse=True)
def _same_chance_in_any_order() -> None:
    """Seed the random numbers, so that no test depends on the tests before it."""
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def _no_running_event_loop(request: pytest.FixtureRequest) -> Iterator[None]:
    """Let tests without a browser run an event loop of their own.

    The browser of an earlier test in this process leaves the event loop of Playwright marked as running.
    """
    running = None if "chromium" in request.fixturenames else asyncio._get_running_loop()
    if running is None:
        yield
        return
    asyncio._set_running_loop(None)
    yield
    asyncio._set_running_loop(running)


@pytest.fixture
def tiny_settings() -> Callable[..., TransformerSettings]:
    """`tiny_settings(norm="pre")`: the settings of a model of a few thousand weights, with changes."""

    def build(**over: Any) -> TransformerSettings:
        return TransformerSettings(**({"encoder_layers": 2, "decoder_layers": 3} | SIZES | over))

    return build


@pytest.fixture
def enliven() -> Callable[[nn.Module], nn.Module]:
    """Move biases and normalization weights away from 0 and 1, so that leaving one out changes the output."""
    return perturb


@pytest.fixture
def tiny_model() -> Callable[..., Transformer]:
    """`tiny_model(seed=1, norm="pre")`: a Transformer with random weights, in eval mode."""

    def build(seed: int = 1, **over: Any) -> Transformer:
        torch.manual_seed(seed)
        return perturb(transformer(**over)).eval()

    return build


@pytest.fixture
def padded() -> Callable[..., Tensor]:
    """`padded([5, 3])`: rows of random tokens of these lengths, padded at the end. Never a special token."""

    def build(lengths: list[int], seed: int = 0) -> Tensor:
        random = torch.Generator().manual_seed(seed)
        tokens_BT = torch.randint(EOS + 1, VOCAB, (len(lengths), max(lengths)), generator=random)
        for row, length in enumerate(lengths):
            tokens_BT[row, length:] = PAD
        return tokens_BT

    return build


@dataclass(frozen=True)
class ScriptState:
    source_N: Tensor
    history_NT: Tensor

    def select(self, rows: Tensor) -> ScriptState:
        return ScriptState(self.source_N[rows], self.history_NT[rows])


@dataclass
class Script:
    """A generator whose logits are given by a function, so that the right output is known.

    `rule(source_N, history_NT)` sees the first source token of each row and all tokens that it was stepped with,
    `<sos>` first. `rows` counts the rows of every step.
    """

    rule: Callable[[Tensor, Tensor], Tensor]
    rows: list[int] = field(default_factory=list)

    def encode(self, source_BS: Tensor) -> Tensor:
        return source_BS[:, 0]

    def start(self, memory: Tensor, copies: int = 1) -> ScriptState:
        source_N = memory.repeat_interleave(copies)
        return ScriptState(source_N, torch.empty(len(source_N), 0, dtype=torch.long))

    def step(self, tokens_B: Tensor, state: ScriptState) -> tuple[Tensor, ScriptState]:
        self.rows.append(len(tokens_B))
        state = replace(state, history_NT=torch.cat([state.history_NT, tokens_B[:, None]], dim=1))
        return self.rule(state.source_N, state.history_NT), state


@pytest.fixture
def script() -> type[Script]:
    return Script


@pytest.fixture
def chain() -> Callable[..., Script]:
    """`chain(table)`: the next token depends on the last one, by probabilities `table[last][next]`.

    With three axes, the first one is the source token.
    """

    def build(table: Any) -> Script:
        logits = torch.as_tensor(table, dtype=torch.float32).log()

        def rule(source_N: Tensor, history_NT: Tensor) -> Tensor:
            last_N = history_NT[:, -1]
            return logits[last_N] if logits.dim() == 2 else logits[source_N, last_N]

        return Script(rule)

    return build


@pytest.fixture
def tree() -> Callable[..., Script]:
    """`tree(vocab=4, seed=0)`: random logits that differ for every history and for every source below 7.

    They are not normalised. Histories may have up to eight tokens, `<sos>` included.
    """

    def build(*, vocab: int, seed: int, sharpness: float = 1.0) -> Script:
        random = torch.Generator().manual_seed(seed)
        logits_HV = torch.randn(10007, vocab, generator=random) * sharpness + 3.0

        def rule(source_N: Tensor, history_NT: Tensor) -> Tensor:
            power_T = torch.tensor([11**i for i in range(history_NT.shape[1])])
            key_N = ((history_NT + 1) * power_T).sum(1) * 7 + source_N
            return logits_HV[key_N % len(logits_HV)]

        return Script(rule)

    return build


@pytest.fixture(scope="session")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, Callable[[Path], object]], Path]:
    """`made_once("runs", make)`: a folder that `make(folder)` fills for all processes of the tests; not to be changed.

    The first process that asks for it makes it, and the others wait.
    """

    def once(name: str, make: Callable[[Path], object]) -> Path:
        base = tmp_path_factory.getbasetemp()
        shared = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "shared"
        shared.mkdir(exist_ok=True)
        folder, done = shared / name, shared / f"{name}.done"
        with (shared / f"{name}.lock").open("w", encoding="utf-8") as file:
            lock(file, wait=True)
            if not done.exists():
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir()
                make(folder)
                done.touch()
        return folder

    return once


@pytest.fixture
def workdir(template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the folder `template`, which the test may change; it is the current folder."""
    folder = tmp_path / "workdir"
    shutil.copytree(template, folder)
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """A real browser for all tests of a process: Playwright's synchronous interface cannot be started twice in one."""
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("no chromium on this machine: apt-get install chromium")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=CHROMIUM_ARGUMENTS)
        yield browser
        browser.close()


SMALL_RUNS: dict[str, dict[str, Any]] = {
    "transformer": {"family": "transformer", "layers": 2, "d_model": 24, "heads": 3, "d_ff": 37},
    "gru": {"family": "recurrent", "cell": "gru", "attention": "additive", "layers": 1, "d_model": 22},
    "plain": {"family": "recurrent", "cell": "gru", "attention": "none", "layers": 1, "d_model": 22},
}


@pytest.fixture(scope="session")
def small_runs(made_once: Callable[..., Path]) -> dict[str, Path]:
    """Runs of a few steps on the phrasebook, each with its log and two checkpoints; tests must not change them."""
    folder = made_once("small", _train_small_runs)
    return {name: folder / name for name in SMALL_RUNS}


def _train_small_runs(folder: Path) -> None:
    from glassformer.phrasebook.corpus import phrasebook
    from glassformer.training.train import train

    book = phrasebook()
    sides: dict[str, list[str]] = {}
    for split, most in (("train", 400), ("valid", 11)):
        for side in ("en", "fr"):
            file = folder / f"{split}.{side}"
            file.write_text("".join(f"{one.text(side)}\n" for one in getattr(book, split)[:most]), encoding="utf-8")
            sides.setdefault(split, []).append(str(file))
    shared = {
        "tokenizer": {"vocab": 400},
        "decode": {"beam": 1, "max_length": 30},
        "train": {"steps": 20, "validate_every": 10, "checkpoint_every": 10, "batch_tokens": 500, "lr": 0.01},
    }
    for name, sizes in SMALL_RUNS.items():
        train(*sides["train"], valid=sides["valid"], out=folder / name, settings=shared | {"model": sizes})
