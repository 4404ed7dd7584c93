"""Benchmark of quality: BLEU on the test set after a given number of minutes of training, for recipes and a peer."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import NoReturn

from glassformer.errors import UserError
from glassformer.files import write_text
from glassformer.inference.run_folder import RunFolder
from glassformer.lab.bench import processes
from glassformer.lab.bench.figures import new_figure, save_figure
from glassformer.lab.bench.finished_runs import seconds_of_diversification
from glassformer.lab.bench.runner import BENCH, CONTENDERS, OURS, Log, Row, python_of, require_scripts
from glassformer.settings import read_settings, task_of
from glassformer.text.lines import read_lines
from glassformer.text.tokenizer import Tokenizer
from glassformer.training.events import read_log

MAX_STEPS = 1_000_000  # the minutes end the training
PEER = "hf"


def run(
    recipes: Sequence[Path], minutes: Sequence[float], *, threads: int, peer: tuple[Path, Path] | None, log: Log
) -> list[Row]:
    """Train every recipe for every number of minutes, and the peer if its prepared data and references are given."""
    require_scripts()
    _check_recipes(recipes)
    rows = []
    with tempfile.TemporaryDirectory(prefix="glassformer-") as name:
        for recipe in recipes:
            for limit in minutes:
                log(f"{recipe.name}: {limit:g} minutes")
                result = _train(recipe, Path(name) / recipe.stem / f"{limit:g}", limit, threads)
                rows.append(Row(_case(limit), recipe.stem, f"{OURS} {version(OURS)}, {recipe.name}", [result]))
        for limit in minutes if peer else ():
            assert peer is not None
            log(f"{PEER}: {limit:g} minutes")
            result = _train_peer(*peer, Path(name) / "outputs.json", limit, threads, log)
            rows.append(Row(_case(limit), PEER, str(result.pop("version")), [result]))
    return rows


def _check_recipes(recipes: Sequence[Path]) -> None:
    """Refuse before the first training what would be found out only after it."""
    from glassformer.tasks import task_spec, with_task  # imports PyTorch

    names: dict[str, Path] = {}
    for recipe in recipes:
        if (other := names.setdefault(recipe.stem, recipe)) is not recipe:
            hint = "rename one of them: the table names each row by its recipe"
            raise UserError("Two recipes have the same name.", where=f"{other} and {recipe}", hint=hint)
        raw, _ = with_task(read_settings(recipe), is_new=True)
        if not task_spec(task_of(raw)).sequence_to_sequence:
            hint = "name a recipe of task=translation"
            raise UserError(f"The recipe is for task={task_of(raw)}, which has no BLEU.", where=str(recipe), hint=hint)
        if not raw.get("data", {}).get("test"):
            hint = "add test files to the recipe: BLEU is that of the test set"
            raise UserError("The recipe has no test data.", where=f"{recipe}: data.test", hint=hint)


def _case(minutes: float) -> str:
    return f"{minutes:g} minutes"


def _train(recipe: Path, out: Path, minutes: float, threads: int) -> dict[str, float]:
    settings = [f"train.minutes={minutes}", f"train.steps={MAX_STEPS}"]
    command = [sys.executable, "-m", "glassformer", "train", str(recipe), "-o", str(out), *settings]
    done = processes.run(command, threads=threads, timeout=24 * 3600)
    events = list(read_log(RunFolder(out).log))
    tested = [event for event in events if event["event"] == "tested" and event["split"] == "test"]
    if not tested:
        _refuse(recipe, done.errors)
    training = [event for event in events if event["event"] in ("started", "progress", "validated")]
    return {
        "minutes": (training[-1]["time"] - training[0]["time"] + seconds_of_diversification(out)) / 60,
        "bleu": tested[-1]["scores"]["bleu"],
        "steps": training[-1]["step"],
        "peak_megabytes": done.peak_megabytes,
    }


def _refuse(recipe: Path, errors: str) -> NoReturn:
    """Raise the error for a recipe without a score on the test set."""
    raise UserError(
        "The recipe could not be trained and tested.",
        where=" ".join(errors.rpartition("error: ")[2].split()) or str(recipe),
        hint=f"run it separately: glassformer train {recipe}",
    )


def _train_peer(
    data: Path, references: Path, outputs: Path, minutes: float, threads: int, log: Log
) -> dict[str, float]:
    from glassformer.tasks.metrics import bleu

    options = ["--minutes", str(minutes), "--outputs", str(outputs), "--size", "small", "--beam", "4"]
    script = [str(BENCH / "one.py"), "quality", CONTENDERS[PEER].module, "--data", str(data)]
    command = [python_of(PEER, log), *script, *options]
    done = processes.run(command, threads=threads, timeout=60 * minutes + 3600)
    result = processes.result_of(done, command, PEER)
    tokenizer = Tokenizer.load(data / "glassformer" / "tokenizer.json")
    lines = [tokenizer.decode(ids) for ids in json.loads(outputs.read_text(encoding="utf-8"))]
    result.pop("own_peak_megabytes")
    return result | {
        "bleu": bleu(lines, list(read_lines(references))).value,
        "peak_megabytes": done.peak_megabytes,
    }


def table(rows: list[Row]) -> list[str]:
    """Return a Markdown table with the BLEU of every recipe and number of minutes."""
    lines = [
        "| settings | minutes, planned | minutes, measured | steps | BLEU, test | peak MB |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        planned = row.case.removesuffix(" minutes")
        measured, bleu, megabytes = (row.median(name) for name in ("minutes", "bleu", "peak_megabytes"))
        steps = f"{row.median('steps'):,.0f}"
        lines.append(f"| {row.version} | {planned} | {measured:.1f} | {steps} | {bleu:.2f} | {megabytes:,.0f} |")
    return lines


def save(rows: list[Row], command: str, machine: str, folder: Path) -> Path:
    """Save the results as JSON, a chart of BLEU against minutes and a page; return the page."""
    kept = {"command": command, "machine": machine, "rows": [vars(row) for row in rows]}
    write_text(folder / "quality" / "minutes.json", json.dumps(kept, indent=1, ensure_ascii=False) + "\n")
    draw(rows, folder / "quality" / "minutes.svg")
    page = folder / "minutes.md"
    lines = [
        "# BLEU by minutes of training",
        "",
        f"Written by `{command}`, {machine}.",
        "",
        "Every row is a separate training with `train.minutes`; the learning rate reaches 0 at their end. Cased",
        "sacreBLEU on the test set, beam 4.",
        "",
        *table(rows),
        "",
        "![BLEU by minutes of training](quality/minutes.svg)",
    ]
    write_text(page, "\n".join(lines) + "\n")
    return page


def draw(rows: list[Row], path: Path) -> None:
    """Draw one curve per recipe."""
    figure = new_figure(6.4, 4.0)
    panel = figure.subplots()
    for name in dict.fromkeys(row.contender for row in rows):
        points = sorted((row.median("minutes"), row.median("bleu")) for row in rows if row.contender == name)
        panel.plot(*zip(*points, strict=True), marker="o", markersize=4, label=name)
    panel.set_xlabel("minutes of training")
    panel.set_ylabel("BLEU, test set")
    panel.grid(visible=True, color="0.9")
    panel.legend(frameon=False)
    save_figure(figure, path)
