"""The command `glassformer info`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer


def info(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="run folder")],
    as_json: Annotated[bool, typer.Option("--json", help="print one line of JSON")] = False,
) -> None:
    """Show the settings, scores and training progress of a run.

    Example: glassformer info runs/en-de
    """
    from glassformer.inference.base_run import BaseRun
    from glassformer.inference.run_folder import RunFolder, load_settings
    from glassformer.inference.search_engine import engine_of

    folder = RunFolder(run)
    settings = load_settings(folder)
    log, unit = _last_events(folder.log)
    engine, reason = engine_of(settings.model)
    if as_json:
        record = {"run": str(run), "settings": settings.model_dump(), "finished": folder.card.exists(), "last": log}
        print(json.dumps(record | {"engine": engine, "engine_reason": reason}))
        return
    print(settings.to_toml())
    for event in log.values():
        shown = (_describe(key, value, unit) for key, value in event.items() if key not in ("event", "time"))
        print(f"{event['event']}: " + ", ".join(shown))
    state = "finished" if folder.card.exists() else f"not finished (continue with: glassformer train -o {run} --resume)"
    kind = f"an adapter of the run {BaseRun.load(folder).name}" if folder.is_adapter else "weights"
    exists = folder.weights.exists()
    weights = f"{folder.weights.stat().st_size / 1e6:.1f} MB of {kind}" if exists else "no weights yet"
    print(f"engine on this machine: {engine} ({reason})")
    print(f"{run}: {state}, {weights}")


def _describe(name: str, value: object, unit: str) -> str:
    if isinstance(value, dict):  # the scores
        return ", ".join(_describe(score, of, unit) for score, of in value.items())
    if name == "tokens_per_second" and isinstance(value, float):
        return f"{value:,.0f} {unit}/s"
    return f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}"


def _last_events(log: Path) -> tuple[dict[str, dict[str, object]], str]:
    """Return the last event of each kind, without notes, and the unit of the training speed."""
    from glassformer.training.events import read_log

    last: dict[str, dict[str, object]] = {}
    unit = "predictions"  # true of every task; logs of older versions do not say more
    for event in read_log(log):
        if event["event"] == "started":
            unit = str(event.get("unit", unit))
        kind = f"{event['event']} {event['split']}" if "split" in event else event["event"]
        if kind in ("progress", "validated", "finished") or kind.startswith("tested"):
            last[kind] = event
    return last, unit
